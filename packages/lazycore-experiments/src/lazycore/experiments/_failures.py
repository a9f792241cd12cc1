"""Why an attempt failed: one class each, so that retries and reports can tell."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["FailureClass"]


class FailureClass(StrEnum):
    """The kind of a failed attempt.

    Examples:
        >>> FailureClass("timeout") is FailureClass.TIMEOUT
        True
    """

    ALGORITHM = "algorithm"
    """The method itself reported that it failed."""
    BENCHMARK = "benchmark"
    """The worker reported that the benchmark, not the method, failed."""
    TIMEOUT = "timeout"
    """The wall-clock or CPU limit was reached."""
    OOM = "oom"
    """The memory limit was reached."""
    CRASH = "crash"
    """The worker ended without an answer."""
    PROTOCOL = "protocol"
    """The worker answered outside the protocol."""
    SECRET = "secret"  # noqa: S105 - the name of a failure class
    """A passed secret appeared in the answer."""
    DRIFT = "drift"
    """A locked input changed while the attempt ran."""
    INFRASTRUCTURE = "infrastructure"
    """The host, the sandbox or the engine failed, not the worker."""

"""Say what the end of a sandboxed worker means: a failure class, or an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazycore.experiments._failures import FailureClass
from lazycore.experiments._outcome import Resources

if TYPE_CHECKING:
    from lazycore.sandbox import SandboxResult

__all__ = [
    "RawAttempt",
    "WarmStartError",
    "classify",
    "classify_error",
    "no_result",
    "unmetered",
]

_METHOD = "wait4"
_STDERR_TAIL = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class RawAttempt:
    """What the sandbox handed back, before it is judged."""

    reply: bytes | None
    failure_class: FailureClass | None
    message: str | None
    resources: Resources


class WarmStartError(Exception):
    """A process that serves many requests could not load its worker."""


def classify(result: SandboxResult, reply: bytes | None) -> RawAttempt:
    """Say what a sandboxed worker's end means."""
    kinds = {violation.kind for violation in result.violations}
    tail = result.stderr[-_STDERR_TAIL:].decode("utf-8", "replace").strip()
    reason, failure, message = "completed", None, None
    if result.timed_out or "cpu" in kinds:
        reason, failure = "timed_out", FailureClass.TIMEOUT
        what = "its wall-clock limit" if result.timed_out else "its CPU limit"
        message = f"the worker passed {what}"
    elif "memory" in kinds or (
        result.returncode != 0 and tail.rpartition("\n")[2].startswith("MemoryError")
    ):
        reason, failure = "oom_killed", FailureClass.OOM
        message = "the worker passed its memory limit"
    elif result.signal is not None:
        reason, failure = "signal", FailureClass.CRASH
        message = f"the worker was ended by signal {result.signal}"
    elif result.returncode != 0:
        reason, failure = "nonzero_exit", FailureClass.CRASH
        message = f"the worker ended with status {result.returncode}"
    elif result.reply_truncated:
        failure, message = FailureClass.PROTOCOL, "the answer is over response_bytes"
    if message is not None and tail:
        message = f"{message}: {tail}"
    code = result.returncode if result.signal is None else -result.signal
    return RawAttempt(
        reply=reply,
        failure_class=failure,
        message=message,
        resources=Resources(
            wall_s=result.duration_s,
            cpu_s=result.usage.cpu_s,
            max_rss_bytes=result.usage.max_rss_bytes or None,
            exit_reason=reason,
            exit_code=code,
            method=_METHOD,
        ),
    )


def classify_error(error: Exception, result: SandboxResult) -> RawAttempt:
    """Judge an attempt whose callable raised or left no value."""
    from lazycore.sandbox import SandboxCallableError, SandboxFrameError

    raw = classify(result, None)
    if raw.failure_class not in {None, FailureClass.CRASH}:
        return raw
    failure = FailureClass.CRASH
    text = str(error)
    if isinstance(error, SandboxFrameError):
        failure = FailureClass.PROTOCOL
    elif isinstance(error, SandboxCallableError):
        text = error.traceback_text or text
        if error.type_name == "MemoryError":
            failure = FailureClass.OOM
    return replace(raw, failure_class=failure, message=text)


def no_result(error: Exception, wall_s: float) -> RawAttempt:
    """Judge an attempt of which the sandbox has no result at all."""
    from lazycore.sandbox import SandboxCallableError, SandboxFrameError

    failure = FailureClass.INFRASTRUCTURE
    if isinstance(error, WarmStartError | SandboxCallableError):
        failure = FailureClass.CRASH
    elif isinstance(error, SandboxFrameError):
        failure = FailureClass.PROTOCOL
    return RawAttempt(
        reply=None,
        failure_class=failure,
        message=f"{type(error).__name__}: {error}",
        resources=unmetered(wall_s, "supervisor_error", method=_METHOD),
    )


def unmetered(wall_s: float, reason: str, *, method: str) -> Resources:
    """Return what is known of an attempt that no process of its own ran."""
    return Resources(
        wall_s=wall_s,
        cpu_s=None,
        max_rss_bytes=None,
        exit_reason=reason,
        exit_code=None,
        method=method,
    )

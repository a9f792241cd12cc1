"""Choose a backend by what it guarantees on this host, never by its name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lazycore.sandbox._errors import SandboxBackendUnavailableError
from lazycore.sandbox._executor import refusal
from lazycore.sandbox._guarantees import BackendReport, Guarantee, required_guarantees
from lazycore.sandbox._policy import SandboxPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazycore.sandbox._executor import BaseSandboxExecutor


_SYSTEM: str = sys.platform


def backends() -> tuple[type[BaseSandboxExecutor], ...]:
    """Return this system's executor classes, the strongest first."""
    if _SYSTEM == "linux":
        from lazycore.sandbox._linux._bubblewrap import BubblewrapSandboxExecutor
        from lazycore.sandbox._linux._landlocked import LandlockSandboxExecutor
        from lazycore.sandbox._linux._namespace import LinuxNamespaceSandboxExecutor

        return (
            LinuxNamespaceSandboxExecutor,
            BubblewrapSandboxExecutor,
            LandlockSandboxExecutor,
        )
    if _SYSTEM == "darwin":
        from lazycore.sandbox._macos._executor import SeatbeltSandboxExecutor

        return (SeatbeltSandboxExecutor,)
    return ()


def get_default_executor(
    policy: SandboxPolicy | None = None,
    *,
    allow_degraded: Iterable[Guarantee] = frozenset(),
) -> BaseSandboxExecutor:
    """Return an executor of the first backend that holds `policy` on this host.

    Args:
        policy: What the executor will have to hold; None means the empty policy.
            A run of another policy is checked again when it starts.
        allow_degraded: Guarantees to do without if need be; written into results.

    Returns:
        A new executor; close it, or use it as a context manager.

    Raises:
        SandboxBackendUnavailableError: If no backend holds the policy. The message
            lists each backend, what it lacks and what mends it.

    Examples:
        >>> from lazycore.sandbox import SandboxPolicy
        >>> with get_default_executor() as executor:
        ...     executor.run_command(["true"], SandboxPolicy()).returncode
        0
    """
    wanted = policy or SandboxPolicy()
    degraded = frozenset(Guarantee(item) for item in allow_degraded)
    needed = required_guarantees(wanted) - degraded
    reports: list[BackendReport] = []
    for backend in backends():
        report = backend.probe_for(needed)
        if report.available and needed <= report.guarantees:
            return backend(allow_degraded=degraded)
        reports.append(report)
    if not reports:
        reports.append(
            BackendReport(
                backend=sys.platform,
                available=False,
                reason="no backend exists for this system",
                remedy="run on Linux or macOS; on Windows, inside WSL 2",
            )
        )
    raise SandboxBackendUnavailableError(
        refusal(reports, wanted, allow_degraded=degraded)
    )


def diagnose() -> tuple[BackendReport, ...]:
    """Probe every backend of this system.

    Returns:
        One report per backend, the strongest first: what it enforces here, or why
        it cannot run and what mends it.

    Examples:
        >>> all(report.backend for report in diagnose())
        True
    """
    return tuple(backend.probe() for backend in backends())

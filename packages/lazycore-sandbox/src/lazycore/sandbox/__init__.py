"""Run untrusted commands and callables under one policy; it fails closed."""

from importlib import import_module

TYPE_CHECKING = False  # importing typing would cost half of this module's time

if TYPE_CHECKING:
    from lazycore.sandbox._errors import (
        SandboxBackendUnavailableError,
        SandboxCallableError,
        SandboxCommandFailedError,
        SandboxCommandNotFoundError,
        SandboxError,
        SandboxFrameError,
        SandboxLaunchError,
        SandboxLostError,
        SandboxPolicyError,
        SandboxPolicyViolationError,
        SandboxTimeoutError,
        SandboxWorkspaceError,
    )
    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._guarantees import (
        BackendReport,
        Guarantee,
        required_guarantees,
    )
    from lazycore.sandbox._limits import ResourceLimits
    from lazycore.sandbox._linux._bubblewrap import BubblewrapSandboxExecutor
    from lazycore.sandbox._linux._landlocked import LandlockSandboxExecutor
    from lazycore.sandbox._linux._namespace import LinuxNamespaceSandboxExecutor
    from lazycore.sandbox._macos._executor import SeatbeltSandboxExecutor
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._result import (
        ResourceUsage,
        SandboxResult,
        Violation,
        WorkspaceChange,
    )
    from lazycore.sandbox._select import diagnose, get_default_executor
    from lazycore.sandbox._session import SandboxSession
    from lazycore.sandbox._workspace import Workspace

_HOMES = {
    "BackendReport": "_guarantees",
    "BaseSandboxExecutor": "_executor",
    "BubblewrapSandboxExecutor": "_linux._bubblewrap",
    "Guarantee": "_guarantees",
    "LandlockSandboxExecutor": "_linux._landlocked",
    "LinuxNamespaceSandboxExecutor": "_linux._namespace",
    "ResourceLimits": "_limits",
    "ResourceUsage": "_result",
    "SandboxBackendUnavailableError": "_errors",
    "SandboxCallableError": "_errors",
    "SandboxCommandFailedError": "_errors",
    "SandboxCommandNotFoundError": "_errors",
    "SandboxError": "_errors",
    "SandboxFrameError": "_errors",
    "SandboxLaunchError": "_errors",
    "SandboxLostError": "_errors",
    "SandboxPolicy": "_policy",
    "SandboxPolicyError": "_errors",
    "SandboxPolicyViolationError": "_errors",
    "SandboxResult": "_result",
    "SandboxSession": "_session",
    "SandboxTimeoutError": "_errors",
    "SandboxWorkspaceError": "_errors",
    "SeatbeltSandboxExecutor": "_macos._executor",
    "Violation": "_result",
    "Workspace": "_workspace",
    "WorkspaceChange": "_result",
    "diagnose": "_select",
    "get_default_executor": "_select",
    "required_guarantees": "_guarantees",
}

__all__ = [
    "BackendReport",
    "BaseSandboxExecutor",
    "BubblewrapSandboxExecutor",
    "Guarantee",
    "LandlockSandboxExecutor",
    "LinuxNamespaceSandboxExecutor",
    "ResourceLimits",
    "ResourceUsage",
    "SandboxBackendUnavailableError",
    "SandboxCallableError",
    "SandboxCommandFailedError",
    "SandboxCommandNotFoundError",
    "SandboxError",
    "SandboxFrameError",
    "SandboxLaunchError",
    "SandboxLostError",
    "SandboxPolicy",
    "SandboxPolicyError",
    "SandboxPolicyViolationError",
    "SandboxResult",
    "SandboxSession",
    "SandboxTimeoutError",
    "SandboxWorkspaceError",
    "SeatbeltSandboxExecutor",
    "Violation",
    "Workspace",
    "WorkspaceChange",
    "diagnose",
    "get_default_executor",
    "required_guarantees",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

"""Run untrusted commands and callables under one policy; it fails closed."""

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
)
from lazycore.sandbox._executor import BaseSandboxExecutor
from lazycore.sandbox._guarantees import (
    BackendReport,
    Guarantee,
    required_guarantees,
)
from lazycore.sandbox._policy import ResourceLimits, SandboxPolicy
from lazycore.sandbox._result import (
    ResourceUsage,
    SandboxResult,
    Violation,
    WorkspaceChange,
)

__all__ = [
    "BackendReport",
    "BaseSandboxExecutor",
    "Guarantee",
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
    "SandboxTimeoutError",
    "Violation",
    "WorkspaceChange",
    "required_guarantees",
]

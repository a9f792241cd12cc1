"""Exceptions of the sandbox: one root, each also the builtin a caller expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazycore.sandbox._result import SandboxResult


class SandboxError(Exception):
    """Root of every error this package raises on purpose.

    Attributes:
        result: What the run had produced when the error arose, or None when
            nothing ran. Partial output survives here.

    Examples:
        >>> issubclass(SandboxPolicyError, SandboxError)
        True
    """

    result: SandboxResult | None = None


class SandboxPolicyError(SandboxError, ValueError):
    """A policy cannot be held as written; nothing ran.

    Examples:
        >>> from lazycore.sandbox import SandboxPolicy
        >>> SandboxPolicy(allowed_read_paths=["data"])
        Traceback (most recent call last):
        ...
        lazycore.sandbox._errors.SandboxPolicyError: ...
    """


class SandboxPolicyViolationError(SandboxError, PermissionError):
    """The target did, or was asked to do, what the policy refuses.

    Examples:
        >>> issubclass(SandboxPolicyViolationError, PermissionError)
        True
    """


class SandboxBackendUnavailableError(SandboxError, RuntimeError):
    """No backend on this host holds every guarantee the policy needs; nothing ran.

    Examples:
        >>> issubclass(SandboxBackendUnavailableError, RuntimeError)
        True
    """


class SandboxLaunchError(SandboxError, OSError):
    """The kernel refused a step of the confinement, so the target was not started.

    Examples:
        >>> issubclass(SandboxLaunchError, OSError)
        True
    """


class SandboxLostError(SandboxError, ConnectionError):
    """The process that held the sandbox was killed while the target ran.

    The target died with it. The next run starts a new launcher.

    Examples:
        >>> issubclass(SandboxLostError, ConnectionError)
        True
    """


class SandboxCommandNotFoundError(SandboxError, FileNotFoundError):
    """The command does not exist inside the sandbox.

    Examples:
        >>> issubclass(SandboxCommandNotFoundError, FileNotFoundError)
        True
    """


class SandboxCommandFailedError(SandboxError, RuntimeError):
    """`SandboxResult.check` found a non-zero exit or a signal.

    Examples:
        >>> issubclass(SandboxCommandFailedError, RuntimeError)
        True
    """


class SandboxTimeoutError(SandboxError, TimeoutError):
    """The run passed `SandboxPolicy.timeout_s` and every process of it was killed.

    Examples:
        >>> issubclass(SandboxTimeoutError, TimeoutError)
        True
    """


class SandboxCallableError(SandboxError, RuntimeError):
    """The callable raised, or ended without handing a value back.

    Only text crosses the border: no exception object of the target is ever
    built in the caller.

    Attributes:
        type_name: Qualified name of the exception's class, empty when the
            process ended without one.
        message: Text of the exception.
        traceback_text: The traceback as the target printed it.

    Examples:
        >>> error = SandboxCallableError("builtins.KeyError: 'a'", message="'a'")
        >>> error.message
        "'a'"
    """

    def __init__(
        self,
        text: str,
        *,
        type_name: str = "",
        message: str = "",
        traceback_text: str = "",
    ) -> None:
        super().__init__(text)
        self.type_name = type_name
        self.message = message
        self.traceback_text = traceback_text


class SandboxFrameError(SandboxError, ValueError):
    """A result frame from the target is malformed, too long or carries a wrong nonce.

    Examples:
        >>> issubclass(SandboxFrameError, ValueError)
        True
    """


class SandboxWorkspaceError(SandboxError, RuntimeError):
    """A workspace cannot be copied, listed or applied; the original is as it was.

    Examples:
        >>> issubclass(SandboxWorkspaceError, RuntimeError)
        True
    """

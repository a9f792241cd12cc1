"""What a run produced, complete enough to explain itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazycore.sandbox._errors import (
    SandboxCommandFailedError,
    SandboxError,
    SandboxPolicyViolationError,
    SandboxTimeoutError,
)
from lazycore.sandbox._output import printable

if TYPE_CHECKING:
    from lazycore.sandbox._guarantees import Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """What the run consumed, from the kernel's own accounting (wait4).

    Attributes:
        cpu_user_s: Seconds of CPU in user mode, all reaped processes.
        cpu_system_s: Seconds of CPU in the kernel.
        max_rss_bytes: Largest resident set of any single process, in bytes.
        processes: How many processes the supervisor reaped: the target and the
            orphans of the tree, not what the target waited for itself.

    Examples:
        >>> ResourceUsage(cpu_user_s=0.5, cpu_system_s=0.25).cpu_s
        0.75
    """

    cpu_user_s: float = 0.0
    cpu_system_s: float = 0.0
    max_rss_bytes: int = 0
    processes: int = 0

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU in all."""
        return self.cpu_user_s + self.cpu_system_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One limit that the run hit, as its end shows it.

    Single calls that were refused are not among them: the kernel tells the target
    alone. `lazycore-sandbox explain` watches a run and lists those.

    Attributes:
        kind: `"timeout"`, `"memory"`, `"cpu"`, `"processes"`, `"file-size"`,
            `"workspace"`, `"output"` (which ends nothing: it was cut) or `"syscall"`
            (the target used a foreign system call interface).
        detail: The limit, for example `"1.5 s"`, or which stream was cut.
        count: How often.

    Examples:
        >>> Violation(kind="memory", detail="1048576 bytes").count
        1
    """

    kind: str
    detail: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceChange:
    """One path of a workspace that a run changed.

    Attributes:
        path: Path relative to the workspace, with forward slashes.
        kind: `"added"`, `"modified"` or `"deleted"`.
        size_bytes: Size after the run, or None for a deleted path or a directory.
        previous_size_bytes: Size before the run, or None for an added path or a
            directory.

    Examples:
        >>> WorkspaceChange(path="a.txt", kind="added", size_bytes=3).kind
        'added'
    """

    path: str
    kind: str
    size_bytes: int | None = None
    previous_size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResult:
    """Everything one run left behind.

    Attributes:
        argv: What was asked to run.
        returncode: Exit status, or None when a signal ended the target.
        signal: Number of the signal that ended the target, or None.
        stdout: Captured bytes; head and tail when truncated.
        stderr: Captured bytes; head and tail when truncated.
        stdout_truncated: Whether bytes of stdout were cut.
        stderr_truncated: Whether bytes of stderr were cut.
        stdout_total_bytes: Bytes the target wrote to stdout.
        stderr_total_bytes: Bytes the target wrote to stderr.
        reply: Bytes of the reply pipe, None when none was asked for.
        reply_truncated: Whether the reply passed its limit and was cut.
        timed_out: Whether `timeout_s` passed; the output so far is kept.
        duration_s: Wall-clock seconds from the call to the end of the last process.
        usage: What the run consumed.
        violations: The limits that the run hit, as its end shows them.
        backend: Name of the backend that ran it.
        guarantees: What that backend enforced.
        degraded: What the policy needs and the caller chose to do without.
        policy_digest: `SandboxPolicy.digest` of the policy.
        value: What the callable returned; None for commands.
        changes: What a copy-on-write workspace saw changed.

    Examples:
        >>> result = SandboxResult(argv=("true",), returncode=0, backend="x")
        >>> result.check() is result
        True
    """

    argv: tuple[str, ...]
    backend: str
    returncode: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    stdout_total_bytes: int = 0
    stderr_total_bytes: int = 0
    reply: bytes | None = None
    reply_truncated: bool = False
    timed_out: bool = False
    duration_s: float = 0.0
    usage: ResourceUsage = field(default_factory=ResourceUsage)
    violations: tuple[Violation, ...] = ()
    guarantees: frozenset[Guarantee] = frozenset()
    degraded: frozenset[Guarantee] = frozenset()
    policy_digest: str = ""
    value: object = None
    changes: tuple[WorkspaceChange, ...] = ()

    @property
    def stdout_text(self) -> str:
        """Stdout as UTF-8 text; undecodable bytes become U+FFFD.

        Control characters are kept: pass it through a terminal at your own risk.
        """
        return self.stdout.decode("utf-8", "replace")

    @property
    def stderr_text(self) -> str:
        """Stderr as UTF-8 text; undecodable bytes become U+FFFD."""
        return self.stderr.decode("utf-8", "replace")

    def check(self) -> SandboxResult:
        """Raise unless the target ended by itself with exit status 0.

        Returns:
            This result, so that calls chain.

        Raises:
            SandboxTimeoutError: If the run passed its timeout.
            SandboxPolicyViolationError: If a refused action or a limit ended it.
            SandboxCommandFailedError: If it exited non-zero or by a signal.

        Examples:
            >>> SandboxResult(argv=("false",), returncode=1, backend="x").check()
            Traceback (most recent call last):
            ...
            lazycore.sandbox._errors.SandboxCommandFailedError: ...
        """
        if self.returncode == 0 and not self.timed_out:
            return self
        kind: type[SandboxError] = SandboxCommandFailedError
        if self.timed_out:
            kind = SandboxTimeoutError
        elif any(item.kind != "output" for item in self.violations):
            kind = SandboxPolicyViolationError
        error = kind(self._story())
        error.result = self
        raise error

    def _story(self) -> str:
        if self.timed_out:
            end = f"passed its timeout after {self.duration_s:.3f} s"
        elif self.signal is not None:
            end = f"was ended by signal {self.signal}"
        else:
            end = f"exited with status {self.returncode}"
        lines = [f"{self.argv[:1]!r} {end} (backend {self.backend})"]
        lines += [
            f"  refused: {item.kind} {printable(item.detail)} x{item.count}"
            for item in self.violations
        ]
        for name, data in (("stderr", self.stderr), ("stdout", self.stdout)):
            if data:
                tail = data[-2000:].decode("utf-8", "replace")
                lines.append(f"  end of {name}:\n{printable(tail)}")
        return "\n".join(lines)

"""What the end of a run showed a backend, and the result made of it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from lazycore.sandbox._guarantees import required_guarantees
from lazycore.sandbox._output import Captured
from lazycore.sandbox._result import ResourceUsage, SandboxResult, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazycore.sandbox._guarantees import Guarantee
    from lazycore.sandbox._policy import SandboxPolicy

EndRule: TypeAlias = "Callable[[int], tuple[int | None, int | None]]"
"""Reads a wait status: the exit status or the signal, the other one None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a supervisor and the pipes handed back.

    Attributes:
        status: The wait status of the target.
        limit: The limit that the supervisor ended the run for, else empty.
        note: Why the target was not started, where a shell inside tells.
    """

    status: int
    stdout: Captured = field(default_factory=Captured)
    stderr: Captured = field(default_factory=Captured)
    reply: bytes | None = None
    reply_truncated: bool = False
    timed_out: bool = False
    usage: ResourceUsage = field(default_factory=ResourceUsage)
    limit: str = ""
    note: str = ""


def plain_end(status: int) -> tuple[int | None, int | None]:
    """Read a wait status as wait(2) defines it."""
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), None


def shell_end(status: int) -> tuple[int | None, int | None]:
    """Read a wait status of a program that exits with 128 plus its child's signal."""
    code, signalled = plain_end(status)
    if code is not None and 128 < code <= 128 + signal.SIGRTMAX:
        return None, code - 128
    return code, signalled


def result_of(
    outcome: Outcome,
    policy: SandboxPolicy,
    *,
    argv: tuple[str, ...],
    backend: str,
    held: frozenset[Guarantee],
    started: float,
    end: EndRule = plain_end,
) -> SandboxResult:
    """Make the result of a run.

    Args:
        outcome: How it went.
        policy: What it ran under.
        argv: What was asked to run.
        backend: Name of the backend.
        held: What the backend enforced.
        started: When the caller asked, as time.monotonic() counts.
        end: How to read the wait status.
    """
    code, signalled = end(outcome.status)
    return SandboxResult(
        argv=argv,
        backend=backend,
        returncode=code,
        signal=signalled,
        stdout=outcome.stdout.data,
        stderr=outcome.stderr.data,
        stdout_truncated=outcome.stdout.truncated,
        stderr_truncated=outcome.stderr.truncated,
        stdout_total_bytes=outcome.stdout.total_bytes,
        stderr_total_bytes=outcome.stderr.total_bytes,
        reply=outcome.reply,
        reply_truncated=outcome.reply_truncated,
        timed_out=outcome.timed_out,
        duration_s=time.monotonic() - started,
        usage=outcome.usage,
        violations=tuple(violations(policy, outcome, signalled)),
        guarantees=held,
        degraded=required_guarantees(policy) - held,
        policy_digest=policy.digest,
    )


def violations(
    policy: SandboxPolicy, outcome: Outcome, signalled: int | None
) -> Iterator[Violation]:
    """List the limits that a run hit, as far as its end shows them.

    A single refused call is not among them: the target gets EACCES, EPERM or ENOSYS
    and no unprivileged interface tells anybody else.
    """
    limits = policy.limits
    if outcome.timed_out:
        yield Violation(kind="timeout", detail=f"{policy.timeout_s} s")
    bounds = {
        "cpu": (limits.cpu_s, "s"),
        "memory": (limits.memory_bytes, "bytes"),
        "processes": (limits.processes, "processes"),
        "workspace": (limits.workspace_bytes, "bytes"),
        "file-size": (limits.file_size_bytes, "bytes"),
    }
    # The kernel ends a process by these where a limit of the policy was passed.
    by_signal = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "file-size"}
    hit = outcome.limit
    if not hit and signalled in by_signal:
        hit = by_signal[signal.Signals(signalled)]
    bound, unit = bounds.get(hit, (None, ""))
    if bound is not None:
        yield Violation(kind=hit, detail=f"{bound} {unit}")
    elif signalled == signal.SIGSYS:
        yield Violation(kind="syscall", detail="a foreign system call interface")
    for name, stream in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        if stream.truncated:
            yield Violation(kind="output", detail=name)

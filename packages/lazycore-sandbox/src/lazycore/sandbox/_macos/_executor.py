"""The Seatbelt backend. No macOS kernel has run it in this release.

Its translation is tested on Linux; what it promises on a Mac it finds out there, by
attacking itself before the first run (`_probe`), and what does not hold is missing
from its guarantees.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import tempfile
import time
from typing import TYPE_CHECKING, ClassVar

from lazycore.sandbox._errors import (
    SandboxBackendUnavailableError,
    SandboxCommandNotFoundError,
    SandboxLaunchError,
    SandboxPolicyViolationError,
)
from lazycore.sandbox._executor import REPLY_VARIABLE, BaseSandboxExecutor
from lazycore.sandbox._guarantees import (
    BackendReport,
    Guarantee,
    required_guarantees,
)
from lazycore.sandbox._macos._probe import probe_seatbelt
from lazycore.sandbox._macos._profile import Grants, build_profile
from lazycore.sandbox._monitor import REPLY_FD
from lazycore.sandbox._monitored import Outcome, Target
from lazycore.sandbox._policy import is_within
from lazycore.sandbox._result import ResourceUsage, SandboxResult, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._preflight import CheckedPolicy, PinnedPath

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
DEFAULT_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
_F_GETPATH = 50  # macOS fcntl(2): the path as the kernel spells it
_SYSTEM: str = sys.platform


class SeatbeltSandboxExecutor(BaseSandboxExecutor):
    """Run targets under `sandbox-exec` with a profile made from the policy.

    No macOS kernel has run this backend in this release. On other systems
    `is_available` is False and every run raises.

    Examples:
        >>> SeatbeltSandboxExecutor.name
        'seatbelt'
    """

    name: ClassVar[str] = "seatbelt"

    @classmethod
    def probe(cls) -> BackendReport:
        """Attack a sandbox of this backend and report what held.

        Returns:
            The report; cached for the life of the process.
        """
        if _SYSTEM != "darwin":
            return BackendReport(
                backend=cls.name,
                available=False,
                reason="Seatbelt exists on macOS only",
                remedy="on Linux, use LinuxNamespaceSandboxExecutor",
            )
        return probe_seatbelt(_UnprovenExecutor, SANDBOX_EXEC)

    def _run(
        self,
        argv: tuple[str, ...],
        checked: CheckedPolicy,
        *,
        input_bytes: bytes | None,
        reply_limit_bytes: int | None,
        started: float,
    ) -> SandboxResult:
        if _SYSTEM != "darwin":  # whatever the caller chose to do without
            raise SandboxBackendUnavailableError(self.probe().reason)
        policy = checked.policy
        scratch = os.path.realpath(tempfile.mkdtemp(prefix="lazycore-"))
        try:
            grants = grants_of(checked, scratch)
            env = environment(policy, scratch, reply=reply_limit_bytes is not None)
            program = find_program(argv[0], grants, env["PATH"])
            target = Target(
                output_bytes=policy.limits.output_bytes,
                input_bytes=input_bytes,
                reply_limit=reply_limit_bytes,
            )
            limits = policy.limits
            outcome = target.run(
                {
                    "argv": [
                        SANDBOX_EXEC,
                        *build_profile(grants).arguments(),
                        program,
                        *argv[1:],
                    ],
                    "env": env,
                    "cwd": policy.cwd or scratch,
                    "scratch": scratch,
                    "mark": grants.mark,
                    "max_processes": limits.processes,
                    "limits": {
                        "open_files": limits.open_files,
                        "file_size_bytes": limits.file_size_bytes,
                        "cpu_s": limits.cpu_s and math.ceil(limits.cpu_s),
                    },
                },
                deadline=policy.timeout_s and started + policy.timeout_s,
            )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return self._result(argv, policy, outcome, started)

    def _result(
        self,
        argv: tuple[str, ...],
        policy: SandboxPolicy,
        outcome: Outcome,
        started: float,
    ) -> SandboxResult:
        refuse_failed_launch(outcome)
        answer = outcome.answer
        status = int(answer["status"])
        signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        held = self.probe().guarantees
        return SandboxResult(
            argv=argv,
            backend=self.name,
            returncode=None if signalled else os.WEXITSTATUS(status),
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
            usage=ResourceUsage(
                cpu_user_s=answer["cpu_user_s"],
                cpu_system_s=answer["cpu_system_s"],
                max_rss_bytes=answer["max_rss_bytes"],
            ),
            violations=tuple(violations(policy, outcome, signalled)),
            guarantees=held,
            degraded=required_guarantees(policy) - held,
            policy_digest=policy.digest,
        )


class _UnprovenExecutor(SeatbeltSandboxExecutor):
    """What the probe attacks: the same engine before anything is known of it."""

    @classmethod
    def probe(cls) -> BackendReport:
        return BackendReport(
            backend=cls.name, available=True, guarantees=frozenset(Guarantee)
        )


def grants_of(checked: CheckedPolicy, scratch: str) -> Grants:
    """Spell a checked policy as the kernel spells its paths."""
    policy = checked.policy
    listed = None
    if policy.allowed_executables is not None:
        listed = tuple(_kernel_path(pinned) for pinned in checked.executables)
    system = (os.path.realpath(path) for path in checked.system)
    return Grants(
        read=tuple(dict.fromkeys((*system, *map(_kernel_path, checked.read)))),
        write=tuple(map(_kernel_path, checked.write)),
        denied=tuple(map(_kernel_path, checked.denied)),
        executables=listed,
        scratch=scratch,
        mark=os.path.join(scratch, f"mark-{os.urandom(8).hex()}"),
        allow_network=policy.allow_network,
        allow_unix_sockets=policy.allow_unix_sockets,
    )


def _kernel_path(pinned: PinnedPath) -> str:
    """Ask for the path of a pinned file: its case is the disk's, not the caller's."""
    if _SYSTEM != "darwin":
        return os.path.realpath(pinned.path)
    import fcntl

    answer = fcntl.fcntl(pinned.fd, _F_GETPATH, bytes(1024))
    return os.fsdecode(answer.split(b"\0", 1)[0])


def environment(policy: SandboxPolicy, scratch: str, *, reply: bool) -> dict[str, str]:
    """Build the target's whole environment."""
    env = {
        "PATH": DEFAULT_PATH,
        "HOME": scratch,
        "LANG": "en_US.UTF-8",
        "TMPDIR": scratch,
        **policy.env,
    }
    if reply:
        env[REPLY_VARIABLE] = str(REPLY_FD)
    return env


def find_program(name: str, grants: Grants, path: str) -> str:
    """Look a program up in the target's PATH, among what it may run.

    Raises:
        SandboxCommandNotFoundError: there is none.
        SandboxPolicyViolationError: there is one, and the policy closes it.
    """
    folders = [folder for folder in path.split(":") if folder.startswith("/")]
    spelled = [name] if "/" in name else [f"{folder}/{name}" for folder in folders]
    found = [each for each in spelled if os.path.isfile(each) and os.access(each, 1)]
    for each in found:
        if _may_run(os.path.realpath(each), grants):
            return each
    if found:
        raise SandboxPolicyViolationError(
            f"the policy does not let {name!r} be executed: add it to "
            "allowed_executables, or its directory to allowed_read_paths"
        )
    raise SandboxCommandNotFoundError(
        f"the command {name!r} does not exist inside the sandbox (PATH {path!r})"
    )


def _may_run(real: str, grants: Grants) -> bool:
    if any(is_within(real, denied) for denied in grants.denied):
        return False
    if grants.executables is not None:
        return real in grants.executables
    trees = (*grants.read, *grants.write, grants.scratch)
    return any(is_within(real, tree) for tree in trees)


def refuse_failed_launch(outcome: Outcome) -> None:
    """Raise when the target was never started.

    Raises:
        SandboxLaunchError: a step before it failed.
    """
    failure = outcome.answer.get("failure")
    if failure is not None:
        code = int(failure["errno"])
        raise SandboxLaunchError(code, os.strerror(code), str(failure["detail"]))
    status = int(outcome.answer["status"])
    # sysexits(3): usage, data and system errors of sandbox-exec itself.
    failed = os.WIFEXITED(status) and os.WEXITSTATUS(status) in {64, 65, 71}
    if failed and outcome.stderr.data.startswith(b"sandbox-exec:"):
        text = outcome.stderr.data[:500].decode("utf-8", "backslashreplace")
        raise SandboxLaunchError(f"sandbox-exec did not start the target: {text!r}")


def violations(
    policy: SandboxPolicy, outcome: Outcome, signalled: int | None
) -> Iterable[Violation]:
    """List the limits that the end of a run shows."""
    if outcome.timed_out:
        yield Violation(kind="timeout", detail=f"{policy.timeout_s} s")
    if outcome.answer["crowded"]:
        yield Violation(kind="processes", detail=f"{policy.limits.processes}")
    if signalled == signal.SIGXCPU:
        yield Violation(kind="cpu", detail=f"{policy.limits.cpu_s} s")
    if signalled == signal.SIGXFSZ:
        detail = f"{policy.limits.file_size_bytes} bytes"
        yield Violation(kind="file-size", detail=detail)
    for name, stream in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        if stream.truncated:
            yield Violation(kind="output", detail=name)

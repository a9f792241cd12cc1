"""The Seatbelt backend. No macOS kernel has run it in this release.

Its translation is tested on Linux; what it promises on a Mac it finds out there, by
attacking itself before the first run (`_probe`), and what does not hold is missing
from its guarantees.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, ClassVar

from lazycore.sandbox._errors import (
    SandboxBackendUnavailableError,
    SandboxCommandNotFoundError,
    SandboxLaunchError,
    SandboxPolicyViolationError,
)
from lazycore.sandbox._executor import REPLY_VARIABLE, Unproven
from lazycore.sandbox._guarantees import BackendReport
from lazycore.sandbox._linux._remove import discard_tree
from lazycore.sandbox._macos._probe import probe_seatbelt
from lazycore.sandbox._macos._profile import Grants, build_profile
from lazycore.sandbox._monitor import REPLY_FD
from lazycore.sandbox._monitored_executor import MonitoredExecutor
from lazycore.sandbox._outcome import Outcome, result_of
from lazycore.sandbox._paths import is_within

if TYPE_CHECKING:
    from lazycore.sandbox._executor import Order
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._preflight import CheckedPolicy, PinnedPath
    from lazycore.sandbox._result import SandboxResult

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
DEFAULT_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
_F_GETPATH = 50  # macOS fcntl(2): the path as the kernel spells it
_SYSTEM: str = sys.platform


class SeatbeltSandboxExecutor(MonitoredExecutor):
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
        self, argv: tuple[str, ...], checked: CheckedPolicy, order: Order
    ) -> SandboxResult:
        if _SYSTEM != "darwin":  # whatever the caller chose to do without
            raise SandboxBackendUnavailableError(self.probe().reason)
        policy = checked.policy
        scratch = os.path.realpath(tempfile.mkdtemp(prefix="lazycore-"))
        try:
            grants = grants_of(checked, scratch)
            env = environment(
                policy, scratch, reply=order.reply_limit_bytes is not None
            )
            program = find_program(argv[0], grants, env["PATH"])
            outcome = self.run_monitored(
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
                    "max_processes": policy.limits.processes,
                },
                policy,
                order,
            )
        finally:
            discard_tree(scratch)
        refuse_failed_launch(outcome)
        return result_of(
            outcome,
            policy,
            argv=argv,
            backend=self.name,
            held=self.probe().guarantees,
            started=order.started,
        )


class _UnprovenExecutor(Unproven, SeatbeltSandboxExecutor):
    """What the probe attacks."""


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
    status = outcome.status
    # sysexits(3): usage, data and system errors of sandbox-exec itself.
    failed = os.WIFEXITED(status) and os.WEXITSTATUS(status) in {64, 65, 71}
    if failed and outcome.stderr.data.startswith(b"sandbox-exec:"):
        text = outcome.stderr.data[:500].decode("utf-8", "backslashreplace")
        raise SandboxLaunchError(f"sandbox-exec did not start the target: {text!r}")

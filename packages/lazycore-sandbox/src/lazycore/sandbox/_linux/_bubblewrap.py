"""The bubblewrap backend: for hosts where only that binary may make namespaces."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, ClassVar

from lazycore.sandbox._errors import (
    SandboxCommandNotFoundError,
    SandboxLaunchError,
    SandboxPolicyViolationError,
)
from lazycore.sandbox._executor import Unproven
from lazycore.sandbox._linux._bubblewrap_plan import Plan
from lazycore.sandbox._linux._bubblewrap_probe import probe_bubblewrap
from lazycore.sandbox._linux._cgroup import Group
from lazycore.sandbox._linux._cgroup_tree import bounds_of
from lazycore.sandbox._linux._failures import failure
from lazycore.sandbox._linux._native import DEFAULT_PATH
from lazycore.sandbox._linux._stage import StageError
from lazycore.sandbox._monitored_executor import MonitoredExecutor
from lazycore.sandbox._outcome import Outcome, result_of, shell_end
from lazycore.sandbox._shortage import ShortageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazycore.sandbox._executor import Order
    from lazycore.sandbox._guarantees import BackendReport
    from lazycore.sandbox._limits import ResourceLimits
    from lazycore.sandbox._preflight import CheckedPolicy
    from lazycore.sandbox._result import SandboxResult

_OWN_TASKS = 2
"""bwrap outside, and bwrap as pid 1 inside."""
_LEAVING_S = 2.0
_NEEDED_OPTIONS = ("--args", "--bind-fd", "--disable-userns", "--size", "--perms")


@functools.lru_cache(maxsize=1)
def find_bubblewrap() -> tuple[str, str]:
    """Return the path of a usable `bwrap` and, without one, why there is none."""
    for folder in DEFAULT_PATH.split(":"):
        path = os.path.join(folder, "bwrap")
        if os.access(path, os.X_OK):
            break
    else:
        return "", "bwrap is not installed: apt-get install bubblewrap"
    text = _told(path, "--help")
    if text.startswith("bwrap: "):
        return "", f"{path} cannot run here: {text.strip()[:200]}"
    absent = [option for option in _NEEDED_OPTIONS if option not in text]
    if absent:
        return "", f"{path} is too old: it lacks {', '.join(absent)}"
    return path, ""


@functools.lru_cache(maxsize=1)
def bubblewrap_version() -> str:
    """Return the version that `bwrap` tells, empty without one."""
    path, _ = find_bubblewrap()
    if not path:
        return ""
    found = re.search(r"\d+(?:\.\d+)+", _told(path, "--version"))
    return found[0] if found else ""


def _told(path: str, option: str) -> str:
    """Return what the binary prints, empty when it cannot be run."""
    try:
        told = subprocess.run(
            [path, option], env={}, capture_output=True, check=False, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return (told.stdout + told.stderr).decode("utf-8", "replace")


class BubblewrapSandboxExecutor(MonitoredExecutor):
    """Run targets under the system's `bwrap`, with this package's own filter.

    It declares no list of executables and no CPU or disk limit, and a memory limit only
    where this user may make control groups. The process limit needs
    `include_system=True`, and for a root caller a control group, too. A target that
    exits with 128 plus the number of a signal reads as ended by it: bwrap passes both
    on alike.

    Examples:
        >>> BubblewrapSandboxExecutor.name
        'bubblewrap'
    """

    name: ClassVar[str] = "bubblewrap"

    @classmethod
    def probe(cls) -> BackendReport:
        """Find out, by trying, what this backend enforces on this host.

        Returns:
            The report; cached per user for the life of the process.
        """
        try:
            return probe_bubblewrap(_UnprovenExecutor, os.geteuid())
        except ShortageError as error:
            return error.report(cls.name)

    def _run(
        self, argv: tuple[str, ...], checked: CheckedPolicy, order: Order
    ) -> SandboxResult:
        policy = checked.policy
        program, reason = find_bubblewrap()
        if not program:
            raise SandboxLaunchError(reason)
        if policy.allow_network and policy.allow_unix_sockets:
            raise SandboxLaunchError(
                "bubblewrap cannot keep the host's abstract sockets closed while it "
                "shares the network and lets unix sockets be made; allow one of the "
                "two, or use the linux-namespace backend"
            )
        with ExitStack() as stack:
            group = stack.enter_context(_group(policy.limits))
            plan = Plan(stack, checked, reply=order.reply_limit_bytes is not None)
            stub = plan.stub(argv, has_input=bool(order.input_bytes))
            outcome = self.run_monitored(
                {
                    "argv": [program, *plan.options(), "--", *stub],
                    "blobs": plan.blobs(),
                    "note": True,
                    "empty_stdin": not order.input_bytes,
                    "env": {},
                    "cwd": "/",
                    "scratch": None,
                    "mark": "",
                    "max_processes": None,
                    "doors": group.doors() if group else [],
                    "kills_file": group.kills_file() if group else "",
                },
                policy,
                order,
                pass_fds=plan.fds,
            )
        refuse_failed_start(outcome, argv[0])
        return result_of(
            outcome,
            policy,
            argv=argv,
            backend=self.name,
            held=self.probe().guarantees,
            started=order.started,
            end=shell_end,
        )


@contextmanager
def _group(limits: ResourceLimits) -> Iterator[Group | None]:
    """Make a control group for one run, if there is anything that it shall bound."""
    # getrlimit(2): RLIMIT_NPROC does not bind uid 0 of the host.
    bounds = bounds_of(limits, processes=os.geteuid() == 0)
    if not bounds:
        yield None
        return
    try:
        group = Group(bounds, own_tasks=_OWN_TASKS)
    except StageError as error:
        told = {"stage": error.stage, "errno": error.code, "detail": error.detail}
        raise failure(told) from error
    try:
        yield group
    finally:
        group.remove(patience_s=_LEAVING_S)


class _UnprovenExecutor(Unproven, BubblewrapSandboxExecutor):
    """What the probe attacks."""


def refuse_failed_start(outcome: Outcome, program: str) -> None:
    """Raise when the target was never started.

    Raises:
        SandboxCommandNotFoundError: It does not exist inside.
        SandboxPolicyViolationError: It may not be executed.
        SandboxLaunchError: bwrap or the limit failed.
    """
    note = outcome.note
    if note == "missing":
        raise SandboxCommandNotFoundError(
            2,
            "the command does not exist inside the sandbox; add its directory to "
            "allowed_read_paths, or to PATH in env",
            program,
        )
    if note == "refused":
        raise SandboxPolicyViolationError(
            13, "the policy does not let this program be executed", program
        )
    if note == "limit":
        raise SandboxLaunchError("the process limit could not be set inside")
    # Without the stub nothing but bwrap's own words tells; the target can forge them.
    failed = outcome.status and outcome.stderr.data.startswith(b"bwrap: ")
    if failed and note != "started":
        text = outcome.stderr.data[:500].decode("utf-8", "backslashreplace")
        raise SandboxLaunchError(f"bwrap did not start the target: {text!r}")

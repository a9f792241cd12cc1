"""The Landlock backend: for containers that refuse namespaces."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from lazycore.sandbox._errors import SandboxLaunchError
from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._landlock import DEVICE, EXECUTE, READ, READ_FILE, WRITE
from lazycore.sandbox._linux._native import NativeExecutor, base_request
from lazycore.sandbox._linux._order import NO_NAMESPACES
from lazycore.sandbox._linux._plan import split_links
from lazycore.sandbox._linux._remove import discard_tree
from lazycore.sandbox._shortage import shortage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from lazycore.sandbox._executor import Order
    from lazycore.sandbox._linux._request import Request
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._preflight import CheckedPolicy

_DEVICES = ("null", "zero", "full", "random", "urandom")
# What a C library, Python and shells read of /proc that names no process.
_PROC_FILES = (
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
)

PathRule = tuple[str, int, int, int]
"""(path, rights, device, inode); zeros when the inode is not pinned."""


class LandlockSandboxExecutor(NativeExecutor):
    """Run targets under Landlock and seccomp alone, where namespaces are refused.

    It cannot hide names and metadata or deny inside an allowed path, and bounds the
    processes of the tree only where this user may make control groups; `probe()` says
    so, and policies that need more are refused unless `allow_degraded` names it.

    Examples:
        >>> LandlockSandboxExecutor.name
        'landlock'
    """

    name: ClassVar[str] = "landlock"

    def launch_kind(self, policy: SandboxPolicy) -> bytes:
        """Ask for a child without namespaces of its own."""
        del policy
        return NO_NAMESPACES

    def scratch(self, parent: str | None) -> AbstractContextManager[str]:
        """Make a private directory for one run and remove it afterwards.

        A warning names it when that fails; the run's result stands.
        """
        return _scratch(parent)

    def request(
        self, argv: tuple[str, ...], checked: CheckedPolicy, scratch: str, order: Order
    ) -> Request:
        """Describe one run with its Landlock rules."""
        policy = checked.policy
        request = base_request(
            argv, policy, order, namespaces=False, counted=True, scratch=scratch
        )
        info = os.stat(scratch)
        rules: list[PathRule] = [(scratch, WRITE | EXECUTE, info.st_dev, info.st_ino)]
        for rights, group in (
            (READ | EXECUTE, checked.read),
            (WRITE | EXECUTE, checked.write),
        ):
            rules += [(item.path, rights, item.device, item.inode) for item in group]
        request["watch"]["paths"].append(scratch)
        request.update(
            common_rules=_common(checked.system if policy.include_system else ()),
            rules=rules,
            landlock_abi=_calls.landlock_abi(),
            handle_tcp=not policy.allow_network,
        )
        return request


@lru_cache(maxsize=16)
def _common(system: tuple[str, ...]) -> list[PathRule]:
    """Return the rules that do not depend on the policy's own paths."""
    rules: list[PathRule] = [(f"/dev/{name}", DEVICE, 0, 0) for name in _DEVICES]
    if system:
        binds, _ = split_links(system)
        rules += [(bind[1], READ | EXECUTE, 0, 0) for bind in binds]
        rules += [
            (path, READ_FILE, 0, 0) for path in _PROC_FILES if os.path.exists(path)
        ]
    return rules


@contextmanager
def _scratch(parent: str | None) -> Iterator[str]:
    """Make a private directory for one run and remove it whatever is in it."""
    try:
        made = tempfile.mkdtemp(prefix="lazycore-sandbox-", dir=parent)
    except OSError as error:
        remedy = short.remedy if (short := shortage(error)) else "see TMPDIR"
        raise SandboxLaunchError(
            error.errno, f"no scratch directory can be made: {error}; {remedy}"
        ) from error
    path = os.path.realpath(made)
    try:
        yield path
    finally:
        discard_tree(path)

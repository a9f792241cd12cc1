"""The namespace backend: own root, own pid space, own network, then two more walls."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from lazycore.sandbox._guarantees import BackendReport, Guarantee
from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._launcher import HOST_NETWORK, ISOLATED
from lazycore.sandbox._linux._native import NativeExecutor, base_request
from lazycore.sandbox._linux._plan import policy_binds, split_links
from lazycore.sandbox._linux._probe import probe_namespaces

if TYPE_CHECKING:
    from lazycore.sandbox._linux._plan import Bind, Link
    from lazycore.sandbox._preflight import CheckedPolicy
    from lazycore.sandbox._result import SandboxResult

_SCRATCH_BYTES = 1 << 30
_MIN_PID_MAX = 301  # kernel/pid.c: RESERVED_PIDS + 1


class LinuxNamespaceSandboxExecutor(NativeExecutor):
    """Run targets in fresh namespaces with a root that holds only what is granted.

    Needs unprivileged user namespaces and Linux 5.12; nothing has to be installed
    and no privilege is used, also when the caller has it.

    Examples:
        >>> LinuxNamespaceSandboxExecutor.name
        'linux-namespace'
    """

    name: ClassVar[str] = "linux-namespace"

    @staticmethod
    def _prepared() -> int:
        return 2

    @classmethod
    def probe(cls) -> BackendReport:
        """Find out, by trying, what this backend enforces on this host.

        Returns:
            The report; cached per user for the life of the process.
        """
        return probe_namespaces(os.geteuid())

    def _run(
        self,
        argv: tuple[str, ...],
        checked: CheckedPolicy,
        *,
        input_bytes: bytes | None,
        reply_limit_bytes: int | None,
        started: float,
    ) -> SandboxResult:
        policy = checked.policy
        request = base_request(
            argv,
            policy,
            namespaces=True,
            scratch="/tmp",  # noqa: S108 - the sandbox's own
            reply=reply_limit_bytes is not None,
        )
        system, links = _system(checked.system)
        root = os.geteuid() == 0
        processes = policy.limits.processes
        if processes is not None:
            # The supervisor is a process of the namespace as well.
            request["limits"]["processes"] = processes + 1
        request.update(
            system=system,
            links=links,
            files=_account_files() if policy.include_system else [],
            binds=policy_binds(checked, list(system)),
            landlock_abi=_calls.landlock_abi(),
            handle_tcp=False,
            pid_max=None
            if processes is None or not root
            else max(processes + 2, _MIN_PID_MAX),
            hide_proc_secrets=root,
            scratch_bytes=policy.limits.workspace_bytes or _SCRATCH_BYTES,
        )
        return self.run_request(
            HOST_NETWORK if policy.allow_network else ISOLATED,
            request,
            checked,
            input_bytes=input_bytes,
            reply_limit_bytes=reply_limit_bytes,
            started=started,
        )


@lru_cache(maxsize=16)
def _system(paths: tuple[str, ...]) -> tuple[tuple[Bind, ...], tuple[Link, ...]]:
    binds, links = split_links(paths)
    return tuple(binds), tuple(links)


def _account_files() -> list[tuple[str, bytes]]:
    """Name the two users a program may meet; the host's accounts stay hidden."""
    uid, gid = os.geteuid(), os.getegid()
    home = "/tmp"  # noqa: S108 - the sandbox's own
    users = {uid: f"sandbox:x:{uid}:{gid}:sandbox:{home}:/bin/sh\n"}
    users.setdefault(65534, "nobody:x:65534:65534:nobody:/:/bin/false\n")
    groups = {gid: f"sandbox:x:{gid}:\n"}
    groups.setdefault(65534, "nogroup:x:65534:\n")
    return [
        ("/etc/passwd", "".join(users.values()).encode()),
        ("/etc/group", "".join(groups.values()).encode()),
    ]


def supported_platform() -> bool:
    """Tell whether this is Linux on an architecture the filter knows."""
    return sys.platform == "linux" and _calls.MACHINE in {"x86_64", "aarch64"}


_ALL_BUT_LIMITS = frozenset(Guarantee)

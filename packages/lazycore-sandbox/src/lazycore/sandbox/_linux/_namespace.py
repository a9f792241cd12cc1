"""The namespace backend: own root, own pid space, own network, then two more walls."""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._exec_list import library_steps, run_steps
from lazycore.sandbox._linux._native import NativeExecutor, base_request
from lazycore.sandbox._linux._order import HOST_NETWORK, ISOLATED
from lazycore.sandbox._linux._plan import policy_binds, split_links
from lazycore.sandbox._linux._proc import KEY_NAMES, PROC_SECRETS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lazycore.sandbox._executor import Order
    from lazycore.sandbox._linux._plan import Bind, Link
    from lazycore.sandbox._linux._request import Request
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._preflight import CheckedPolicy

_SCRATCH_BYTES = 1 << 30


class LinuxNamespaceSandboxExecutor(NativeExecutor):
    """Run targets in fresh namespaces with a root that holds only what is granted.

    Needs unprivileged user namespaces and Linux 5.12; nothing has to be installed
    and no privilege is used, also when the caller has it.

    Examples:
        >>> LinuxNamespaceSandboxExecutor.name
        'linux-namespace'
    """

    name: ClassVar[str] = "linux-namespace"

    def launch_kind(self, policy: SandboxPolicy) -> bytes:
        """Share the network namespace only when the policy says so."""
        return HOST_NETWORK if policy.allow_network else ISOLATED

    def scratch(self, parent: str | None) -> AbstractContextManager[str]:
        """Name the private /tmp that every run's own root has."""
        del parent
        return nullcontext("/tmp")  # noqa: S108 - the sandbox's own

    def request(
        self, argv: tuple[str, ...], checked: CheckedPolicy, scratch: str, order: Order
    ) -> Request:
        """Describe one run with its mount plan."""
        policy = checked.policy
        request = base_request(
            argv,
            policy,
            order,
            namespaces=True,
            # getrlimit(2): RLIMIT_NPROC does not bind uid 0 of the host.
            counted=os.geteuid() == 0 and not _pid_max_is_own(),
            scratch=scratch,
        )
        system, links = _system(checked.system)
        binds = policy_binds(checked, list(system))
        listed = policy.allowed_executables is not None
        if listed:
            system = (*system, *library_steps(system))
            binds += run_steps(checked)
        processes = policy.limits.processes
        if processes is not None and "pids" not in request["bounds"]:
            # The supervisor is a process of the namespace as well.
            request["limits"]["processes"] = processes + 1
        request["watch"]["scratch"] = ["/tmp", "/dev/shm"]  # noqa: S108 - its own
        request.update(
            base={
                "system": system,
                "links": links,
                "files": _account_files() if policy.include_system else [],
                "executable": not listed,
                "pid_limit": processes if _pid_max_is_own() else None,
                "hidden": KEY_NAMES if os.geteuid() else PROC_SECRETS,
                "scratch_bytes": policy.limits.workspace_bytes or _SCRATCH_BYTES,
            },
            binds=binds,
            landlock_abi=_calls.landlock_abi(),
            handle_tcp=False,
            share_network=policy.allow_network,
        )
        return request


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


@lru_cache(maxsize=1)
def _pid_max_is_own() -> bool:
    """Tell whether pid_max belongs to the pid namespace: from Linux 6.14 on.

    On older kernels the same write would change the whole host.
    """
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int("".join(filter(str.isdigit, minor)))) >= (6, 14)

"""A slot that is pid 1 of a pid namespace, and makes other namespaces for each run.

It holds capabilities over its namespaces alone. A run's mount and ipc namespaces are
new, its root is a copy of one that is kept, and what is left in the pid namespace after
a run is the slot. The slot's end, however it comes, is the end of all that runs in it.
"""

from __future__ import annotations

import marshal
import os
import signal
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._children import hung_up, map_identity
from lazycore.sandbox._linux._entry import NamespaceEntry
from lazycore.sandbox._linux._kept_root import KeptRoot
from lazycore.sandbox._linux._mounts import QUIET
from lazycore.sandbox._linux._net import Net
from lazycore.sandbox._linux._own_root import step_into
from lazycore.sandbox._linux._plan import nested
from lazycore.sandbox._linux._proc import Numbers, mount_proc
from lazycore.sandbox._linux._slot import Limits, Slot

if TYPE_CHECKING:
    import socket

    from lazycore.sandbox._linux._cgroup import Lease
    from lazycore.sandbox._linux._request import Request

_PROC = "proc"
_SHUT_PROC = "shut"
_SHELF = "/proc"
"""Where roots are kept: no policy path can lie in it, so it hides no source."""
_KEPT_ROOTS = 3


class NamespaceSlot(Slot):
    """See the module.

    Args:
        channel: As in `Slot`.
        limits: As in `Slot`.
        lease: As in `Slot`.
        identity: The caller's uid and gid.
        network: Whether runs get a network namespace of their own.
    """

    proc = f"{_SHELF}/{_PROC}"

    def __init__(
        self,
        channel: socket.socket,
        limits: Limits,
        lease: Lease | None,
        *,
        identity: tuple[int, int],
        network: bool,
    ) -> None:
        self._identity = identity
        self._network = network
        super().__init__(channel, limits, lease)

    def _enter(self) -> None:
        _calls.prctl(_calls.PR_SET_PDEATHSIG, signal.SIGKILL)
        if hung_up(self._channel):
            os._exit(0)
        self._kept: dict[bytes, KeptRoot] = {}
        self._made = 0
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        proc = os.open("/proc", flags)
        map_identity("self", self._identity, proc=proc)
        _calls.drop_bounding_set()
        _calls.set_hostname("sandbox")
        self._old = os.open("/", flags)
        _calls.mount_setattr(
            self._old, add=0, recursive=True, propagation=_calls.MS_PRIVATE
        )
        home = _open_namespace(proc)
        self._bare = _bare_namespace(proc)
        _calls.setns(home, _calls.CLONE_NEWNS)
        os.close(home)
        own_proc = mount_proc()
        # The slot's own files would name what its mount namespace holds: the host's
        # mounts. It is not dumpable by the time that a run looks.
        self._shut_proc = mount_proc(shut=True)
        self._numbers = Numbers(own_proc)
        self._shelf = _calls.new_mount("tmpfs", {"size": "1m"}, QUIET)
        _calls.move_mount(self._shelf, self._old, _SHELF[1:])
        for name, tree in ((_PROC, own_proc), (_SHUT_PROC, self._shut_proc)):
            os.mkdir(name, dir_fd=self._shelf)
            _calls.move_mount(tree, self._shelf, name)
        os.close(own_proc)
        self._proc = proc
        self._net: Net | None = None

    def _entry(self, request: Request) -> NamespaceEntry:
        self._numbers.prepare(request["base"]["pid_limit"])
        return NamespaceEntry(
            request,
            root=self._root(request),
            bare=self._bare,
            net=self._unused_net(),
            numbers=self._numbers,
            forks=self.forks,
        )

    def _unused_net(self) -> int:
        """Return a network namespace that no run has left a trace in."""
        if not self._network:
            return -1
        # Every process of the last run is dead.
        if self._net is not None and not self._net.is_unused():
            self._net.close()
            self._net = None
        if self._net is None:
            self._net = Net(self._proc)
        return self._net.fd

    def _root(self, request: Request) -> KeptRoot:
        base = request["base"]
        parts = ("system", "links", "files", "executable", "hidden")
        plan = [base[part] for part in parts]
        key = marshal.dumps([*plan, request["binds"], request["landlock_abi"]])
        root = self._kept.pop(key, None)
        if root is not None and not root.is_current():
            root.discard(_SHELF)
            root = None
        if root is None:
            while len(self._kept) >= _KEPT_ROOTS:
                self._kept.pop(next(iter(self._kept))).discard(_SHELF)
            self._made += 1
            name = str(self._made)
            root = KeptRoot(
                request,
                nested([*base["system"], *request["binds"]]),
                old=self._old,
                proc=self._shut_proc,
                shelf=self._shelf,
                name=name,
            )
        self._kept[key] = root  # the last that goes
        return root


def _open_namespace(proc: int) -> int:
    return os.open("self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)


def _bare_namespace(proc: int) -> int:
    """Enter a mount namespace that holds a place for a root, no more."""
    _calls.unshare(_calls.CLONE_NEWNS)
    bare = _calls.new_mount("tmpfs", {"mode": "0755", "size": "1m"}, QUIET)
    os.mkdir("root", dir_fd=bare)
    _calls.move_mount(bare, _calls.AT_FDCWD, "/proc")
    step_into(bare)
    _calls.mount_setattr(bare, add=_calls.ATTR_RDONLY, recursive=False)
    os.close(bare)
    return _open_namespace(proc)

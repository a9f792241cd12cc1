"""A slot: pid 1 of a pid namespace that serves one run after another.

It is a child of the launcher in namespaces of its own, holds capabilities over those
alone, starts with an empty environment, and runs no code but ours. For each run a
thread of its enters a mount and an ipc namespace that are new, gives up every right for
good and starts the target (`_entry`); a thread costs a small part of a process, whose
every page has to be copied. When the target has ended, the slot kills and reaps
whatever is left, which is everything else in its pid namespace: the next run begins
with nobody there. Its end, however it comes, is the end of all that runs in it.
"""

from __future__ import annotations

import _thread
import gc
import marshal
import os
import signal
import socket
import time
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox._linux import _calls, _target
from lazycore.sandbox._linux._children import (
    hung_up,
    map_identity,
    receive_fd,
)
from lazycore.sandbox._linux._entry import Entry
from lazycore.sandbox._linux._kept_root import KeptRoot
from lazycore.sandbox._linux._mounts import QUIET
from lazycore.sandbox._linux._net import Net
from lazycore.sandbox._linux._own_root import step_into
from lazycore.sandbox._linux._proc import Numbers, mount_proc
from lazycore.sandbox._linux._request import receive_request
from lazycore.sandbox._linux._stage import StageError
from lazycore.sandbox._linux._supervisor import Supervisor, tell_failure

if TYPE_CHECKING:
    from lazycore.sandbox._linux._request import Request

IDLE = b"i"
"""What a slot tells the launcher when it can take another run."""
_PROC = "proc"
_SHELF = "/proc"
"""Where roots are kept: no policy path can lie in it, so it hides no source."""
_KEPT_ROOTS = 3
_STACK_BYTES = 256 << 10


class Slot:
    """The event loop, and what it keeps between runs.

    Args:
        channel: The launcher hands runs over here, and hangs up when it shall end.
        identity: The caller's uid and gid.
        network: Whether runs get a network namespace of their own.
        limits: Limits of a process that all its runs have; for good.
    """

    def __init__(
        self,
        channel: socket.socket,
        identity: tuple[int, int],
        *,
        network: bool,
        limits: dict[str, int | None],
    ) -> None:
        self._channel = channel
        self._kept: dict[bytes, KeptRoot] = {}
        self._made = 0
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        proc = os.open("/proc", flags)
        map_identity("self", identity, proc=proc)
        _calls.drop_bounding_set()
        _calls.prctl(_calls.PR_SET_NO_NEW_PRIVS, 1)
        _calls.set_hostname("sandbox")
        self._old = os.open("/", flags)
        _calls.mount_setattr(
            self._old, add=0, recursive=True, propagation=_calls.MS_PRIVATE
        )
        home = _open_namespace(proc)
        self._bare = _bare_namespace(proc)
        _calls.setns(home, _calls.CLONE_NEWNS)
        os.close(home)
        own = mount_proc()
        self._numbers = Numbers(own)
        self._shelf = _calls.new_mount("tmpfs", {"size": "1m"}, QUIET)
        _calls.move_mount(self._shelf, self._old, _SHELF[1:])
        os.mkdir(_PROC, dir_fd=self._shelf)
        _calls.move_mount(own, self._shelf, _PROC)
        self._proc = proc
        self._network = network
        self._net: Net | None = None
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        self._children = _calls.signal_descriptor(signal.SIGCHLD)
        _target.limit(limits)
        cpu_s = limits["cpu_s"]
        self._retire_at_s = float("inf") if cpu_s is None else cpu_s / 2
        # Its memory and its descriptors are closed to every other process.
        _calls.prctl(_calls.PR_SET_DUMPABLE, 0)
        _thread.stack_size(_STACK_BYTES)

    def run(self) -> None:
        """Serve until the launcher hangs up."""
        gc.collect()
        gc.freeze()
        while time.process_time() < self._retire_at_s:
            data, fd = receive_fd(self._channel, 1)
            if not data:
                return
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
            try:
                self._serve(sock)
            except BaseException as error:  # noqa: BLE001 - reported, then all ends
                tell_failure(sock, error)
                return
            sock.close()
            if time.process_time() < self._retire_at_s:
                self._channel.send(IDLE)

    def _serve(self, sock: socket.socket) -> None:
        try:
            request, fds = receive_request(sock)
        except EOFError:
            return  # the caller went away
        self._numbers.prepare(request["base"]["pid_limit"])
        entry = Entry(
            request,
            root=self._root(request),
            bare=self._bare,
            net=self._unused_net(),
            numbers=self._numbers,
        )
        supervisor = Supervisor(
            sock, self._channel.fileno(), request, proc=f"{_SHELF}/{_PROC}"
        )
        try:
            target = entry.start(fds, supervisor)
        except StageError as error:
            tell_failure(sock, error)  # and nothing was started
        else:
            supervisor.watch_over(target, self._children)
        finally:
            entry.close()

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
        parts = ("system", "links", "files", "executable")
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
            root = KeptRoot(request, old=self._old, shelf=self._shelf, name=name)
        self._kept[key] = root  # the last that goes
        return root


def _open_namespace(proc: int) -> int:
    return os.open("self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)


def _bare_namespace(proc: int) -> int:
    """Enter a mount namespace that holds a place for a root and a /proc, no more.

    The kernel allows a run to have a /proc of its own only where one is seen.
    """
    own = mount_proc()
    _calls.unshare(_calls.CLONE_NEWNS)
    bare = _calls.new_mount("tmpfs", {"mode": "0755", "size": "1m"}, QUIET)
    for name in ("proc", "root"):
        os.mkdir(name, dir_fd=bare)
    _calls.move_mount(bare, _calls.AT_FDCWD, "/proc")
    _calls.move_mount(own, bare, "proc")
    os.close(own)
    step_into(bare)
    _calls.mount_setattr(bare, add=_calls.ATTR_RDONLY, recursive=False)
    os.close(bare)
    return _open_namespace(proc)


def serve(
    channel: socket.socket,
    identity: tuple[int, int],
    *,
    network: bool,
    limits: dict[str, int | None],
) -> NoReturn:
    """Be a slot in the namespaces that this process was just cloned into."""
    try:
        _calls.prctl(_calls.PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if hung_up(channel):
            os._exit(0)
        try:
            slot = Slot(channel, identity, network=network, limits=limits)
        except Exception as error:  # noqa: BLE001 - told to the run that wanted it
            data, fd = receive_fd(channel, 1)
            if data:
                tell_failure(socket.socket(fileno=fd), error)
        else:
            slot.run()
    finally:
        os._exit(0)

"""The warm server of a session: imports once, and forks the slots of its calls.

It lives inside the session's own root (or Landlock domain) without capabilities. Each
slot enters namespaces of its own below the server's, and makes for each call a root of
its own there. For that the server keeps system calls and a writable /proc that no
target may have: what it imports is trusted, and never taken from where runs write.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox._linux import _calls, _landlock, _session_slot
from lazycore.sandbox._linux._cgroup import Lease
from lazycore.sandbox._linux._children import Child, receive_fd
from lazycore.sandbox._linux._fork import fork_quietly
from lazycore.sandbox._linux._order import borrow
from lazycore.sandbox._linux._request import Request, send_answer
from lazycore.sandbox._linux._slots import Slots
from lazycore.sandbox._linux._stage import StageError
from lazycore.sandbox._linux._supervisor import tell_failure
from lazycore.sandbox._paths import is_within

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from lazycore.sandbox._linux._landlock import Rule

_KIND = b""


def serve(
    sock: socket.socket, channel: socket.socket, request: Request, rules: list[Rule]
) -> NoReturn:
    """Serve calls until the caller or the launcher is gone; never returns."""
    try:
        try:
            maps = os.open("/proc/self/smaps", os.O_RDONLY | os.O_CLOEXEC)
            _give_up_rights(request, rules)
            _preload(request)
            _refuse_shared_memory(maps)
        except Exception as error:  # noqa: BLE001 - told to the session, which ends
            tell_failure(sock, error)
            os._exit(1)
        # What was imported may have changed it, and the slots' ends would go unseen.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        gc.collect()
        gc.freeze()
        send_answer(sock, {"ready": 1})
        _Server(sock, channel, request).run()
    finally:
        os._exit(0)


def _give_up_rights(request: Request, rules: list[Rule]) -> None:
    """Confine the server before it imports anything that the policy's paths hold."""
    _calls.prctl(_calls.PR_SET_NO_NEW_PRIVS, 1)
    if request["namespaces"]:
        # A child's new user namespace brings full sets of its own. To map uid 0
        # into it the parent must hold CAP_SETFCAP: user_namespaces(7).
        keep = _calls.CAP_SETFCAP if os.geteuid() == 0 else 0
        _calls.drop_capabilities(keep=keep)
    else:
        _landlock.confine_files(rules, abi=request["landlock_abi"])
    for fd, _ in rules:
        os.close(fd)


def _preload(request: Request) -> None:
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[:] = [""]
    sys.path[:] = request["path"]
    finders = list(sys.meta_path)
    guard = _TrustedFinder(request["watch"]["paths"])
    sys.meta_path[:] = [guard if item is PathFinder else item for item in finders]
    for name in request["preload"]:
        try:
            importlib.import_module(name)
        except BaseException as error:
            text = f"{name}: {type(error).__name__}: {error}\n" + traceback.format_exc()
            raise StageError("preload", errno.ENOPKG, text[-4000:]) from error
    sys.meta_path[:] = finders


def _refuse_shared_memory(maps: int) -> None:
    """Refuse what a preloaded module maps for all copies of this process at once.

    The kernel marks a mapping as shared (proc_pid_smaps(5), VmFlags) when its file was
    opened for writing, whatever rights the mapping has now: mprotect(2) adds them.

    Args:
        maps: Descriptor of this process's smaps, which is closed.
    """
    region = ""
    with open(maps, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            first, *words = line.split()
            if not first.endswith(":"):
                region = line.strip()
            elif first == "VmFlags:" and "sh" in words:
                raise StageError(
                    "preload",
                    errno.ENOPKG,
                    "a preloaded module maps memory that all calls would share, so "
                    "that one could write what the next one reads; import it in the "
                    f"calls instead ({region})",
                )


class _TrustedFinder:
    """Find modules like PathFinder, but refuse those that a run may have written."""

    def __init__(self, writable: list[str]) -> None:
        self._writable = [os.path.realpath(path) for path in writable]

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.has_location and spec.origin:
            origin = os.path.realpath(spec.origin)
            if any(is_within(origin, root) for root in self._writable):
                raise ImportError(
                    f"{origin!r} lies where runs may write, so the server does not "
                    "import it; preload from a read path",
                    name=name,
                    path=origin,
                )
        return spec


class _Server:
    """The event loop.

    Args:
        sock: The session asks for runs here.
        channel: Hangs up when the launcher is gone.
        request: What the session was asked for.
    """

    def __init__(
        self, sock: socket.socket, channel: socket.socket, request: Request
    ) -> None:
        self._sock = sock
        self._channel = channel
        self._request = request
        self._busy: dict[int, Child] = {}
        self._slots = Slots(self._make_slot)
        self._leases: dict[int, Lease] = {}
        self._free: list[Lease] = []
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        self._children = _calls.signal_descriptor(signal.SIGCHLD)
        _calls.prctl(_calls.PR_SET_CHILD_SUBREAPER, 1)

    def run(self) -> None:
        """Serve until the session closes its socket or the launcher is gone."""
        poll = self._slots.poll
        for fd in (self._sock.fileno(), self._channel.fileno(), self._children):
            poll.register(fd, select.POLLIN)
        # So that the first call finds one.
        self._slots.prepare(_KIND)
        while True:
            for fd, _ in poll.poll():
                if fd == self._children:
                    os.read(self._children, 128 * 16)
                    self._reap()
                elif fd == self._channel.fileno() or (
                    fd == self._sock.fileno() and not self._hand_over()
                ):
                    self._shut_down()
                    return
                else:
                    self._slots.hear(fd)

    def _hand_over(self) -> bool:
        data, fd = receive_fd(self._sock, 1)
        if not data:
            return False
        run = socket.socket(fileno=fd)
        try:
            self._slots.hand_over(_KIND, run)
        except StageError as error:
            tell_failure(run, error)
        except OSError as error:
            tell_failure(run, StageError("fork", error.errno or 0, str(error)))
        finally:
            run.close()
        return True

    def _make_slot(self, kind: bytes) -> Child:
        del kind  # a session has one
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server = os.getpid()
        lease = self._lease()
        pid = fork_quietly()
        if not pid:
            _session_slot.serve(theirs, self._request, server, lease)
        theirs.close()
        _, pidfd = receive_fd(ours, len(_session_slot.READY))
        child = self._busy[pid] = Child(pid, pidfd, ours)
        if lease is not None:
            self._leases[pid] = lease
        if pidfd < 0:
            raise ProcessLookupError(errno.ESRCH, "the slot ended before it was ready")
        return child

    def _lease(self) -> Lease | None:
        """Take the control group of a slot that ended, or borrow another."""
        bounds = self._request["bounds"]
        if not bounds:
            return None
        if self._free:
            return self._free.pop()
        return Lease(bounds, borrow(self._channel))

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            child = self._busy.pop(pid, None)
            if pid in self._leases:
                self._free.append(self._leases.pop(pid))
            if child is not None:
                self._slots.forget(child)
                child.close()

    def _shut_down(self) -> None:
        for child in self._busy.values():
            child.channel.close()
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

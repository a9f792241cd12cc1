"""The launcher: a small process that makes confined children for its caller.

It is single-threaded, imports little, starts with an empty environment, and dies with
the process that started it, however that one ends. It hands the caller's
socket for a run to a slot, or to a child that serves no other run.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import select
import signal
import socket
import termios
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox._linux import _calls, _slot
from lazycore.sandbox._linux._children import (
    CHANNEL_FD,
    Child,
    enter_namespaces,
    hung_up,
    receive_fd,
)
from lazycore.sandbox._linux._landlock_slot import LandlockSlot, guard
from lazycore.sandbox._linux._meter import children_of
from lazycore.sandbox._linux._namespace_slot import NamespaceSlot
from lazycore.sandbox._linux._one_run import serve_one
from lazycore.sandbox._linux._request import send_answer
from lazycore.sandbox._linux._slots import Slots
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    from lazycore.sandbox._linux._slot import Limits

_MESSAGE_BYTES = 1 << 17

ISOLATED = b"N"
"""All namespaces."""
HOST_NETWORK = b"H"
"""All namespaces but the network's."""
NO_NAMESPACES = b"L"
"""Landlock and seccomp only."""
SLOTTED = {ISOLATED: b"n", HOST_NETWORK: b"h", NO_NAMESPACES: b"l"}
"""The same for a run in a slot; the limits of its processes follow."""
_OF_SLOT = {slotted: kind for kind, slotted in SLOTTED.items()}


_BASE_FLAGS = (
    _calls.CLONE_NEWUSER
    | _calls.CLONE_NEWNS
    | _calls.CLONE_NEWPID
    | _calls.CLONE_NEWIPC
    | _calls.CLONE_NEWUTS
    | _calls.CLONE_NEWCGROUP
)
_FLAGS = {
    ISOLATED: _BASE_FLAGS | _calls.CLONE_NEWNET,
    HOST_NETWORK: _BASE_FLAGS,
    NO_NAMESPACES: 0,
}


class Launcher:
    """The event loop.

    Args:
        control: Socket on which the caller asks for runs.
        caller: pidfd of the caller.
    """

    def __init__(self, control: socket.socket, caller: int) -> None:
        self._control = control
        self._caller = caller
        self._busy: dict[int, Child] = {}
        self._slots = Slots(self._make_slot)
        self._children = _calls.signal_descriptor(signal.SIGCHLD)
        # poll(2) on this file tells when a mount of this namespace changed:
        # proc_pid_mountinfo(5).
        self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)

    def run(self) -> None:
        """Serve until the caller closes the control socket or ends."""
        poll = self._slots.poll
        poll.register(self._control.fileno(), select.POLLIN)
        poll.register(self._caller, select.POLLIN)
        poll.register(self._children, select.POLLIN)
        poll.register(self._mounts, select.POLLPRI)
        while True:
            for fd, _ in poll.poll():
                if fd == self._children:
                    os.read(self._children, 128 * 16)
                    self._reap()
                elif fd == self._mounts:
                    # Also lets go of what the host wants to unmount.
                    self._slots.renew()
                elif fd == self._caller or (
                    fd == self._control.fileno() and not self._serve()
                ):
                    self._shut_down()
                    return
                else:
                    self._slots.hear(fd)

    def _serve(self) -> bool:
        message, fd = receive_fd(self._control, _MESSAGE_BYTES)
        if not message:
            return False
        if fd < 0:
            self._load_calls()
            return True
        kind = message[:1]
        run = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
        try:
            if kind in _OF_SLOT:
                if self._mounts_changed():
                    self._slots.renew()
                self._slots.hand_over(message, run)
            else:
                child = self._spawn(kind)
                self._busy[child.pid] = child
                child.hand_over(run)
        except OSError as error:
            stage = {"stage": "clone", "errno": error.errno or 0, "detail": ""}
            send_answer(run, {"error": stage})
        finally:
            run.close()
        return True

    def _make_slot(self, key: bytes) -> Child:
        kind, limits = _OF_SLOT[key[:1]], marshal.loads(key[1:])  # noqa: S302 - the caller wrote it
        child = self._spawn(kind, limits)
        self._busy[child.pid] = child
        return child

    def _load_calls(self) -> None:
        """Import what calls need, once, so that no child has to see its files."""
        import lazycore.sandbox._child
        import lazycore.sandbox._linux._session_server  # noqa: F401 - for children

    def _mounts_changed(self) -> bool:
        poll = select.poll()
        poll.register(self._mounts, select.POLLPRI)
        return bool(poll.poll(0))

    def _spawn(self, kind: bytes, limits: Limits | None = None) -> Child:
        """Make a child for one run, or with `limits` a slot."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        identity = (os.geteuid(), os.getegid())
        pid, pidfd = _calls.clone_with_pidfd(_FLAGS[kind])
        if not pid:
            _child(theirs, kind, identity, limits)
        theirs.close()
        return Child(pid, pidfd, ours)

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._forget(pid)
            self._kill_strays()

    def _forget(self, pid: int) -> None:
        child = self._busy.pop(pid, None)
        if child is not None:
            self._slots.forget(child)
            child.close()

    def _kill_strays(self) -> None:
        """Kill what a supervisor without a pid namespace left when it was killed.

        Their own children come here in turn: `main` made this process a subreaper.
        """
        known = {child.pid for child in self._busy.values()}
        for pid in children_of(os.getpid()):
            if pid not in known:
                os.kill(pid, signal.SIGKILL)

    def _shut_down(self) -> None:
        """End every child and wait for the last one."""
        for child in self._busy.values():
            child.channel.close()
        while True:
            try:
                pid, _ = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            self._busy.pop(pid, None)
            self._kill_strays()


def _child(
    channel: socket.socket,
    kind: bytes,
    identity: tuple[int, int],
    limits: Limits | None,
) -> NoReturn:
    try:
        fd = os.dup(channel.fileno())
        if fd != CHANNEL_FD:
            os.dup2(fd, CHANNEL_FD, inheritable=False)
        _calls.close_from(CHANNEL_FD + 1)
        channel.detach()
        channel = socket.socket(fileno=CHANNEL_FD)
        if limits is not None:
            if kind == NO_NAMESPACES:
                guard(channel)
            _slot.serve(channel, lambda: _make(channel, kind, identity, limits))
        failure = None
        try:
            if kind != NO_NAMESPACES:
                _calls.prctl(_calls.PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if kind != NO_NAMESPACES:
                enter_namespaces(identity, network=kind == ISOLATED)
        except StageError as error:
            failure = error
        except OSError as error:
            failure = StageError("namespaces", error.errno or 0, str(error.filename))
        data, fd = receive_fd(channel, 1)
        if not data or fd < 0 or hung_up(channel):
            os._exit(0)
        run = socket.socket(fileno=fd)
        serve_one(run, channel, failure)
    finally:
        os._exit(0)


def _make(
    channel: socket.socket,
    kind: bytes,
    identity: tuple[int, int],
    limits: Limits,
) -> _slot.Slot:
    if kind == NO_NAMESPACES:
        return LandlockSlot(channel, limits)
    network = kind == ISOLATED
    return NamespaceSlot(channel, limits, identity=identity, network=network)


def _leave_terminal() -> None:
    """Give up the caller's terminal and process group, for all runs to come.

    A new session would do the same, but put every wake-up into a scheduling group
    of its own (sched(7), autogroup), which costs milliseconds on a busy machine.
    """
    os.setpgid(0, 0)
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return  # there is none
    try:
        fcntl.ioctl(fd, termios.TIOCNOTTY)
    except OSError:
        os.setsid()
    finally:
        os.close(fd)


def main(control_fd: int, caller_fd: int) -> None:
    """Run a launcher on inherited descriptors until its caller is gone."""
    import gc

    gc.disable()
    _leave_terminal()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    # A caller that ignores or blocks signals passes that on, and the dead would be gone
    # before they are counted: wait(2).
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGCHLD})
    os.chdir("/")
    # Without a pid namespace a killed supervisor's orphans come here.
    _calls.prctl(_calls.PR_SET_CHILD_SUBREAPER, 1)
    os.set_inheritable(control_fd, False)  # noqa: FBT003 - the signature of os
    os.set_inheritable(caller_fd, False)  # noqa: FBT003 - the signature of os
    Launcher(socket.socket(fileno=control_fd), caller_fd).run()

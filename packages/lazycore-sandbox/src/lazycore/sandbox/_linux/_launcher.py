"""The launcher: a small process that makes confined children for its caller.

It is single-threaded, imports little, starts with an empty environment, and dies with
the process that started it, however that one ends. It hands the caller's socket for a
run to a slot, or to a child that serves no other run, and keeps their control groups.
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
from lazycore.sandbox._linux._cgroup import Group, Lease, enter, sweep
from lazycore.sandbox._linux._children import (
    Child,
    enter_namespaces,
    hung_up,
    keep_only,
    receive_fd,
    send_fds,
)
from lazycore.sandbox._linux._landlock_slot import LandlockSlot, guard
from lazycore.sandbox._linux._meter import children_of
from lazycore.sandbox._linux._namespace_slot import NamespaceSlot
from lazycore.sandbox._linux._one_run import serve_one
from lazycore.sandbox._linux._order import (
    HOST_NETWORK,
    ISOLATED,
    LENT,
    MESSAGE_BYTES,
    NO_NAMESPACES,
    NOT_LENT,
    Order,
    read_order,
)
from lazycore.sandbox._linux._slots import Slots
from lazycore.sandbox._linux._stage import StageError
from lazycore.sandbox._linux._supervisor import tell_failure

if TYPE_CHECKING:
    from lazycore.sandbox._linux._cgroup import Bounds

_LEAVING_S = 2.0

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
        self._lenders: dict[int, tuple[Child, Bounds]] = {}
        self._left: list[Group] = []
        self._bounds: Bounds = {}
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
                elif fd in self._lenders:
                    self._lend(fd)
                else:
                    self._slots.hear(fd)

    def _serve(self) -> bool:
        message, fd = receive_fd(self._control, MESSAGE_BYTES)
        if not message:
            return False
        if fd < 0:
            self._load_calls()
            return True
        order = read_order(message)
        run = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
        try:
            if order.limits is not None:
                if self._mounts_changed():
                    self._slots.renew()
                self._slots.hand_over(message, run)
            else:
                child = self._spawn(order)
                if order.lends and order.bounds:
                    self._lenders[child.channel.fileno()] = (child, order.bounds)
                    self._slots.poll.register(child.channel.fileno(), select.POLLIN)
                child.hand_over(run)
        except StageError as error:
            tell_failure(run, error)
        except OSError as error:
            tell_failure(run, StageError("clone", error.errno or 0))
        finally:
            run.close()
        return True

    def _make_slot(self, key: bytes) -> Child:
        return self._spawn(read_order(key))

    def _lend(self, fd: int) -> None:
        """Make a control group for a session, which lasts as long as its server."""
        server, bounds = self._lenders[fd]
        try:
            asked = server.channel.recv(1)
        except ConnectionResetError:
            asked = b""
        if not asked:
            self._forget_lender(server)
            return
        try:
            group = self._group(bounds)
            server.groups.append(group)
            fds = group.open()
        except StageError as error:
            server.channel.send(NOT_LENT + marshal.dumps([error.code, error.detail]))
            return
        send_fds(server.channel, LENT, fds)
        for lent in fds:
            os.close(lent)

    def _forget_lender(self, child: Child) -> None:
        fd = child.channel.fileno()
        if self._lenders.pop(fd, None):
            self._slots.poll.unregister(fd)

    def _group(self, bounds: Bounds) -> Group:
        if not self._bounds:
            sweep(bounds)
        self._bounds = bounds
        return Group(bounds)

    def _load_calls(self) -> None:
        """Import what calls need, once, so that no child has to see its files."""
        import lazycore.sandbox._child
        import lazycore.sandbox._linux._session_server  # noqa: F401 - for children

    def _mounts_changed(self) -> bool:
        poll = select.poll()
        poll.register(self._mounts, select.POLLPRI)
        return bool(poll.poll(0))

    def _spawn(self, order: Order) -> Child:
        """Make a child for one run, or a slot, in a control group if it is bounded."""
        groups: list[Group] = []
        fds: list[int] = []
        if order.bounds and not order.lends:
            groups.append(self._group(order.bounds))
        try:
            fds += [fd for group in groups for fd in group.open()]
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            identity = (os.geteuid(), os.getegid())
            pid, pidfd = _calls.clone_with_pidfd(_FLAGS[order.kind])
        except BaseException:
            self._left += groups
            raise
        else:
            if not pid:
                _child(theirs, order, identity, fds)
        finally:
            for fd in fds:
                os.close(fd)
        theirs.close()
        child = self._busy[pid] = Child(pid, pidfd, ours, groups)
        return child

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
            self._remove_groups()

    def _forget(self, pid: int) -> None:
        child = self._busy.pop(pid, None)
        if child is not None:
            self._slots.forget(child)
            self._forget_lender(child)
            child.close()
            self._left += child.groups

    def _remove_groups(self) -> None:
        """Remove those that nothing is left in; a later time comes for the others."""
        self._left = [group for group in self._left if not group.remove()]

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
                break
            self._forget(pid)
            self._kill_strays()
        for group in self._left:
            group.remove(patience_s=_LEAVING_S)
        # What a killed one left may not have been empty at the first time.
        sweep(self._bounds)


def _child(
    channel: socket.socket, order: Order, identity: tuple[int, int], fds: list[int]
) -> NoReturn:
    try:
        lease = Lease(order.bounds, fds) if fds else None
        failure = enter(lease)
        channel = keep_only(channel, lease)
        if order.limits is not None:
            if order.kind == NO_NAMESPACES:
                guard(channel)
            _slot.serve(
                channel, lambda: _make(channel, order, identity, lease), failure
            )
        if failure is None:
            failure = _prepare(order.kind, identity, lease)
        data, fd = receive_fd(channel, 1)
        if not data or fd < 0 or hung_up(channel):
            os._exit(0)
        serve_one(socket.socket(fileno=fd), channel, failure, lease)
    finally:
        os._exit(0)


def _prepare(
    kind: bytes, identity: tuple[int, int], lease: Lease | None
) -> StageError | None:
    """Make this process ready for its one run; return what was refused."""
    try:
        if lease is not None:
            lease.prepare()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if kind != NO_NAMESPACES:
            _calls.prctl(_calls.PR_SET_PDEATHSIG, signal.SIGKILL)
            enter_namespaces(identity, network=kind == ISOLATED)
    except OSError as error:
        return StageError("namespaces", error.errno or 0, str(error.filename))
    return None


def _make(
    channel: socket.socket,
    order: Order,
    identity: tuple[int, int],
    lease: Lease | None,
) -> _slot.Slot:
    assert order.limits is not None
    if order.kind == NO_NAMESPACES:
        return LandlockSlot(channel, order.limits, lease)
    network = order.kind == ISOLATED
    return NamespaceSlot(
        channel, order.limits, lease, identity=identity, network=network
    )


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

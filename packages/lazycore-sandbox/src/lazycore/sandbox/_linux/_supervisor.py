"""Pid 1 of a sandbox, or the subreaper of one without namespaces.

It prepares the confinement, forks the target, reaps, answers a kill request, ends
what is left, and reports what the run consumed. It runs our code only and holds no
secret: the launcher that it was forked from started with an empty environment.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _calls, _landlock, _spawn, _target
from lazycore.sandbox._linux._meter import Meter
from lazycore.sandbox._linux._request import Request, send_answer
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from lazycore.sandbox._linux._cgroup import Lease
    from lazycore.sandbox._linux._landlock import Rule


def tell_failure(sock: socket.socket, error: BaseException) -> None:
    """Tell the caller which step failed, and that the target was not started."""
    if isinstance(error, StageError):
        _fail(sock, error.stage, error.code, error.detail)
    elif isinstance(error, OSError):
        _fail(sock, "prepare", error.errno or 0, str(error.filename or ""))
    else:
        _fail(sock, "prepare", errno.EINVAL, repr(error)[:500])


def _fail(sock: socket.socket, stage: str, code: int, detail: str) -> None:
    send_answer(sock, {"error": {"stage": stage, "errno": code, "detail": detail}})


def lift(fd: int) -> int:
    """Move a descriptor above those that the target gets."""
    lifted = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return lifted


class Supervisor:
    """Fork the target, watch it to its end, end what it left, report.

    Args:
        sock: The caller's end speaks here.
        life: Descriptor that hangs up when the process that made this one is gone.
        request: The run.
        lease: The control group that this process is in, if it bounds the run.
        proc: Where this pid namespace's processes are seen.

    Attributes:
        scoped: Without namespaces, whether `kill(-1)` is known to stay inside.
        own_tasks: How many processes of ours are in the control group.
    """

    def __init__(
        self,
        sock: socket.socket,
        life: int,
        request: Request,
        lease: Lease | None = None,
        *,
        proc: str = "/proc",
    ) -> None:
        self.sock = sock
        self._lease = lease
        self._killed_before = 0 if lease is None else lease.kills()
        self.own_tasks = 1
        self._life = life
        self.scoped = False
        self._request = request
        self._target = 0
        self._status: int | None = None
        self._user_s = 0.0
        self._system_s = 0.0
        self._max_rss = 0
        self._limit: str | None = None
        self._meter = Meter(request["watch"], own_pids=request["namespaces"], proc=proc)
        self._ended = 0

    def run(self, fds: list[int], rules: list[Rule]) -> None:
        """Run the target to its end and send the final answer."""
        if not self._request["namespaces"]:
            become_reaper(self._request["landlock_abi"])
            self.scoped = True
        elif not self._request["input"]:
            _target.read_nothing(fds)
        self._meter.start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        children = lift(_calls.signal_descriptor(signal.SIGCHLD))
        if self._request["namespaces"] and self._request["call"] is None:
            with self.starting():
                target = _spawn.spawn(self._request, fds, rules)
            self.watch_over(target, children)
            self.report()
            return
        status_read, status_write = os.pipe2(os.O_CLOEXEC)
        with self.starting():
            self._target = os.fork()
            if not self._target:
                _target.become(self._request, fds, status_write, rules)
        os.close(status_write)
        for fd in fds:
            os.close(fd)
        self._watch(children)
        self._end_all()
        failure = _target.failure(status_read)
        if failure is None:
            self.report()
        else:
            tell_failure(self.sock, failure)

    @contextlib.contextmanager
    def starting(self, *, threads: int = 0) -> Iterator[None]:
        """Start the target in here, so that the control group counts it alone.

        Args:
            threads: How many of ours serve to start it, and end then.
        """
        if self._lease is None:
            yield
            return
        self._lease.begin(self.own_tasks + threads)
        try:
            yield
        finally:
            self._lease.settle(self.own_tasks)

    def watch_over(self, target: int, children: int) -> None:
        """Wait for a target that runs, end what it left.

        Args:
            target: Its pid.
            children: Signal descriptor for SIGCHLD, which is blocked.
        """
        self._target = target
        self._watch(children)
        self._end_all()

    def start_meter(self, scratch: list[int]) -> None:
        """Note what the run finds, before the target starts.

        Args:
            scratch: Descriptors of its scratch file systems.
        """
        self._meter.scratch = [*scratch]
        self._meter.start()

    def report(self) -> None:
        """Say how the target ended; by now every process of the run is reaped."""
        if self._limit is None:
            self._limit = self._exceeded()
        send_answer(
            self.sock,
            {
                "status": self._status,
                "cpu_user_s": self._user_s,
                "cpu_system_s": self._system_s,
                "max_rss_bytes": self._max_rss,
                "processes": self._ended,
                "limit": self._limit,
            },
        )

    def _watch(self, children: int) -> None:
        """Wait for the target's end, a passed limit or a kill request."""
        poll = select.poll()
        poll.register(children, select.POLLIN)
        poll.register(self.sock.fileno(), select.POLLIN)
        poll.register(self._life, select.POLLIN)
        while self._status is None:
            events = poll.poll(self._meter.interval_ms)
            if self._meter.active and self._limit is None:
                self._limit = self._exceeded()
                if self._limit is not None:
                    self._end_all()
            for fd, _ in events:
                if fd == children:
                    os.read(children, 128 * 16)
                    self._reap(block=False)
                else:
                    # A kill request, or the caller or the launcher is gone.
                    self._end_all()

    def _exceeded(self) -> str | None:
        if self._lease is not None and self._lease.kills() > self._killed_before:
            return "memory"
        if self._status is not None:
            return None
        return self._meter.exceeded(self._user_s + self._system_s)

    def _reap(self, *, block: bool) -> None:
        """Collect the dead; with `block`, all of them."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, 0 if block else os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._user_s += usage.ru_utime
            self._system_s += usage.ru_stime
            self._max_rss = max(self._max_rss, usage.ru_maxrss * 1024)
            self._ended += 1
            if pid == self._target:
                self._status = status

    def _end_all(self) -> None:
        """Kill every process of the run at once and reap them all."""
        if self._request["namespaces"]:
            if os.getpid() != 1:
                raise StageError("pid namespace", errno.EINVAL)
        elif not self.scoped:
            raise StageError("signal scope", errno.EINVAL)
        with contextlib.suppress(PermissionError, ProcessLookupError):
            # kill(2): every process but the caller that it may signal: in a pid
            # namespace those are its members, under a signal scope those started
            # inside it. The kernel walks the list under one lock, so a fork bomb
            # does not outrun it.
            os.kill(-1, signal.SIGKILL)
        self._reap(block=True)


def become_reaper(abi: int) -> None:
    """Adopt orphans, enter a signal scope, and prove that kill(-1) cannot leave it."""
    _calls.prctl(_calls.PR_SET_CHILD_SUBREAPER, 1)
    launcher = os.getppid()
    os.kill(launcher, 0)
    _calls.prctl(_calls.PR_SET_NO_NEW_PRIVS, 1)
    _landlock.scope_signals(abi=abi)
    try:
        os.kill(launcher, 0)
    except PermissionError:
        return
    raise StageError("signal scope", errno.ENOTSUP)

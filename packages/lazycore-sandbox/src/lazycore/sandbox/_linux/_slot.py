"""A slot: a process that serves one run after another, and ends with all of them.

It is a child of the launcher, starts with an empty environment, and runs no code but
ours. For each run a thread of its gives up every right for good and starts the target
(`_entry`); a thread costs a small part of a process, whose every page has to be
copied. When the target has ended, the slot kills and reaps whatever the run left, so
the next one begins with nobody there.
"""

from __future__ import annotations

import _thread
import gc
import os
import signal
import socket
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox._linux import _calls, _target
from lazycore.sandbox._linux._children import receive_fd
from lazycore.sandbox._linux._request import receive_request
from lazycore.sandbox._linux._stage import StageError
from lazycore.sandbox._linux._supervisor import Supervisor, tell_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.sandbox._linux._cgroup import Lease
    from lazycore.sandbox._linux._entry import Entry
    from lazycore.sandbox._linux._request import Request

IDLE = b"i"
"""What a slot tells the launcher when it can take another run."""

Limits = dict[str, int | None]
"""Limits of a process that all runs of a slot have, and so the slot itself."""


class Slot(ABC):
    """The event loop.

    Args:
        channel: The launcher hands runs over here, and hangs up when it shall end.
        limits: Set for good.
        lease: The control group that it entered, if it is in one of its own.
    """

    proc = "/proc"
    """Where the slot sees the processes of its runs."""
    forks = False
    """Whether a target is a copy of this process, not a new program."""
    stack_bytes = 256 << 10
    """Of a run's thread."""
    own_tasks = 1
    """Processes of ours in its control group."""

    def __init__(
        self, channel: socket.socket, limits: Limits, lease: Lease | None
    ) -> None:
        self._channel = channel
        self._lease = lease
        if lease is not None:
            lease.prepare()
        _calls.prctl(_calls.PR_SET_NO_NEW_PRIVS, 1)
        self._enter()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        self._children = _calls.signal_descriptor(signal.SIGCHLD)
        _target.limit(limits)
        cpu_s = limits["cpu_s"]
        self._retire_at_s = float("inf") if cpu_s is None else cpu_s / 2
        # Its memory and its descriptors are closed to every other process.
        _calls.prctl(_calls.PR_SET_DUMPABLE, 0)
        _thread.stack_size(self.stack_bytes)

    @abstractmethod
    def _enter(self) -> None:
        """Prepare this process once, before it takes the first run."""

    @abstractmethod
    def _entry(self, request: Request) -> Entry:
        """Prepare the way in for one run."""

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
            except BrokenPipeError:
                return  # the launcher is gone, and ended the run
            except BaseException as error:  # noqa: BLE001 - reported, then all ends
                tell_failure(sock, error)
                return
            sock.close()

    def _serve(self, sock: socket.socket) -> None:
        try:
            request, fds = receive_request(sock)
        except EOFError:
            self._channel.send(IDLE)  # the caller went away
            return
        life = self._channel.fileno()
        supervisor = Supervisor(sock, life, request, self._lease, proc=self.proc)
        supervisor.scoped = True
        supervisor.own_tasks = self.own_tasks
        entry = self._entry(request)
        failure = None
        try:
            with supervisor.starting(threads=1):
                target = entry.start(fds, supervisor)
        except StageError as error:
            failure = error  # and nothing was started
        else:
            supervisor.watch_over(target, self._children)
            failure = entry.failure()
        entry.close()
        # First, so that the caller's next run need not find another slot.
        if time.process_time() < self._retire_at_s:
            self._channel.send(IDLE)
        if failure is None:
            supervisor.report()
        else:
            tell_failure(sock, failure)


def serve(
    channel: socket.socket, make: Callable[[], Slot], failure: StageError | None
) -> NoReturn:
    """Be the slot that `make` makes, in this process that was just cloned.

    Args:
        channel: As in `Slot`.
        make: Makes it.
        failure: What already went wrong.
    """
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            if failure is not None:
                raise failure  # noqa: TRY301 - told like those of `make`
            slot = make()
        except Exception as error:  # noqa: BLE001 - told to the run that wanted it
            data, fd = receive_fd(channel, 1)
            if data:
                tell_failure(socket.socket(fileno=fd), error)
        else:
            slot.run()
    finally:
        os._exit(0)

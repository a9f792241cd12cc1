"""A target forked ahead of its request, where no namespace lets pid 1 spawn it.

Without a pid namespace the supervisor must stay outside of the target's domain, so it
cannot confine itself and spawn. It forks the future target while idle instead; that
one waits for its request, confines itself and becomes the program.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import NoReturn

from lazycore.sandbox._linux import _calls, _landlock, _target
from lazycore.sandbox._linux._request import Request, receive_request, send_request
from lazycore.sandbox._linux._stage import StageError


class ReadyTarget:
    """A process that waits to become the target.

    Attributes:
        pid: Its process id.
        status: Where it reports a failed start; closed on exec.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.status, report = os.pipe2(os.O_CLOEXEC)
        supervisor = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            ours.close()
            os.close(self.status)
            _wait(theirs, report, supervisor)
        theirs.close()
        os.close(report)
        self._sock = ours

    def begin(self, request: Request, fds: list[int]) -> None:
        """Hand over the request and the descriptors that it gets."""
        send_request(self._sock, request, fds)
        self._sock.close()


def _wait(sock: socket.socket, report: int, supervisor: int) -> NoReturn:
    try:
        _calls.prctl(_calls.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(127)
        try:
            request, fds = receive_request(sock)
        except (EOFError, OSError):
            os._exit(127)
        try:
            rules = _landlock.open_rules(request["rules"])
        except StageError as error:
            _target.report(report, error.stage, error.code, error.detail)
        except OSError as error:
            _target.report(report, "rules", error.errno or 0, str(error.filename or ""))
        else:
            _calls.prctl(_calls.PR_SET_PDEATHSIG, 0)
            _target.become(request, fds, report, rules)
    finally:
        os._exit(127)

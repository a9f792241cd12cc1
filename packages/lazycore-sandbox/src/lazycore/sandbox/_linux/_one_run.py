"""What a child of the launcher does that is no slot: one run, or one session."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox._linux import _landlock
from lazycore.sandbox._linux._own_root import OwnRoot
from lazycore.sandbox._linux._request import Request, receive_request
from lazycore.sandbox._linux._supervisor import Supervisor, lift, tell_failure

if TYPE_CHECKING:
    from lazycore.sandbox._linux._cgroup import Lease
    from lazycore.sandbox._linux._landlock import Rule
    from lazycore.sandbox._linux._stage import StageError


def serve_one(
    sock: socket.socket,
    channel: socket.socket,
    failure: StageError | None,
    lease: Lease | None,
) -> NoReturn:
    """Serve one request and end this process; never returns.

    Args:
        sock: The caller's end speaks here.
        channel: Stays open as long as the launcher lives.
        failure: What already went wrong while the namespaces were prepared.
        lease: The control group that this process entered.
    """
    try:
        if failure is not None:
            tell_failure(sock, failure)
            os._exit(0)
        try:
            request, fds = receive_request(sock)
        except (EOFError, OSError):
            os._exit(0)
        try:
            rules = _build(request)
            if request["session"]:
                from lazycore.sandbox._linux import _session_server

                _session_server.serve(sock, channel, request, rules)
            sock = _lifted(sock)
            life = _lifted(channel).detach()
            supervisor = Supervisor(sock, life, request, lease)
            supervisor.run(fds, rules)
        except BaseException as error:  # noqa: BLE001 - reported, then the process ends
            tell_failure(sock, error)
    finally:
        os._exit(0)


def _build(request: Request) -> list[Rule]:
    """Make the target's view of the file system; return its Landlock rules."""
    if not request["namespaces"]:
        return _landlock.open_rules([*request["common_rules"], *request["rules"]])
    root = OwnRoot(request)
    root.enter()
    return root.rules


def _lifted(sock: socket.socket) -> socket.socket:
    """Move a socket above the descriptors that the target gets."""
    return socket.socket(fileno=lift(sock.detach()))

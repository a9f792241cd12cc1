"""Slots of a session: copies of its warm server, whose targets are copies again.

A slot holds what the server imported, and never what a run may read alone: that goes
from the caller to the target (`_fork`). So each target starts from the same memory.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox._linux import _calls, _slot
from lazycore.sandbox._linux._cgroup import enter
from lazycore.sandbox._linux._children import keep_only, send_fd
from lazycore.sandbox._linux._fork import STACK_BYTES, reset_signals
from lazycore.sandbox._linux._kept_root import KeptRoot
from lazycore.sandbox._linux._landlock_slot import LandlockSlot, guard
from lazycore.sandbox._linux._namespace_slot import NamespaceSlot
from lazycore.sandbox._linux._plan import nested
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    import socket

    from lazycore.sandbox._linux._cgroup import Lease
    from lazycore.sandbox._linux._request import Request

READY = b"R"
"""What comes with the descriptor of a slot's process, before anything else."""

# The limits are the targets' own: a slot is as large as what the server imported.
_NO_LIMITS: _slot.Limits = dict.fromkeys(
    ("open_files", "file_size_bytes", "cpu_s", "data_bytes", "processes")
)
_FLAGS = (
    _calls.CLONE_NEWUSER
    | _calls.CLONE_NEWNS
    | _calls.CLONE_NEWPID
    | _calls.CLONE_NEWIPC
    | _calls.CLONE_NEWUTS
    | _calls.CLONE_NEWCGROUP
)


class _NamespaceSessionSlot(NamespaceSlot):
    """Has namespaces below the server's, and one root, which shows what its does."""

    forks = True
    stack_bytes = STACK_BYTES

    def __init__(
        self,
        channel: socket.socket,
        session: Request,
        lease: Lease | None,
        *,
        identity: tuple[int, int],
    ) -> None:
        self._session = session
        network = not session["share_network"]
        super().__init__(channel, _NO_LIMITS, lease, identity=identity, network=network)

    def _enter(self) -> None:
        super()._enter()
        self._only = KeptRoot(
            self._session["inner"],
            nested(self._session["binds"]),
            old=self._old,
            proc=self._shut_proc,
            shelf=self._shelf,
            name="root",
        )

    def _root(self, request: Request) -> KeptRoot:
        del request  # the session's policy is theirs
        if path := self._only.uncovered():
            raise StageError("replaced", errno.ESTALE, path)
        return self._only


class _LandlockSessionSlot(LandlockSlot):
    """Has a domain below the server's."""

    forks = True
    stack_bytes = STACK_BYTES

    def __init__(self, channel: socket.socket, lease: Lease | None) -> None:
        super().__init__(channel, _NO_LIMITS, lease)


def serve(
    channel: socket.socket, session: Request, server: int, lease: Lease | None
) -> NoReturn:
    """Be a slot, in this process that was just forked; never returns.

    Args:
        channel: As in `Slot`.
        session: What the session was asked for.
        server: The pid of its server.
        lease: The control group that it shall enter.
    """
    try:
        # Those of what was imported are not ours.
        reset_signals()
        identity = (os.geteuid(), os.getegid())
        failure: StageError | None = None
        if session["namespaces"]:
            _calls.prctl(_calls.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != server:
                os._exit(0)
            failure = _enter_namespaces()
        failure = failure or enter(lease)
        channel = keep_only(channel, lease)
        send_fd(channel, READY, os.pidfd_open(os.getpid()))
        if not session["namespaces"]:
            guard(channel)

        def make() -> _slot.Slot:
            if session["namespaces"]:
                return _NamespaceSessionSlot(channel, session, lease, identity=identity)
            return _LandlockSessionSlot(channel, lease)

        _slot.serve(channel, make, failure)
    finally:
        os._exit(0)


def _enter_namespaces() -> StageError | None:
    """Go on as pid 1 of a new pid namespace, in a new process."""
    try:
        _calls.unshare(_FLAGS)
        pid = os.fork()
    except OSError as error:
        return StageError("namespaces", error.errno or 0)
    if pid:
        # The outer half only waits: its death is the inner half's.
        _calls.close_from(3)
        os.waitpid(pid, 0)
        os._exit(0)
    return None

"""A slot without namespaces: a Landlock domain that scopes signals holds its runs.

Orphans come to it, since it is a subreaper (prctl(2)), and a kill(-1) reaches exactly
what was started inside its domain. No kernel object takes a run along when the slot is
killed, so its parent is a guardian in a domain around that one. Launcher, guardian and
slot each end the run alone: whichever two are killed at once, the third is left.

A target is in the domain of the thread that started it, and kill(2) takes the number of
a thread for its process: for the moment that the thread still lives, the target may
signal the slot. All it can reach so is its own end, which the guardian sees to.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _calls, _landlock
from lazycore.sandbox._linux._entry import LandlockEntry
from lazycore.sandbox._linux._slot import Slot
from lazycore.sandbox._linux._supervisor import become_reaper

if TYPE_CHECKING:
    import socket

    from lazycore.sandbox._linux._landlock import Rule
    from lazycore.sandbox._linux._request import Request


def guard(channel: socket.socket) -> None:
    """Fork: the guardian stays in here for good, the future slot returns.

    Args:
        channel: The slot's; it hangs up when the launcher is gone.
    """
    become_reaper(_calls.landlock_abi())
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    slot = os.fork()
    if slot:
        try:
            _stand_by(channel, slot)
        finally:
            os._exit(0)


def _stand_by(channel: socket.socket, slot: int) -> None:
    children = _calls.signal_descriptor(signal.SIGCHLD)
    poll = select.poll()
    poll.register(channel.fileno(), 0)
    poll.register(children, select.POLLIN)
    while poll.poll() == [(children, select.POLLIN)]:
        os.read(children, 128 * 16)
        # A slot that is stopped holds no limit any more.
        if os.waitpid(slot, os.WNOHANG | os.WUNTRACED)[0]:
            break
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


class LandlockSlot(Slot):
    """See the module."""

    own_tasks = 2  # with its guardian

    def _enter(self) -> None:
        become_reaper(_calls.landlock_abi())
        self._common: list[tuple[str, int, int, int]] = []
        self._rules: list[Rule] = []

    def _entry(self, request: Request) -> LandlockEntry:
        common = request["common_rules"]
        if common != self._common or not _landlock.are_current(common, self._rules):
            for fd, _ in self._rules:
                os.close(fd)
            self._rules = []
            self._rules = _landlock.open_rules(common)
            self._common = common
        return LandlockEntry(request, self._rules, forks=self.forks)

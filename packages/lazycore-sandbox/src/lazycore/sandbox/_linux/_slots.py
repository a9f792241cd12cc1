"""The launcher's slots: which are idle, which serve a run, which have to go."""

from __future__ import annotations

import contextlib
import select
from typing import TYPE_CHECKING

from lazycore.sandbox._linux._slot import IDLE
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from lazycore.sandbox._linux._children import Child

_KEPT = 8
"""How many may be idle."""


class Slots:
    """Hand runs to idle slots, and make a new one when none is.

    Args:
        make: Makes the slot of one kind, which is busy at first.

    Attributes:
        poll: Tells when a slot is idle again, or gone.
    """

    def __init__(self, make: Callable[[bytes], Child]) -> None:
        self._make = make
        self._by_channel: dict[int, tuple[bytes, Child]] = {}
        self._idle: list[tuple[bytes, Child]] = []
        self._stale: set[int] = set()
        self.poll = select.poll()

    def renew(self) -> None:
        """Use no slot again: what they copied from the host is out of date."""
        while self._idle:
            self._retire(self._idle.pop()[1])
        self._stale |= self._by_channel.keys()

    def prepare(self, key: bytes) -> None:
        """Make an idle slot of a kind; without one, the next run tells why."""
        with contextlib.suppress(OSError, StageError):
            self._idle.append((key, self._add(key)))

    def hand_over(self, key: bytes, run: socket.socket) -> None:
        """Give a run to a slot of the kind that `key` names.

        Args:
            key: The kind.
            run: The caller's end speaks here.
        """
        for at in reversed(range(len(self._idle))):
            if self._idle[at][0] == key:
                child = self._idle.pop(at)[1]
                try:
                    child.hand_over(run)
                except BrokenPipeError:
                    continue  # it was killed while idle; the run was not begun
                except OSError:
                    self._retire(child)
                    raise
                return
        child = self._add(key)
        try:
            child.hand_over(run)
        except OSError:
            self._retire(child)
            raise

    def _add(self, key: bytes) -> Child:
        child = self._make(key)
        fd = child.channel.fileno()
        self._by_channel[fd] = (key, child)
        self.poll.register(fd, select.POLLIN)
        return child

    def hear(self, fd: int) -> None:
        """Take what a slot says on its channel, if `fd` is still one's."""
        if fd not in self._by_channel:
            return
        key, child = self._by_channel[fd]
        try:
            said = child.channel.recv(1)
        except ConnectionResetError:
            said = b""
        if said != IDLE or fd in self._stale:
            self._retire(child)
            return
        self._idle.append((key, child))
        if len(self._idle) > _KEPT:
            self._retire(self._idle.pop(0)[1])

    def _retire(self, child: Child) -> None:
        """Hang up, at which a slot ends; it is reaped like every child."""
        self.forget(child)
        child.channel.close()

    def forget(self, child: Child) -> None:
        """Expect nothing of a slot any more."""
        fd = child.channel.fileno()
        if fd in self._by_channel:
            del self._by_channel[fd]
            self._stale.discard(fd)
            self.poll.unregister(fd)
        self._idle = [entry for entry in self._idle if entry[1] is not child]

"""What the launcher is asked for: by its caller, and by the servers of sessions."""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, NamedTuple

from lazycore.sandbox._linux._children import receive_fds
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    import socket

    from lazycore.sandbox._linux._cgroup import Bounds
    from lazycore.sandbox._linux._slot import Limits

MESSAGE_BYTES = 1 << 17

ISOLATED = b"N"
"""All namespaces."""
HOST_NETWORK = b"H"
"""All namespaces but the network's."""
NO_NAMESPACES = b"L"
"""Landlock and seccomp only."""
_LEND = b"g"
"""A session's server asks for a control group for one of its slots."""
LENT, NOT_LENT = b"y", b"n"
_MOST_LENT_FDS = 4


class Order(NamedTuple):
    """What the caller asks for with one message."""

    kind: bytes
    limits: Limits | None
    """Those of a slot's processes; None for a process that serves one run."""
    bounds: Bounds
    lends: bool
    """Whether the bounds are those of each slot of a session."""

    def written(self) -> bytes:
        """Return the message, which is the same for the same order."""
        return marshal.dumps(tuple(self), 2)


def read_order(message: bytes) -> Order:
    """Read what `Order.written` wrote."""
    return Order(*marshal.loads(message))  # noqa: S302 - the caller wrote it


def borrow(channel: socket.socket) -> list[int]:
    """Ask the launcher for a control group; return what `Lease` takes.

    Args:
        channel: Of a session's server.

    Raises:
        StageError: If there is none.
    """
    channel.send(_LEND)
    said, fds = receive_fds(channel, MESSAGE_BYTES, _MOST_LENT_FDS)
    if said[:1] == NOT_LENT:
        code, detail = marshal.loads(said[1:])  # noqa: S302 - the launcher wrote it
        raise StageError("control group", code, detail)
    return fds

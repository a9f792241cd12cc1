"""Bounded capture of what a target prints: the head and the tail survive."""

from __future__ import annotations

import io
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What was kept of one stream.

    Attributes:
        data: All bytes, or the head, a line that states the cut, and the tail.
        truncated: Whether bytes were cut.
        total_bytes: How many bytes the target wrote.

    Examples:
        >>> Captured(data=b"x", truncated=False, total_bytes=1).total_bytes
        1
    """

    data: bytes = b""
    truncated: bool = False
    total_bytes: int = 0


_MAX_CHUNKS = 4096
"""A stream of single bytes is joined so often that its objects stay few."""


class HeadTail:
    r"""Keep at most `limit_bytes` of a stream: its first half and its last half.

    Args:
        limit_bytes: How many bytes are kept.

    Examples:
        >>> keep = HeadTail(limit_bytes=4)
        >>> keep.feed(b"abcdefgh")
        >>> keep.captured().data
        b'ab\\n[4 bytes cut]\\ngh'
    """

    __slots__ = ("_head", "_head_room", "_tail", "_tail_bytes", "_tail_limit", "total")

    def __init__(self, *, limit_bytes: int) -> None:
        self._tail_limit = limit_bytes // 2
        self._head_room = limit_bytes - self._tail_limit
        self._head: deque[bytes] = deque()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(chunk)
        if self._head_room:
            self._head.append(chunk[: self._head_room])
            chunk = chunk[self._head_room :]
            self._head_room -= len(self._head[-1])
        if not chunk:
            return
        self._tail.append(chunk)
        self._tail_bytes += len(chunk)
        # Whole chunks leave from the left while the rest still fills the tail, so
        # that a flood costs a pointer move per chunk and no copy.
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._tail_limit:
            self._tail_bytes -= len(self._tail.popleft())
        if len(self._tail) > _MAX_CHUNKS:
            self._tail = deque([b"".join(self._tail)[-self._tail_limit :]])
            self._tail_bytes = len(self._tail[0])

    def captured(self) -> Captured:
        """Return what was kept, and let go of it: the stream has ended."""
        kept = sum(map(len, self._head)) + min(self._tail_bytes, self._tail_limit)
        cut = self.total - kept
        # Each piece is freed when it was written, and the buffer becomes the result,
        # so a second copy of the whole is never held.
        whole = io.BytesIO()
        for piece in _drained(self._head):
            whole.write(piece)
        if cut:
            whole.write(b"\n[%d bytes cut]\n" % cut)
        surplus = max(0, self._tail_bytes - self._tail_limit)
        for piece in _drained(self._tail):
            whole.write(memoryview(piece)[surplus:])
            surplus = 0
        return Captured(
            data=whole.getvalue(), truncated=cut > 0, total_bytes=self.total
        )


def _drained(pieces: deque[bytes]) -> Iterator[bytes]:
    while pieces:
        yield pieces.popleft()


def printable(text: str) -> str:
    r"""Neutralise terminal control sequences for a person's screen.

    Args:
        text: Untrusted text.

    Returns:
        The text with every control character but newline and tab, and every
        bidirectional override, written as its escape.

    Examples:
        >>> printable("a\x1b[2J")
        'a\\x1b[2J'
    """
    return "".join(
        char
        if char in "\n\t" or (char.isprintable() and char not in _BIDI)
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")

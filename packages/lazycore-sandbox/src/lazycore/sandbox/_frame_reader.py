"""Read the nodes of a frame from hostile bytes (layout: ``_frames``).

No recursion, no allocation that the bytes at hand do not pay for, and no hash
table whose keys were chosen to collide (``_frame_tables``).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from lazycore.sandbox._errors import SandboxFrameError
from lazycore.sandbox._frame_tables import Tables
from lazycore.sandbox._frame_types import (
    MAX_DEPTH,
    MAX_INT_BYTES,
    MAX_NODES,
    from_plain,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_U32: Final = struct.Struct("!I")
_I64: Final = struct.Struct("!q")
_F64: Final = struct.Struct("!d")


class Reader:
    """Reads nodes from hostile bytes without recursion."""

    def __init__(self, view: memoryview, limit_bytes: int) -> None:
        self._view = view
        self._at = 0
        self._limit = limit_bytes
        self._nodes = 0
        self._tables = Tables()

    def finish(self) -> None:
        if self._at != len(self._view):
            raise SandboxFrameError(
                f"{len(self._view) - self._at} bytes follow the result"
            )

    def read(self) -> object:
        # Open containers: tag, type code of X, items still missing, items so far.
        stack: list[tuple[bytes, bytes, int, list[object]]] = []
        while True:
            tag, code, missing, value = self._node(len(stack))
            if missing:
                stack.append((tag, code, missing, []))
                continue
            done = value
            while stack:
                tag, code, missing, items = stack[-1]
                items.append(done)
                if len(items) < missing:
                    break
                stack.pop()
                done = self._close(tag, code, items)
            else:
                return done

    def _node(self, depth: int) -> tuple[bytes, bytes, int, object]:
        """Read one tag: a finished scalar, or a container with missing items."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise SandboxFrameError(f"result frame holds more than {MAX_NODES} items")
        tag = self.take(1)
        if tag in _CONTAINERS:
            if depth >= MAX_DEPTH:
                raise SandboxFrameError(
                    f"result frame is nested deeper than {MAX_DEPTH}"
                )
            code = self.take(1) if tag == b"X" else b""
            count = 1 if code else self.length() * (2 if tag == b"d" else 1)
            if count > len(self._view) - self._at:  # every item takes a byte
                raise SandboxFrameError(
                    f"container of {count} items in a shorter frame"
                )
            done = None if count else self._close(tag, code, [])
            return tag, code, count, done
        return tag, b"", 0, self._scalar(tag)

    def _scalar(self, tag: bytes) -> object:
        read = _SCALARS.get(tag)
        if read is None:
            raise SandboxFrameError(f"unknown tag {tag!r} in a result frame")
        return read(self)

    def read_int(self) -> int:
        size = self.length()
        if size > MAX_INT_BYTES:
            raise SandboxFrameError(f"int of {size} bytes in a result frame")
        return int.from_bytes(self.take(size), "big", signed=True)

    def read_text(self) -> str:
        try:
            return str(self.take(self.length()), "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise SandboxFrameError("text in a result frame is not UTF-8") from error

    def length(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def take(self, size: int) -> bytes:
        if size > len(self._view) - self._at:
            raise SandboxFrameError("result frame ends in the middle of a value")
        start = self._at
        self._at += size
        return bytes(self._view[start : self._at])

    def _close(self, tag: bytes, code: bytes, items: list[object]) -> object:
        match tag:
            case b"l":
                return items
            case b"t":
                return tuple(items)
            case b"S":
                return self._tables.make_set(items)
            case b"Z":
                return frozenset(self._tables.make_set(items))
            case b"d":
                return self._tables.make_dict(items[::2], items[1::2])
        return from_plain(code, items[0], limit_bytes=self._limit)


_CONTAINERS: Final = (b"l", b"t", b"S", b"Z", b"d", b"X")
_SCALARS: Final[dict[bytes, Callable[[Reader], object]]] = {
    b"N": lambda _: None,
    b"T": lambda _: True,
    b"F": lambda _: False,
    b"i": lambda reader: _I64.unpack(reader.take(8))[0],
    b"f": lambda reader: _F64.unpack(reader.take(8))[0],
    b"I": Reader.read_int,
    b"b": lambda reader: reader.take(reader.length()),
    b"s": Reader.read_text,
}

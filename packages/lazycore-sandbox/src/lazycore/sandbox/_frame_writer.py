"""Write a value as the nodes of a frame, without recursion (layout: ``_frames``)."""

from __future__ import annotations

import dataclasses
import itertools
import struct
from typing import TYPE_CHECKING, Final

from lazycore.sandbox._errors import SandboxFrameError
from lazycore.sandbox._frame_types import (
    MAX_DEPTH,
    MAX_INT_BYTES,
    MAX_NODES,
    to_plain,
    too_large,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_U32: Final = struct.Struct("!I")
_I64: Final = struct.Struct("!q")
_F64: Final = struct.Struct("!d")


class Writer:
    """Writes nodes in order, holding open containers on a stack of its own."""

    def __init__(self, limit_bytes: int) -> None:
        self.out = bytearray()
        self._limit = min(limit_bytes, 0xFFFF_FFFF)
        self._nodes = 0
        self._open: list[tuple[Iterator[object], int]] = []
        self._path: set[int] = set()

    def write(self, value: object) -> None:
        self._node(value)
        while self._open:
            items, identity = self._open[-1]
            try:
                item = next(items)
            except StopIteration:
                self._open.pop()
                self._path.discard(identity)
            except RuntimeError as error:
                raise SandboxFrameError(
                    "a container changed while it was written"
                ) from error
            else:
                self._node(item)

    def _node(self, value: object) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise SandboxFrameError(
                f"result holds more than {MAX_NODES} items: return an array or a table"
            )
        write = _WRITERS.get(type(value))
        if write is None:
            # An instance of a subclass travels as the first base that fits. The
            # unbound methods below see past whatever the subclass overrides.
            write = next(
                (row for base, row in _WRITERS.items() if isinstance(value, base)),
                Writer.put_special,
            )
        write(self, value)

    def put_constant(self, value: object) -> None:
        self._put(b"N" if value is None else b"T" if value is True else b"F")

    def put_float(self, value: float) -> None:
        self._put(b"f", _F64.pack(float.__float__(value)))

    def put_text(self, value: str) -> None:
        self._blob(b"s", str.encode(value, "utf-8", "surrogatepass"))

    def put_bytes(self, value: bytes | bytearray | memoryview) -> None:
        self._blob(b"b", bytes(value))

    def put_list(self, value: list[object]) -> None:
        self._enter(b"l", list.__len__(value), list.__iter__(value), value)

    def put_tuple(self, value: tuple[object, ...]) -> None:
        self._enter(b"t", tuple.__len__(value), tuple.__iter__(value), value)

    def put_set(self, value: set[object]) -> None:
        self._enter(b"S", set.__len__(value), set.__iter__(value), value)

    def put_frozenset(self, value: frozenset[object]) -> None:
        items = frozenset.__iter__(value)
        self._enter(b"Z", frozenset.__len__(value), items, value)

    def put_dict(self, value: dict[object, object]) -> None:
        pairs = itertools.chain.from_iterable(dict.items(value))
        self._enter(b"d", dict.__len__(value), pairs, value)

    def put_special(self, value: object) -> None:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            flat = ((name, getattr(value, name)) for name in names)
            pairs = itertools.chain.from_iterable(flat)
            self._enter(b"d", len(names), pairs, value)
            return
        found = to_plain(value)
        if found is None:
            kind = type(value)
            raise SandboxFrameError(
                f"a value of type {kind.__module__}.{kind.__qualname__} cannot leave "
                "the sandbox: return plain data, an array, a table or a data frame"
            )
        code, plain = found
        self._enter(b"X" + code, None, iter((plain,)), value)

    def put_int(self, value: int) -> None:
        bits = int.bit_length(value)
        if bits < 64:
            self._put(b"i", _I64.pack(value))
            return
        size = bits // 8 + 1
        if size > MAX_INT_BYTES:
            raise SandboxFrameError(
                f"an int of {size} bytes, at most {MAX_INT_BYTES} travel"
            )
        self._blob(b"I", int.to_bytes(value, size, "big", signed=True))

    def _blob(self, tag: bytes, data: bytes) -> None:
        if len(self.out) + len(data) + 5 > self._limit:
            raise SandboxFrameError(too_large(self._limit))
        self._put(tag, _U32.pack(len(data)), data)

    def _put(self, *parts: bytes) -> None:
        for part in parts:
            self.out += part
        if len(self.out) > self._limit:
            raise SandboxFrameError(too_large(self._limit))

    def _enter(
        self, tag: bytes, count: int | None, items: Iterator[object], owner: object
    ) -> None:
        if id(owner) in self._path:
            raise SandboxFrameError(
                f"a {type(owner).__name__} in the result contains itself"
            )
        if len(self._open) >= MAX_DEPTH:
            raise SandboxFrameError(f"result is nested deeper than {MAX_DEPTH} levels")
        if count is not None and count > MAX_NODES:
            raise SandboxFrameError(
                f"a container of {count} items, at most {MAX_NODES}"
            )
        self._put(tag, b"" if count is None else _U32.pack(count))
        self._open.append((items, id(owner)))
        self._path.add(id(owner))


# In the order in which an instance of a subclass is matched: bool before int.
_WRITERS: Final[dict[type, Callable[..., None]]] = {
    type(None): Writer.put_constant,
    bool: Writer.put_constant,
    int: Writer.put_int,
    float: Writer.put_float,
    str: Writer.put_text,
    bytes: Writer.put_bytes,
    bytearray: Writer.put_bytes,
    memoryview: Writer.put_bytes,
    list: Writer.put_list,
    tuple: Writer.put_tuple,
    set: Writer.put_set,
    frozenset: Writer.put_frozenset,
    dict: Writer.put_dict,
}

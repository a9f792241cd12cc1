"""Carry a callable's result across the trust boundary as data, never as pickle.

The sandboxed side writes one frame; the trusted side reads it. The reader treats
every byte as hostile: it never recurses, allocates in proportion to the bytes it
was given, and answers anything but a well-formed frame with :class:`SandboxFrameError`.

Layout, all integers big-endian::

    frame   = magic(4) nonce_length(1) nonce kind(1) payload_length(4) payload
    payload = node                                  kind 0, a value
            | node node node                        kind 1, an exception
    node    = N | T | F                             None, True, False
            | i int64 | I length(4) two's complement
            | f float64
            | s length(4) utf-8 | b length(4) bytes
            | l count(4) node*  | t count(4) node*  list, tuple
            | S count(4) node*  | Z count(4) node*  set, frozenset
            | d count(4) (node node)*               dict
            | X type(1) node                        see _frame_types
"""

from __future__ import annotations

import dataclasses
import hmac
import struct
import traceback
from typing import Final

from lazycore.sandbox._errors import SandboxFrameError
from lazycore.sandbox._frame_reader import Reader
from lazycore.sandbox._frame_types import too_large
from lazycore.sandbox._frame_writer import Writer

MAX_ERROR_TEXT: Final = 65_536

_MAGIC: Final = b"LCF1"
_VALUE: Final = 0
_RAISED: Final = 1
_U32: Final = struct.Struct("!I")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RaisedException:
    """What a callable raised, as text: no object of the other side survives."""

    type_name: str
    text: str
    traceback_text: str


def encode(value: object, *, nonce: bytes, limit_bytes: int) -> bytes:
    """Write ``value`` as one frame.

    Instances of subclasses travel as their base type, dataclasses as ``dict``,
    aware datetimes with a fixed offset.

    Args:
        value: the value; see the module of types for what can travel.
        nonce: at most 255 bytes that the reader expects.
        limit_bytes: largest frame to write, header included.

    Raises:
        SandboxFrameError: the value holds a type that cannot travel, contains itself,
            is nested too deeply (``MAX_DEPTH``), or needs more than the limit.
    """
    writer = Writer(limit_bytes)
    writer.write(value)
    return _frame(_VALUE, writer.out, nonce=nonce, limit_bytes=limit_bytes)


def encode_exception(error: BaseException, *, nonce: bytes, limit_bytes: int) -> bytes:
    """Write the type name, text and traceback text of ``error`` as one frame.

    A ``__str__`` or ``__repr__`` that raises is named in the text. The texts are
    shortened to what ``limit_bytes`` leaves, so that the frame always fits.
    """
    room = max(0, limit_bytes - len(nonce) - 64)
    share = min(MAX_ERROR_TEXT, room // 3)
    parts = (_type_name(error), _text_of(error), _traceback_of(error))
    writer = Writer(limit_bytes)
    for part in parts:
        writer.write(_shorten(part, share))
    return _frame(_RAISED, writer.out, nonce=nonce, limit_bytes=limit_bytes)


def decode(frame: bytes | bytearray, *, nonce: bytes, limit_bytes: int) -> object:
    """Read one frame written by an untrusted side.

    Args:
        frame: exactly one frame; trailing bytes are refused.
        nonce: what the frame must carry.
        limit_bytes: largest frame to look at.

    Returns:
        The value, or a :class:`RaisedException`.

    Raises:
        SandboxFrameError: the bytes are not such a frame.
    """
    view = memoryview(frame)
    header = len(_MAGIC) + 1 + len(nonce) + 1 + _U32.size
    if len(view) > limit_bytes:
        raise SandboxFrameError(
            f"result frame of {len(view)} bytes, limit {limit_bytes}"
        )
    if len(view) < header:
        raise SandboxFrameError(
            f"result frame ends inside its header ({len(view)} bytes)"
        )
    expected = _MAGIC + bytes((len(nonce),)) + nonce
    if not hmac.compare_digest(bytes(view[: len(expected)]), expected):
        raise SandboxFrameError(
            "result frame carries another nonce or magic than this call's"
        )
    kind = view[len(expected)]
    (length,) = _U32.unpack_from(view, len(expected) + 1)
    if length != len(view) - header:
        raise SandboxFrameError(
            f"result frame announces {length} bytes and carries {len(view) - header}"
        )
    reader = Reader(view[header:], limit_bytes)
    if kind == _VALUE:
        value = reader.read()
    elif kind == _RAISED:
        texts = [reader.read() for _ in range(3)]
        if not all(isinstance(text, str) for text in texts):
            raise SandboxFrameError("exception frame holds something other than text")
        type_name, text, traceback_text = map(str, texts)
        value = RaisedException(
            type_name=type_name, text=text, traceback_text=traceback_text
        )
    else:
        raise SandboxFrameError(f"unknown frame kind {kind}")
    reader.finish()
    return value


def _frame(kind: int, payload: bytearray, *, nonce: bytes, limit_bytes: int) -> bytes:
    if len(nonce) > 255:
        raise SandboxFrameError(
            f"a nonce of {len(nonce)} bytes does not fit, at most 255"
        )
    size = len(_MAGIC) + 1 + len(nonce) + 1 + _U32.size + len(payload)
    if size > limit_bytes or len(payload) > 0xFFFF_FFFF:
        raise SandboxFrameError(too_large(limit_bytes))
    return b"".join(
        (
            _MAGIC,
            bytes((len(nonce),)),
            nonce,
            bytes((kind,)),
            _U32.pack(len(payload)),
            payload,
        )
    )


def _type_name(error: BaseException) -> str:
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _text_of(error: BaseException) -> str:
    try:
        # The slice makes an exact str of whatever __str__ returned.
        return str.__str__(str(error))[:MAX_ERROR_TEXT]
    except BaseException as failure:  # noqa: BLE001 - hostile __str__ is data here
        return f"<text unavailable: __str__ raised {type(failure).__name__}>"


def _traceback_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException as failure:  # noqa: BLE001 - formatting calls foreign code
        return f"<traceback unavailable: {type(failure).__name__} while formatting>"


def _shorten(text: str, room: int) -> str:
    """Keep head and tail of ``text`` within ``room`` bytes of UTF-8."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= room:
        return text
    mark = f"\n... {len(data) - room} bytes cut ...\n".encode()
    if room <= len(mark):
        return data[:room].decode("utf-8", "ignore")
    head = (room - len(mark)) // 2
    tail = room - len(mark) - head
    return (data[:head] + mark + data[len(data) - tail :]).decode("utf-8", "ignore")

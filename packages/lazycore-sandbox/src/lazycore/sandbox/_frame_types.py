"""Say how each richer type becomes plain data for a frame, and comes back.

A type is one row: a code, how to recognise it, its plain form, and how to rebuild
it from a plain form that an enemy chose. Arrays travel as dtype, shape and bytes;
tables and data frames as Arrow IPC (see ``_frame_arrow``). Recognition never
imports a library: a value of NumPy's can only exist where NumPy is loaded.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
import uuid
from decimal import Decimal, InvalidOperation
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, cast

from lazycore.sandbox._errors import SandboxFrameError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

# What reader and writer agree on.
MAX_DEPTH: Final = 64
MAX_NODES: Final = 2_000_000
MAX_INT_BYTES: Final = 65_536

MAX_DECIMAL_TEXT: Final = 65_536
_DECIMAL_TEXT: Final = re.compile(
    r"-?(?:[0-9]+(?:\.[0-9]+)?(?:E[+-]?[0-9]+)?|Infinity|s?NaN[0-9]*)"
)
# Numbers, text of fixed width and dates; no object, no record, no named class.
_DTYPE: Final = re.compile(
    r"[<>|=]?(?:[biufc][0-9]+|[mM]8(?:\[[a-zA-Z0-9]+\])?|[SU][0-9]+)"
)
_MAX_DIMENSIONS: Final = 32


def too_large(limit_bytes: int) -> str:
    """Say that a result does not fit and what to do about it."""
    return (
        f"result needs more than the limit of {limit_bytes} bytes: return less, or "
        "write it to a file in an allowed write path"
    )


def to_plain(value: object) -> tuple[bytes, object] | None:
    """Return the type code and plain form of ``value``, or None if it has none."""
    # datetime is a date: the order of the rows matters.
    if isinstance(value, dt.datetime):
        return b"D", _datetime_parts(value)
    if isinstance(value, dt.date):
        return b"a", (value.year, value.month, value.day)
    if isinstance(value, dt.time):
        return b"m", _time_parts(value)
    if isinstance(value, dt.timedelta):
        return b"e", (value.days, value.seconds, value.microseconds)
    if isinstance(value, Decimal):
        return b"c", Decimal.__str__(value)
    if isinstance(value, PurePath):
        return b"p", PurePath.__str__(value)
    if isinstance(value, uuid.UUID):
        return b"u", value.bytes
    return _library_value(value)


def from_plain(code: bytes, plain: object, *, limit_bytes: int) -> object:
    """Rebuild the value of type ``code`` from a plain form of unknown origin.

    Raises:
        SandboxFrameError: for anything that is not exactly what
            :func:`to_plain` writes.
    """
    if code in {b"W", b"P", b"L"}:
        from lazycore.sandbox import _frame_arrow

        return _frame_arrow.rebuild(code, plain, limit_bytes=limit_bytes)
    builder = _BUILDERS.get(code)
    if builder is None:
        raise SandboxFrameError(f"unknown type code {code!r} in a result frame")
    try:
        return builder(plain)
    except SandboxFrameError:
        raise
    except (
        TypeError,
        ValueError,
        OverflowError,
        InvalidOperation,
        MemoryError,
        UnicodeError,
    ) as error:
        raise SandboxFrameError(
            f"malformed value of type {code!r} in a result frame: "
            f"{type(error).__name__}"
        ) from error


def _library_value(value: object) -> tuple[bytes, object] | None:
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.generic) and not isinstance(
            value, numpy.void | numpy.object_
        ):
            return b"g", _array_parts(cast("np.ndarray", numpy.asarray(value)))
        if isinstance(value, numpy.ndarray):
            return b"n", _array_parts(cast("np.ndarray", value))
    if any(name in sys.modules for name in ("pyarrow", "pandas", "polars")):
        from lazycore.sandbox import _frame_arrow

        return _frame_arrow.plain(value)
    return None


def _array_parts(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    text = array.dtype.str
    if _DTYPE.fullmatch(text) is None:
        raise SandboxFrameError(
            f"a NumPy array of dtype {array.dtype} cannot leave the sandbox: "
            "convert it to numbers, dates, or text of fixed width"
        )
    return text, tuple(map(int, array.shape)), array.tobytes(order="C")


def _build_array(plain: object) -> Any:
    text, shape, data = _expect(plain, str, tuple, bytes)
    assert isinstance(text, str)
    assert isinstance(shape, tuple)
    assert isinstance(data, bytes)
    if _DTYPE.fullmatch(text) is None:
        raise SandboxFrameError("a result frame names a dtype that never travels")
    if len(shape) > _MAX_DIMENSIONS:
        raise SandboxFrameError(f"an array of {len(shape)} dimensions")
    try:
        import numpy as np
    except ImportError as error:
        raise SandboxFrameError(
            "the result is a NumPy array and NumPy is not installed on this side: "
            "pip install numpy"
        ) from error
    dtype = np.dtype(text)
    size = dtype.itemsize
    if not size:
        raise SandboxFrameError("an array of items without size in a result frame")
    for length in shape:
        if type(length) is not int or not 0 <= length <= sys.maxsize:
            raise SandboxFrameError("an array of impossible shape in a result frame")
        size *= length
    if size != len(data):
        raise SandboxFrameError("an array whose bytes do not fit its shape")
    if not data:
        return np.empty(shape, dtype=dtype)
    _check_items(np, dtype, data)
    # A copy: the caller may write to its own array.
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def _build_array_scalar(plain: object) -> object:
    array = _build_array(plain)
    if array.shape != ():
        raise SandboxFrameError("a scalar of several items in a result frame")
    return array[()]


def _check_items(np: Any, dtype: Any, data: bytes) -> None:
    """Refuse what NumPy trusts and whatever reads the item later does not."""
    if dtype.kind == "b" and np.frombuffer(data, dtype=np.uint8).max() > 1:
        raise SandboxFrameError("an array of bools holds something else")
    codes = np.dtype(np.uint32).newbyteorder(dtype.byteorder)
    if dtype.kind == "U" and np.frombuffer(data, dtype=codes).max() > sys.maxunicode:
        raise SandboxFrameError("an array of text holds no Unicode")


def _offset_microseconds(offset: dt.timedelta | None) -> int | None:
    if offset is None:
        return None
    return offset // dt.timedelta(microseconds=1)


def _datetime_parts(value: dt.datetime) -> tuple[object, ...]:
    offset = dt.datetime.utcoffset(value)
    clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
    date = (value.year, value.month, value.day)
    return (*date, *clock, _offset_microseconds(offset))


def _time_parts(value: dt.time) -> tuple[object, ...]:
    offset = dt.time.utcoffset(value)
    clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
    return (*clock, _offset_microseconds(offset))


def _zone(offset: object) -> dt.tzinfo | None:
    if offset is None:
        return None
    return dt.timezone(dt.timedelta(microseconds=_integer(offset)))


def _build_datetime(plain: object) -> object:
    *parts, offset = _tuple_of(plain, 9)
    year, month, day, hour, minute, second, microsecond, fold = map(_integer, parts)
    zone = _zone(offset)
    return dt.datetime(
        year, month, day, hour, minute, second, microsecond, tzinfo=zone, fold=fold
    )


def _build_time(plain: object) -> object:
    *parts, offset = _tuple_of(plain, 6)
    hour, minute, second, microsecond, fold = map(_integer, parts)
    return dt.time(hour, minute, second, microsecond, tzinfo=_zone(offset), fold=fold)


def _build_date(plain: object) -> object:
    year, month, day = map(_integer, _tuple_of(plain, 3))
    return dt.date(year, month, day)


def _build_timedelta(plain: object) -> object:
    days, seconds, microseconds = map(_integer, _tuple_of(plain, 3))
    return dt.timedelta(days=days, seconds=seconds, microseconds=microseconds)


def _build_decimal(plain: object) -> object:
    if (
        not isinstance(plain, str)
        or len(plain) > MAX_DECIMAL_TEXT
        or _DECIMAL_TEXT.fullmatch(plain) is None
    ):
        raise SandboxFrameError("malformed Decimal in a result frame")
    return Decimal(plain)


def _build_path(plain: object) -> object:
    (text,) = _expect((plain,), str)
    return Path(cast("str", text))


def _build_uuid(plain: object) -> object:
    (data,) = _expect((plain,), bytes)
    return uuid.UUID(bytes=cast("bytes", data))


def _integer(value: object) -> int:
    if type(value) is not int:
        raise SandboxFrameError("a result frame holds no integer where one belongs")
    return value


def _tuple_of(plain: object, size: int) -> tuple[object, ...]:
    if not isinstance(plain, tuple) or len(plain) != size:
        raise SandboxFrameError("malformed value in a result frame")
    return plain


def _expect(plain: object, *kinds: type) -> tuple[object, ...]:
    parts = _tuple_of(plain, len(kinds))
    for part, kind in zip(parts, kinds, strict=True):
        if type(part) is not kind:
            raise SandboxFrameError("malformed value in a result frame")
    return parts


_BUILDERS: Final[dict[bytes, Callable[[object], object]]] = {
    b"D": _build_datetime,
    b"a": _build_date,
    b"m": _build_time,
    b"e": _build_timedelta,
    b"c": _build_decimal,
    b"p": _build_path,
    b"u": _build_uuid,
    b"n": _build_array,
    b"g": _build_array_scalar,
}

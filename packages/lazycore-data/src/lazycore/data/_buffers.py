"""Account for the buffers under Arrow arrays: which bytes are shared, which are new."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from lazycore.data._libraries import library

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["account", "addresses", "array_buffers", "numpy_ranges", "size_of"]

Range = tuple[int, int]


def _walk(array: Any, found: dict[Range, None]) -> None:
    pa = library("pyarrow")
    types = pa.types
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    for buffer in array.buffers():
        if buffer is not None and buffer.size:
            found[buffer.address, buffer.size] = None
    # `buffers()` reaches children but leaves dictionaries out.
    kind = array.type
    if types.is_dictionary(kind):
        _walk(array.dictionary, found)
    elif types.is_struct(kind):
        for index in range(kind.num_fields):
            _walk(array.field(index), found)
    elif types.is_map(kind):
        _walk(array.keys, found)
        _walk(array.items, found)
    elif (
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
    ):
        _walk(array.values, found)


def array_buffers(array: Any) -> dict[Range, None]:
    """Return (address, size) of every buffer, children and dictionaries included."""
    pa = library("pyarrow")
    found: dict[Range, None] = {}
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    for chunk in chunks:
        _walk(chunk, found)
    return found


def addresses(array: Any) -> frozenset[int]:
    """Return the addresses of every buffer under an array."""
    return frozenset(address for address, _ in array_buffers(array))


def size_of(array: Any) -> int:
    """Return the bytes that an array's rows take; whole buffers for views.

    Older pyarrow (16 and 21 were seen) cannot count the bytes of views.
    """
    pa = library("pyarrow")
    try:
        return int(array.nbytes)
    except pa.ArrowException:
        return sum(size for _, size in array_buffers(array))


def account(source: Iterable[Range], result: Iterable[Range]) -> tuple[int, int]:
    """Return the result's bytes that lie in the source's buffers, and the others.

    Args:
        source: (address, size) of the buffers that may be shared.
        result: (address, size) of the buffers to place.
    """
    ordered = sorted((start, start + size) for start, size in source)
    merged: list[list[int]] = []
    for low, high in ordered:
        if merged and low <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    lows = [low for low, _ in merged]
    shared = copied = 0
    for start, size in result:
        at = bisect_right(lows, start) - 1
        if at >= 0 and start < merged[at][1]:
            shared += size
        else:
            copied += size
    return shared, copied


def numpy_ranges(series: Any) -> dict[Range, None]:
    """Return the memory of the NumPy arrays under a pandas column."""
    np = library("numpy")
    values = series.array
    found: dict[Range, None] = {}
    for name in ("_ndarray", "_data", "_mask", "_codes", "_sp_values"):
        part = getattr(values, name, None)
        if isinstance(part, np.ndarray) and part.size:
            low, high = (
                np.lib.array_utils.byte_bounds(part)
                if hasattr(np.lib, "array_utils")
                else np.byte_bounds(part)
            )
            found[int(low), int(high) - int(low)] = None
    return found

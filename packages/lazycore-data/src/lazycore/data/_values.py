"""Read Arrow values so that two layouts of the same meaning compare as equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.data._libraries import library

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["inner_arrays", "meaning"]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_DAY = 86_400 * 10**9


def _window(array: Any) -> tuple[list[int], list[Any]]:
    """Return where each row of a list or map starts, and the values behind them."""
    types = library("pyarrow").types
    kind = array.type
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        return [size * k for k in range(len(array) + 1)], [values]
    offsets = array.offsets.to_pylist() if len(array) else [0]
    first, length = offsets[0], offsets[-1] - offsets[0]
    parts = [array.keys, array.items] if types.is_map(kind) else [array.values]
    return (
        [offset - first for offset in offsets],
        [part.slice(first, length) for part in parts],
    )


def _is_list(kind: Any) -> bool:
    types = library("pyarrow").types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_map(kind)
    )


def inner_arrays(array: Any) -> Iterator[Any]:
    """Yield an array and every array inside it, cut to what its rows show."""
    pa = library("pyarrow")
    yield array
    kind = array.type
    children: list[Any] = []
    if isinstance(kind, pa.BaseExtensionType):
        children = [array.storage]
    elif pa.types.is_dictionary(kind):
        children = [array.dictionary]
    elif pa.types.is_struct(kind):
        children = [array.field(k) for k in range(kind.num_fields)]
    elif _is_list(kind):
        children = _window(array)[1]
    for child in children:
        yield from inner_arrays(child)


def _nanoseconds(array: Any) -> list[int | None]:
    pa = library("pyarrow")
    kind = array.type
    wide = pa.int32() if kind.bit_width == 32 else pa.int64()
    if pa.types.is_date32(kind):
        factor = _DAY
    else:
        factor = _NANOSECONDS["ms" if pa.types.is_date64(kind) else kind.unit]
    found = array.view(wide).to_pylist()
    return [None if value is None else value * factor for value in found]


def meaning(array: Any) -> list[Any]:
    """Return the values of an array or chunked array by meaning.

    Times of every unit are nanoseconds (whole numbers know no range), dictionaries
    are their values, structs are lists of fields, and maps are lists of pairs.
    """
    pa = library("pyarrow")
    types = pa.types
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in meaning(chunk)]
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return meaning(array.storage)
    if types.is_dictionary(kind):
        codes = array.indices.to_pylist()
        known: dict[int | None, Any] = {None: None}
        for code in set(codes) - {None}:
            known[code] = meaning(array.dictionary.slice(code, 1))[0]
        return [known[code] for code in codes]
    if types.is_struct(kind):
        fields = [meaning(array.field(k)) for k in range(kind.num_fields)]
        valid = array.is_valid().to_pylist()
        return [
            [field[k] for field in fields] if valid[k] else None
            for k in range(len(array))
        ]
    if _is_list(kind):
        starts, parts = _window(array)
        columns = [meaning(part) for part in parts]
        valid = array.is_valid().to_pylist()
        items = (
            [list(pair) for pair in zip(*columns, strict=True)]
            if types.is_map(kind)
            else columns[0]
        )
        return [
            items[starts[k] : starts[k + 1]] if valid[k] else None
            for k in range(len(array))
        ]
    if types.is_temporal(kind) and not str(kind).endswith("interval"):
        return _nanoseconds(array)
    if types.is_float16(kind):
        return [None if v is None else float(v) for v in array.to_pylist()]
    return list(array.to_pylist())

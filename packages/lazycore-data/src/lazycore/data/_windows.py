"""Recognise which rows of recorded Arrow buffers another array shows."""

from __future__ import annotations

from typing import Any

from lazycore.data._libraries import library

__all__ = ["shift_of"]


def _width_bits(kind: Any, slot: int) -> int | None:
    """Return the bits a row takes in a buffer; None for a buffer of loose bytes."""
    types = library("pyarrow").types
    if slot == 0:
        return 1
    name = str(kind)
    if name.endswith("_view"):
        return 128 if slot == 1 else None
    if name.startswith("large_") and slot == 1:
        return 64
    if types.is_list(kind) or types.is_map(kind) or name in {"string", "binary"}:
        return 32 if slot == 1 else None
    if types.is_dictionary(kind):
        return int(kind.index_type.bit_width)
    if slot == 1 and (types.is_primitive(kind) or types.is_decimal(kind)):
        return int(kind.bit_width)
    return None


def _flat(array: Any) -> bool:
    """Tell whether `buffers()` of an array has no children behind it."""
    return bool(array.type.num_fields == 0)


def _children(array: Any) -> list[Any]:
    types = library("pyarrow").types
    if types.is_struct(array.type):
        return [array.field(k) for k in range(array.type.num_fields)]
    if types.is_large_list(array.type) or types.is_fixed_size_list(array.type):
        return [array.values]
    return [array.keys, array.items] if types.is_map(array.type) else []


def _own_buffers(array: Any) -> list[Any]:
    types = library("pyarrow").types
    buffers = array.buffers()
    if _flat(array):
        return list(buffers)
    offsets = types.is_large_list(array.type) or types.is_map(array.type)
    return list(buffers[: 2 if offsets else 1])


def _slot_starts(base: Any, seen: Any) -> set[int] | None:
    """Return where a window's own buffers start, None if one lies elsewhere."""
    old, new = _own_buffers(base), _own_buffers(seen)
    if len(old) != len(new):
        return None
    starts: set[int] = set()
    for slot in range(1, len(old)):
        before, after = old[slot], new[slot]
        if after is None or before is None:
            continue
        bits = _width_bits(base.type, slot)
        if bits is None:
            if after.size and before.address != after.address:
                return None
            continue
        distance = (after.address - before.address) * 8
        if distance % bits:
            return None
        starts.add(distance // bits + seen.offset - base.offset)
    return starts


def _child_starts(base: Any, seen: Any) -> set[int] | None:
    """Return where the children of a window start, None if one lies elsewhere."""
    types = library("pyarrow").types
    starts: set[int] = set()
    for child, other in zip(_children(base), _children(seen), strict=True):
        inner = shift_of(child, other) if len(other) else 0
        if inner is None:
            return None
        if types.is_struct(base.type):
            starts.add(inner)
        elif types.is_fixed_size_list(base.type):
            if inner % base.type.list_size:
                return None
            moved = seen.offset - base.offset
            starts.add(inner // base.type.list_size + moved)
        elif inner != 0:
            return None
    return starts


def _bitmap_start(base: Any, seen: Any) -> int | None:
    before, after = base.buffers()[0], seen.buffers()[0]
    if before is None or after is None:
        return None
    return int((after.address - before.address) * 8 + seen.offset - base.offset)


def _same_beside(window: Any, seen: Any, *, bitmap: bool) -> bool:
    """Tell whether the nulls and the categories of two arrays are equal by value."""
    if not bitmap and (window.null_count or seen.null_count):
        nulls = window.is_valid().equals(seen.is_valid())
    else:
        nulls = True
    if not library("pyarrow").types.is_dictionary(window.type):
        return bool(nulls)
    return bool(nulls and window.dictionary.equals(seen.dictionary))


def shift_of(base: Any, seen: Any) -> int | None:
    """Return where a window starts in a recorded array, None if it is no window.

    Polars realigns the validity of slices on every export: bits at another place
    are compared one by one. The categories of codes are compared too.
    """
    if base.type != seen.type:
        return None
    own, inner = _slot_starts(base, seen), _child_starts(base, seen)
    if own is None or inner is None:
        return None
    starts, bitmap = own | inner, _bitmap_start(base, seen)
    if not starts and bitmap is not None:
        starts = {bitmap}
    if len(starts) != 1:
        return None
    start = starts.pop()
    if not 0 <= start <= len(base) - len(seen):
        return None
    return (
        start
        if _same_beside(base.slice(start, len(seen)), seen, bitmap=bitmap == start)
        else None
    )

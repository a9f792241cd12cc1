"""Turn one sparse layout into another: no edge lost, none summed unless asked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lazycore.data._errors import CopyRequiredError
from lazycore.data._libraries import library
from lazycore.data._sparse_adapter import Duplicates, SparseFormat, SparseLayout
from lazycore.data._sparse_kernels import (
    expand,
    group,
    index_dtype,
    order,
    pointers_of,
    reduce,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["converted"]

_DUPLICATES = ("keep", "sum", "last", "raise")
_PARTS = ("pointers", "rows", "columns", "values", "edge_ids")


def _coordinates(layout: SparseLayout) -> tuple[Any, Any]:
    if layout.rows is not None and layout.columns is not None:
        return layout.rows, layout.columns
    minor = layout.columns if layout.rows is None else layout.rows
    major = expand(layout.pointers, minor.dtype)
    if layout.format is SparseFormat.CSR:
        return major, minor
    return minor, major


def _native(layout: SparseLayout, *, copy: bool | None) -> SparseLayout:
    if not copy:
        return layout
    fresh: dict[str, Any] = {
        name: None if (part := getattr(layout, name)) is None else part.copy()
        for name in _PARTS
    }
    return dataclasses.replace(layout, **fresh)


def _unshared(parts: Sequence[Any], layout: SparseLayout) -> list[Any]:
    """Return arrays, copied where they still lie in the memory of a layout."""
    np = library("numpy")
    held = [part for name in _PARTS if (part := getattr(layout, name)) is not None]

    def fresh(part: Any) -> Any:
        shared = part is not None and any(
            np.may_share_memory(part, other) for other in held
        )
        return part.copy() if shared else part

    return [fresh(part) for part in parts]


def converted(  # noqa: C901 - one conversion, step by step
    layout: SparseLayout,
    wanted: SparseFormat,
    duplicates: Duplicates,
    *,
    sort: bool,
    copy: bool | None,
    numbered: bool,
) -> SparseLayout:
    """Return a layout in another format.

    Args:
        layout: The source; it is not written to.
        wanted: The format.
        duplicates: What becomes of them.
        sort: Order elements by major, then minor index.
        copy: False refuses a new array, True makes every array new.
        numbered: Whether the source's edge numbers are 0, 1, 2, ...: a permutation
            then is its own numbers, and one pass over memory is saved.

    Raises:
        CopyRequiredError: ``copy=False`` cannot be kept.
        SparseInvariantError: The duplicates policy cannot be kept.
    """
    if duplicates not in _DUPLICATES:
        words = ", ".join(map(repr, _DUPLICATES))
        raise ValueError(f"duplicates={duplicates!r}: choose one of {words}")
    native = wanted is layout.format
    if native and duplicates == "keep" and (layout.sorted or not sort):
        return _native(layout, copy=copy)
    if copy is False:
        message = (
            f"copy=False, but {layout.format} to {wanted} with duplicates="
            f"{duplicates!r}, sort={sort} makes new arrays: use copy=None"
        )
        raise CopyRequiredError(message)
    rows, columns = _coordinates(layout)
    by_row = wanted is not SparseFormat.CSC
    major, minor = (rows, columns) if by_row else (columns, rows)
    counts = layout.shape if by_row else layout.shape[::-1]
    ordered = sort or duplicates != "keep"
    pointers = None
    permutation = None
    if ordered:
        permutation = order(major, minor, counts)
    elif wanted is not SparseFormat.COO:
        permutation, pointers = group(major, counts[0])
    values, ids = layout.values, layout.edge_ids
    if permutation is not None:
        minor = minor[permutation]
        values = None if values is None else values[permutation]
        numbers = permutation.astype(ids.dtype, copy=False)
        ids = numbers if numbered else ids[permutation]
        if pointers is None:
            major = major[permutation]
    if duplicates != "keep":
        # Ordering is stable over the stored order, so "last" is the last stored.
        kept, values = reduce(major, minor, values, duplicates)
        if kept is not None:
            major, minor = major[kept], minor[kept]
            ids = None if duplicates == "sum" else ids[kept]
    coo = wanted is SparseFormat.COO
    if not coo and pointers is None:
        pointers = pointers_of(major, counts[0], index_dtype(len(minor)))
    if copy:  # what was shared so far must not be
        major, minor, values, ids = _unshared((major, minor, values, ids), layout)
    return SparseLayout(
        format=wanted,
        shape=layout.shape,
        pointers=None if coo else pointers,
        rows=major if coo else None if by_row else minor,
        columns=minor if by_row else None,
        values=values,
        edge_ids=ids,
        sorted=ordered,
        unique=duplicates != "keep",
    )

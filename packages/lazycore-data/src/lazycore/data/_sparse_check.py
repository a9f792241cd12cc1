"""Check that sparse components fit each other and the shape they claim."""

from __future__ import annotations

from typing import Any

from lazycore.data._errors import SparseInvariantError
from lazycore.data._libraries import library
from lazycore.data._sparse_adapter import SparseFormat, SparseLayout
from lazycore.data._sparse_kernels import expand

__all__ = ["check_layout"]


def _indices(name: str, array: Any, limit: int) -> None:
    np = library("numpy")
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        message = f"{name} must be a 1-D array of integers, not {array.dtype}"
        raise SparseInvariantError(f"{message} of {array.ndim} dimensions")
    if not array.size:
        return
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= limit:
        message = (
            f"{name} spans {low} to {high}, but the shape allows 0 to {limit - 1}: "
            "give the shape that the indices need"
        )
        raise SparseInvariantError(message)


def _edge_ids(array: Any, *, full: bool) -> None:
    np = library("numpy")
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        message = f"edge_ids must be a 1-D array of integers, not {array.dtype}"
        raise SparseInvariantError(f"{message} of {array.ndim} dimensions")
    if array.size and int(array.min()) < 0:
        message = f"edge_ids holds {int(array.min())}: edges are numbered from 0"
        raise SparseInvariantError(message)
    if full and len(np.unique(array)) != len(array):
        raise SparseInvariantError("edge_ids numbers two elements alike")


def _pointers(array: Any, groups: int, size: int) -> None:
    _indices("pointers", array, size + 1)
    if len(array) != groups + 1:
        message = f"{len(array)} pointers for {groups} groups: {groups + 1} are needed"
        raise SparseInvariantError(message)
    if int(array[0]) != 0 or int(array[-1]) != size:
        message = f"pointers run from {array[0]} to {array[-1]}, not from 0 to {size}"
        raise SparseInvariantError(message)
    falls = array[1:] < array[:-1]
    if falls.any():
        at = int(library("numpy").argmax(falls))
        message = f"pointers fall at group {at}: from {array[at]} to {array[at + 1]}"
        raise SparseInvariantError(message)


def _order(layout: SparseLayout) -> None:
    np = library("numpy")
    by_row = layout.format is not SparseFormat.CSC
    minor = layout.columns if by_row else layout.rows
    if layout.format is SparseFormat.COO:
        major = layout.rows
    else:
        major = expand(layout.pointers, np.int64)
    if len(minor) < 2:
        return
    step, inner = np.diff(major), np.diff(minor)
    if layout.sorted and not ((step > 0) | ((step == 0) & (inner >= 0))).all():
        raise SparseInvariantError("the layout says sorted, but elements are not")
    if layout.unique:
        pairs = np.stack([major, minor])
        if np.unique(pairs, axis=1).shape[1] != pairs.shape[1]:
            raise SparseInvariantError("the layout says unique, but is not")


def check_layout(layout: SparseLayout, *, full: bool = False) -> None:
    """Check bounds, lengths and pointers; with ``full``, order and uniqueness too.

    Raises:
        SparseInvariantError: The components contradict each other or the shape.
    """
    height, width = layout.shape
    if height < 0 or width < 0:
        raise SparseInvariantError(f"shape {layout.shape} is negative")
    if layout.rows is not None:
        _indices("rows", layout.rows, height)
    if layout.columns is not None:
        _indices("columns", layout.columns, width)
    first = layout.columns if layout.rows is None else layout.rows
    size = len(first)
    for name in ("rows", "columns", "values", "edge_ids"):
        part = getattr(layout, name)
        if part is not None and (part.ndim < 1 or len(part) != size):
            found = len(part) if part.ndim else "a scalar"
            message = f"{name} has {found} entries beside {size} elements"
            raise SparseInvariantError(message)
    if layout.edge_ids is not None:
        _edge_ids(layout.edge_ids, full=full)
    if layout.pointers is not None:
        groups = height if layout.format is SparseFormat.CSR else width
        _pointers(layout.pointers, groups, size)
    if full:
        _order(layout)

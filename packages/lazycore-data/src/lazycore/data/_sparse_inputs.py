"""Take what callers give as sparse components: arrays, lists, shapes."""

from __future__ import annotations

import operator
from typing import Any

from lazycore.data._errors import SparseInvariantError
from lazycore.data._libraries import library

__all__ = ["as_array", "as_indices", "as_shape"]


def as_array(name: str, value: Any) -> Any:
    np = library("numpy")
    try:
        return None if value is None else np.asarray(value)
    except (TypeError, ValueError) as error:
        message = f"{name} is no array: {error}; give equal rows of one type"
        raise SparseInvariantError(message) from error


def as_indices(name: str, value: Any) -> Any:
    """Return positions as an array of signed or short unsigned integers.

    An empty list says nothing of its dtype and would be float64; NumPy 1.26 can
    count nothing by 64-bit unsigned keys.
    """
    np = library("numpy")
    array = as_array(name, value)
    if array is None:
        return None
    if not array.size and not np.issubdtype(array.dtype, np.integer):
        return array.astype(np.int64)
    if array.dtype == np.uint64:
        if array.size and int(array.max()) >= 2**63:
            message = f"{name} holds {int(array.max())}, over 2**63 - 1"
            raise SparseInvariantError(message)
        return array.astype(np.int64)
    return array


def as_shape(value: Any) -> tuple[int, int]:
    try:
        height, width = (operator.index(length) for length in value)
    except (TypeError, ValueError) as error:
        message = f"shape={value!r}: give two whole numbers, (rows, columns)"
        raise SparseInvariantError(message) from error
    return height, width

"""Put equal items into one aligned batch array, reused where the caller keeps one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.data._dlpack import check_dlpack
from lazycore.data._errors import HandoffError
from lazycore.data._libraries import library

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["aligned_empty", "collate", "host_array"]

_ALIGNMENT = 64


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an uninitialised array whose first byte lies on a 64-byte boundary."""
    np = library("numpy")
    kind = np.dtype(dtype)
    count = 1
    for length in shape:
        count *= length
    raw = np.empty(count * kind.itemsize + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + count * kind.itemsize].view(kind).reshape(shape)


def host_array(item: Any) -> Any:
    """Return an item as a NumPy array over its own memory.

    Raises:
        HandoffError: The item has no DLPack, or lies on another device.
    """
    np = library("numpy")
    if isinstance(item, np.ndarray):
        return item
    checked = check_dlpack(item, writable=False, contiguous=False, device="cpu")
    return np.from_dlpack(checked)


def collate(batch: Sequence[Any], out: Any = None) -> Any:
    """Copy items of one shape and dtype into a batch array.

    Args:
        batch: NumPy arrays or CPU arrays that support DLPack; at least one.
        out: An array to reuse: its dtype and item shape must fit and its length be
            at least the batch's. By default a fresh 64-byte aligned array.

    Returns:
        An array of shape ``(len(batch), *item shape)``: a view of ``out`` when it
        was given, so the next call with the same ``out`` overwrites it.

    Raises:
        HandoffError: Shapes or dtypes differ, or ``out`` does not fit.
        MissingDependencyError: NumPy is not installed.

    Example:
        >>> import numpy as np
        >>> collate([np.zeros(3), np.ones(3)]).shape
        (2, 3)
    """
    if not len(batch):
        raise HandoffError("an empty batch has no shape: leave it out")
    arrays = [host_array(item) for item in batch]
    first = arrays[0]
    for index, array in enumerate(arrays):
        if array.shape != first.shape or array.dtype != first.dtype:
            message = (
                f"item {index} is {array.dtype}{array.shape}, item 0 is "
                f"{first.dtype}{first.shape}: crop or pad items to one shape first"
            )
            raise HandoffError(message)
    if out is None:
        out = aligned_empty((len(arrays), *first.shape), first.dtype)
    elif out.dtype != first.dtype or out.shape[1:] != first.shape:
        message = (
            f"out holds {out.dtype}{out.shape[1:]} items, the batch "
            f"{first.dtype}{first.shape}"
        )
        raise HandoffError(message)
    elif len(out) < len(arrays):
        raise HandoffError(f"out has room for {len(out)} items, not {len(arrays)}")
    result = out[: len(arrays)]
    for index, array in enumerate(arrays):
        result[index] = array
    return result

"""Refuse arrays that a consumer of DLPack would crash on, misread or write to.

Measured on torch 2.13: a negative stride aborts the process, and a read-only array
arrives writable. The check costs microseconds, a lost process costs a run.
"""

from __future__ import annotations

import sys
from typing import Any, TypeVar

from lazycore.data._errors import HandoffError

__all__ = ["check_dlpack"]

Array = TypeVar("Array")
# Device types of dlpack.h.
_DEVICES = {
    1: "cpu",
    2: "cuda",
    3: "cuda_host",
    8: "metal",
    10: "rocm",
    13: "cuda_managed",
}


def _refuse(what: str, fix: str) -> HandoffError:
    return HandoffError(f"DLPack hand-off refused: {what}; {fix}")


def _check_strides(strides: Any, shape: Any) -> None:
    if 0 in shape:
        return
    for axis, (stride, length) in enumerate(zip(strides, shape, strict=True)):
        if stride < 0 and length > 1:
            raise _refuse(
                f"axis {axis} has the negative stride {stride} (a flipped view)",
                "copy it with numpy.ascontiguousarray",
            )
        if stride == 0 and length > 1:
            raise _refuse(
                f"axis {axis} is broadcast: its elements share one place in memory",
                "copy it first",
            )


def _check_numpy(array: Any, *, writable: bool | None, contiguous: bool) -> None:
    dtype = array.dtype
    if dtype.kind not in "biufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise _refuse(f"dtype {dtype} has no DLPack type", "cast it to a plain number")
    if not dtype.isnative:
        raise _refuse(f"dtype {dtype} is byte-swapped", "use .astype(native order)")
    if not array.flags.aligned and array.size:
        raise _refuse(f"{dtype} elements lie unaligned", "copy the array first")
    _check_strides(array.strides, array.shape)
    if contiguous and not array.flags.c_contiguous:
        raise _refuse(
            f"strides {array.strides} of shape {array.shape} are not contiguous",
            "copy it with numpy.ascontiguousarray, or allow contiguous=False",
        )
    if writable is not False and not array.flags.writeable:
        raise _refuse(
            "the array is read-only and some consumers write to it all the same",
            "copy it, or pass writable=False for a consumer that only reads",
        )


def _check_torch(tensor: Any, *, contiguous: bool) -> None:
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided:
        raise _refuse(f"layout {tensor.layout} is not dense", "use .to_dense()")
    if tensor.requires_grad:
        raise _refuse("the tensor requires a gradient", "use .detach()")
    if tensor.is_conj() or tensor.is_neg():
        raise _refuse(
            "the tensor is conjugated or negated lazily",
            "use .resolve_conj() or .resolve_neg()",
        )
    _check_strides(tensor.stride(), tuple(tensor.shape))
    if contiguous and not tensor.is_contiguous():
        raise _refuse("the tensor is not contiguous", "use .contiguous()")


def check_dlpack(
    array: Array,
    *,
    writable: bool | None = None,
    contiguous: bool = True,
    device: str | None = None,
) -> Array:
    """Return an array unchanged when every consumer of DLPack can take it safely.

    Nothing is copied and no capsule is made.

    Args:
        array: A NumPy array, a torch tensor, or another object with ``__dlpack__``
            (of which only the protocol and the device are checked).
        writable: False says that the consumer only reads; otherwise a read-only
            array is refused, because torch would make it writable.
        contiguous: Also refuse strides other than row-major. Negative and
            broadcast strides are always refused.
        device: Where the memory must lie, such as ``"cpu"``; None for anywhere.

    Raises:
        HandoffError: A consumer could crash, misread the array or write to it.

    Example:
        >>> check_dlpack([1, 2])
        Traceback (most recent call last):
        ...
        lazycore.data._errors.HandoffError: DLPack hand-off refused: builtins.list \
has no __dlpack__; convert it to an array first
    """
    kind = type(array)
    if not hasattr(kind, "__dlpack__") or not hasattr(kind, "__dlpack_device__"):
        name = f"{kind.__module__}.{kind.__qualname__}"
        raise _refuse(f"{name} has no __dlpack__", "convert it to an array first")
    value: Any = array
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, numpy.ndarray):
        _check_numpy(value, writable=writable, contiguous=contiguous)
    elif torch is not None and isinstance(value, torch.Tensor):
        _check_torch(value, contiguous=contiguous)
    if device is not None:
        number = int(value.__dlpack_device__()[0])
        found = _DEVICES.get(number, f"device type {number}")
        if found != device:
            raise _refuse(f"the memory lies on {found}, not {device}", "move it first")
    return array

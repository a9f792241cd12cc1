"""Hold a media pipeline to its contract, damaged input included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.data._dlpack import check_dlpack
from lazycore.data._errors import ConformanceError, HandoffError
from lazycore.data._runner import run_many
from lazycore.data._stages import Failure, Item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.data._media import DenseMediaPipeline

__all__ = ["check_media_pipeline", "damaged"]


def damaged(sample: bytes) -> dict[str, bytes]:
    """Return a sample in four states that a decoder must not take for a picture."""
    half = len(sample) // 2
    return {
        "empty": b"",
        "noise": b"\x00" * len(sample),
        "cut at half": sample[:half],
        "cut at 99 %": sample[: max(1, len(sample) * 99 // 100)],
    }


def _plain(value: Any) -> Any:
    if hasattr(value, "tobytes"):
        return value.tobytes()
    return bytes(value) if isinstance(value, bytearray | bytes) else repr(value)


def _values(results: Sequence[Any]) -> list[tuple[int, Any]]:
    return sorted((r.index, _plain(r.value)) for r in results if isinstance(r, Item))


def _sharing(pipeline: DenseMediaPipeline[Any], sample: bytes) -> str:
    """Return how two items share memory, an empty string when they don't.

    Items live until a consumer takes them: one buffer for all would change them.
    """
    found = run_many(pipeline, [sample] * 4, workers=1, on_error="yield")
    held = [entry.value for entry in found if isinstance(entry, Item)]
    places = [
        value.__array_interface__["data"][0]
        for value in held
        if hasattr(value, "__array_interface__") and _plain(value)
    ]
    if len({id(value) for value in held}) < len(held):
        return "one object came out for several"
    return "two begin at one address" if len(set(places)) < len(places) else ""


def check_media_pipeline(
    pipeline: DenseMediaPipeline[Any], samples: Sequence[bytes]
) -> tuple[str, ...]:
    """Check a pipeline against its contract and name what it breaks.

    The tensors must be safe to hand over, equal under any number of workers, and
    damaged bytes must raise: many decoders return half a picture instead.

    Args:
        pipeline: The pipeline.
        samples: At least one sound encoded item.

    Returns:
        The names of the checks that passed.

    Raises:
        ConformanceError: The broken rules, all of them.

    Example:
        >>> import zlib
        >>> class Deflated(DenseMediaPipeline):
        ...     def decode(self, raw):
        ...         return zlib.decompress(raw)
        ...     def augment(self, decoded):
        ...         return decoded
        ...     def to_dense_tensor(self, augmented):
        ...         import numpy as np
        ...         return np.array(memoryview(augmented))
        >>> passed = check_media_pipeline(Deflated(), [zlib.compress(b"picture")])
        >>> passed[0]
        'sample 0: safe to hand over'
    """
    if not samples:
        raise ConformanceError("give at least one sound sample")
    passed: list[str] = []
    broken: list[str] = []
    for number, sample in enumerate(samples):
        try:
            check_dlpack(pipeline.run(sample))
            passed.append(f"sample {number}: safe to hand over")
        except HandoffError as error:
            broken.append(f"sample {number}: {error}")
        except Exception as error:  # noqa: BLE001 - any error on a sound sample counts
            broken.append(f"sample {number}: sound, but raised {error!r}")
    many = list(samples) * 3
    one = _values(list(run_many(pipeline, many, workers=1, on_error="yield")))
    two = _values(list(run_many(pipeline, many, workers=2, window=6, on_error="yield")))
    loose = _values(
        list(run_many(pipeline, many, workers=2, ordered=False, on_error="yield"))
    )
    name = "same tensors under any number of workers"
    (passed if one == two == loose else broken).append(name)
    shared = _sharing(pipeline, samples[0])
    name = "every item has memory of its own"
    if shared:
        broken.append(f"an item lies in the memory of another item: {shared}")
    else:
        passed.append(name)
    for state, raw in damaged(samples[0]).items():
        found = list(run_many(pipeline, [raw], workers=1, on_error="yield"))
        if all(isinstance(entry, Failure) for entry in found):
            passed.append(f"damaged input raises: {state}")
        else:
            broken.append(f"damaged input ({state}) came out as a tensor, no error")
    if broken:
        raise ConformanceError("the pipeline breaks: " + "; ".join(broken))
    return tuple(passed)

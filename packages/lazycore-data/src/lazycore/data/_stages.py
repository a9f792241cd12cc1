"""Take one group of items through the stages of a pipeline, inside a worker."""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lazycore.data._errors import MediaPipelineError
from lazycore.data._seeds import enter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.data._media import DenseMediaPipeline

__all__ = ["Failure", "GroupResult", "Item", "StageStats", "work"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One finished item.

    Attributes:
        index: Its place in the input.
        value: What ``to_dense_tensor`` returned.

    Example:
        >>> Item(index=0, value=None).index
        0
    """

    index: int
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One item that failed, instead of a lost one.

    Attributes:
        index: Its place in the input.
        stage: ``"decode"``, ``"augment"``, ``"to_dense_tensor"``, ``"collate"`` or
            ``"timeout"``.
        exception: What was raised.

    Example:
        >>> Failure(index=3, stage="decode", exception=ValueError("cut")).stage
        'decode'
    """

    index: int
    stage: str
    exception: Exception


@dataclass(slots=True)
class StageStats:
    """Busy seconds of a stage, and the items that passed it."""

    busy_s: float = 0.0
    items: int = 0

    def add(self, other: StageStats) -> None:
        """Count another worker's share in."""
        self.busy_s += other.busy_s
        self.items += other.items


@dataclass(slots=True, kw_only=True)
class GroupResult:
    """What a worker sends back for one group."""

    items: Sequence[Item]
    failures: Sequence[Failure] = ()
    indices: tuple[int, ...] = ()
    batch: Any = None
    bytes_in: int = 0
    stages: dict[str, StageStats] = field(default_factory=dict)


def _portable(error: Exception) -> Exception:
    """Return an exception that survives the way back from another process."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes, just written
    except Exception as trouble:  # noqa: BLE001 - foreign classes raise anything here
        text = f"{type(error).__name__}: {error} (not picklable: {trouble})"
        return MediaPipelineError(text)
    return error


class _Rows:
    """A batch array that is allocated when the first item shows its shape."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._array: Any = None
        self.indices: list[int] = []

    def put(self, index: int, value: Any) -> None:
        from lazycore.data._collate import aligned_empty, host_array

        item = host_array(value)
        if self._array is None:
            shape = (self._capacity, *item.shape)
            self._array = aligned_empty(shape, item.dtype)
        rows = self._array
        if item.shape != rows.shape[1:] or item.dtype != rows.dtype:
            message = (
                f"the item is {item.dtype}{item.shape}, its batch "
                f"{rows.dtype}{rows.shape[1:]}: crop or pad items to one shape"
            )
            raise MediaPipelineError(message)
        rows[len(self.indices)] = item
        self.indices.append(index)

    def whole(self) -> Any:
        return None if self._array is None else self._array[: len(self.indices)]


def work(
    pipeline: DenseMediaPipeline[Any],
    raws: Sequence[bytes],
    *,
    first: int,
    seed: int,
    epoch: int,
    collated: bool,
    isolated: bool,
    stop_early: bool,
) -> GroupResult:
    """Run a group through every stage; errors become failures, never a lost item."""
    rows = _Rows(len(raws)) if collated else None
    items: list[Item] = []
    failures: list[Failure] = []
    names = ("decode", "augment", "to_dense_tensor")
    steps = (pipeline.decode, pipeline.augment, pipeline.to_dense_tensor)
    busy, passed = [0.0, 0.0, 0.0], [0, 0, 0]
    clock = time.perf_counter
    size = 0
    for index, raw in enumerate(raws, first):
        size += len(raw)
        enter(seed, epoch, index)
        value: Any = raw
        stage = "decode"
        try:
            for k, step in enumerate(steps):
                stage = names[k]
                began = clock()
                try:
                    value = step(value)
                finally:
                    busy[k] += clock() - began
                if value is None:
                    text = f"{stage} returned None: a decoder that does not raise"
                    raise MediaPipelineError(text)  # noqa: TRY301 - one way out
                passed[k] += 1
            if not hasattr(type(value), "__dlpack__"):
                kind = f"{type(value).__module__}.{type(value).__qualname__}"
                text = f"to_dense_tensor returned {kind}, which has no __dlpack__"
                raise MediaPipelineError(text)  # noqa: TRY301 - one way out
            if rows is None:
                items.append(Item(index=index, value=value))
            else:
                stage = "collate"
                rows.put(index, value)
        except Exception as error:  # noqa: BLE001 - recorded, whatever a decoder raises
            kept = _portable(error) if isolated else error
            failures.append(Failure(index=index, stage=stage, exception=kept))
            if stop_early:
                break
    return GroupResult(
        items=items,
        failures=failures,
        indices=() if rows is None else tuple(rows.indices),
        batch=None if rows is None else rows.whole(),
        bytes_in=size,
        stages={n: StageStats(busy[k], passed[k]) for k, n in enumerate(names)},
    )

"""What a run of a media pipeline yields and says about itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lazycore.data._stages import Failure, GroupResult, StageStats

__all__ = ["Batch", "Progress", "RunStats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A group of items collated into one array.

    Attributes:
        indices: The place of each row in the input.
        value: The array of shape ``(len(indices), *item shape)``; None when every
            item failed.
        failures: The items of the group that failed, under ``on_error="yield"``.

    Example:
        >>> Batch(indices=(0, 1), value=None).failures
        ()
    """

    indices: tuple[int, ...]
    value: Any
    failures: tuple[Failure, ...] = ()


@dataclass(slots=True, kw_only=True)
class RunStats:
    """What a run has spent so far.

    Attributes:
        stages: Busy seconds and finished items per stage name.
        bytes_in: Bytes given to ``decode``.
        wait_s: Seconds the consumer waited for results.

    Example:
        >>> RunStats().bytes_in
        0
    """

    stages: dict[str, StageStats] = field(default_factory=dict)
    bytes_in: int = 0
    wait_s: float = 0.0

    def add(self, result: GroupResult) -> None:
        """Count a finished group in."""
        self.bytes_in += result.bytes_in
        for name, stage in result.stages.items():
            self.stages.setdefault(name, StageStats()).add(stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is, given to its ``progress`` callback after every task.

    Attributes:
        done: Items that came out whole.
        failed: Items that failed.
        in_flight: Items pulled from the input and not finished.
        elapsed_s: Seconds since the run began.
        stats: The run's statistics so far.

    Example:
        >>> Progress(done=1, failed=0, in_flight=0, elapsed_s=0.5).done
        1
    """

    done: int
    failed: int
    in_flight: int
    elapsed_s: float
    stats: RunStats = field(default_factory=RunStats)

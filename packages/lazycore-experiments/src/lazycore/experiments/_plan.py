"""Unfold a locked study into its cells, each with a hash-derived order of arms."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazycore.experiments._canonical import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazycore.experiments._study import Benchmark, Study

__all__ = ["Cell", "arm_order", "count_cells", "plan_cells"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One unit, or one block of units, under every arm with one seed.

    Attributes:
        id: Digest of what the cell is and of the lock it belongs to.
        index: Position in the plan, from 0.
        benchmark: Benchmark id.
        model: Model slot, or None.
        seed: Replicate.
        units: Unit ids, sorted.
        block: Whether the worker answers per unit.
        order: Arms in the order they run: a coin derived from the cell's id, so
            that neither arm always finds warm caches.

    Examples:
        >>> from lazycore.experiments import arm_order
        >>> sorted(arm_order("0" * 64, ("no_op", "candidate")))
        ['candidate', 'no_op']
    """

    id: str
    index: int
    benchmark: str
    model: str | None
    seed: int
    units: tuple[str, ...]
    block: bool
    order: tuple[str, ...]


def plan_cells(study: Study, lock_digest: str) -> Iterator[Cell]:
    """Yield the cells of a study: benchmarks x unit blocks x model slots x seeds."""
    arms = tuple(arm.name for arm in study.arms)
    slots: tuple[str | None, ...] = tuple(m.slot for m in study.models) or (None,)
    index = 0
    for benchmark in study.benchmarks:
        for units in _blocks(benchmark):
            for slot in slots:
                for seed in study.seeds:
                    identifier = digest(
                        [lock_digest, benchmark.id, list(units), slot, seed]
                    )
                    yield Cell(
                        id=identifier,
                        index=index,
                        benchmark=benchmark.id,
                        model=slot,
                        seed=seed,
                        units=units,
                        block=benchmark.block_size > 1,
                        order=arm_order(identifier, arms),
                    )
                    index += 1


def count_cells(study: Study) -> int:
    """Return how many cells `plan_cells` yields."""
    blocks = sum(
        -(-len(benchmark.units) // benchmark.block_size)
        for benchmark in study.benchmarks
    )
    return blocks * max(1, len(study.models)) * len(study.seeds)


def arm_order(cell: str, arms: tuple[str, ...]) -> tuple[str, ...]:
    """Order arms by the SHA-256 of cell id and arm name: uniform and repeatable.

    Args:
        cell: Cell id.
        arms: Arm names.

    Returns:
        The same names in the order they run in that cell.

    Examples:
        >>> arm_order("0" * 64, ("a", "b")) == arm_order("0" * 64, ("b", "a"))
        True
    """
    return tuple(
        sorted(
            arms,
            key=lambda arm: hashlib.sha256(f"{cell}:{arm}".encode()).digest(),
        )
    )


def _blocks(benchmark: Benchmark) -> Iterator[tuple[str, ...]]:
    units = sorted(benchmark.units)
    for start in range(0, len(units), benchmark.block_size):
        yield tuple(units[start : start + benchmark.block_size])

"""Unfold a locked study into its cells, each with a hash-derived order of arms."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from lazycore.experiments._canonical import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lazycore.experiments._study import Benchmark, Study

__all__ = ["Cell", "arm_order", "count_cells", "look_of_units", "plan_cells"]


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
        tried: Attempts per arm that are in the journal already, of a session that
            was killed before it could write the cell.

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
    tried: Mapping[str, int] = field(default_factory=dict)


def plan_cells(study: Study, lock_digest: str) -> Iterator[Cell]:
    """Yield the cells of a study: benchmarks x unit blocks x model slots x seeds.

    Where looks are declared, once for the blocks of each look, in their order.
    """
    arms = tuple(arm.name for arm in study.arms)
    slots: tuple[str | None, ...] = tuple(m.slot for m in study.models) or (None,)
    places = (
        (declared, block, slot, seed)
        for stage in range(len(study.analysis.looks) + 1)
        for declared in study.benchmarks
        for block in _stages(declared, study.analysis.looks)[stage]
        for slot in slots
        for seed in study.seeds
    )
    for index, (benchmark, units, model, replicate) in enumerate(places):
        identifier = digest([lock_digest, benchmark.id, list(units), model, replicate])
        yield Cell(
            id=identifier,
            index=index,
            benchmark=benchmark.id,
            model=model,
            seed=replicate,
            units=units,
            block=benchmark.block_size > 1,
            order=arm_order(identifier, arms),
        )


def look_of_units(benchmark: Benchmark, looks: tuple[float, ...]) -> dict[str, int]:
    """Return for each unit the first look, counted from 0, that sees it."""
    return {
        unit: stage
        for stage, blocks in enumerate(_stages(benchmark, looks))
        for units in blocks
        for unit in units
    }


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


def _stages(
    benchmark: Benchmark, looks: tuple[float, ...]
) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Return the blocks that each look, and at last the end, adds.

    Without looks there is one stage, in the order of the units. With looks a hash of
    the benchmark and the cluster draws who comes first: sorted names are no random
    sample of the units.
    """
    blocks = tuple(_blocks(benchmark))
    if not looks:
        return (blocks,)
    groups = benchmark.group_of
    clusters: dict[str, list[tuple[str, ...]]] = {}
    for units in blocks:
        name = units[0] if groups is None else groups[units[0]]
        clusters.setdefault(name, []).append(units)
    drawn = sorted(clusters, key=lambda name: digest([benchmark.id, name]))
    ends = [math.ceil(share * len(drawn)) for share in (*looks, 1.0)]
    return tuple(
        tuple(units for name in drawn[start:end] for units in clusters[name])
        for start, end in pairwise((0, *ends))
    )

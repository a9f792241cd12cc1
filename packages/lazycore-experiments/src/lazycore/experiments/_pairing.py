"""Turn result rows into paired differences, one per unit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lazycore.experiments._results import ResultRow
    from lazycore.experiments._study import Metric

__all__ = ["FailedArms", "PairedUnit", "index_rows", "pair_units"]

Scores = dict[tuple[str, int], "ResultRow"]


class FailedArms(StrEnum):
    """What a unit counts where an arm failed on it."""

    SCORE = "score"
    """A failed arm scores the metric's ``failed_value``."""
    DROP_PAIR = "drop-pair"
    """A pair with a failed arm is left out."""
    WORST_CASE = "worst-case"
    """A failed arm scores ``worst_value``, or the worst value anyone got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedUnit:
    """One unit under both arms, its seeds averaged.

    Attributes:
        unit: Unit id.
        group: The declared group of the unit; the unit itself without one.
        cells: Cells of the unit, one per seed that counts.
        baseline: Mean over the seeds.
        candidate: Mean over the same seeds.
        difference: Mean of candidate minus baseline. Seeds first: differences of a
            binary metric are whole numbers, so equal means are equal floats.
        retried: Whether an arm needed more than one attempt.
    """

    unit: str
    group: str
    cells: tuple[str, ...]
    baseline: float
    candidate: float
    difference: float
    retried: bool


def index_rows(
    rows: Iterable[ResultRow],
) -> dict[tuple[str, str], dict[str, Scores]]:
    """Group rows by (benchmark, metric), then arm, then (unit, seed)."""
    index: dict[tuple[str, str], dict[str, Scores]] = {}
    for row in rows:
        arms = index.setdefault((row.benchmark, row.metric), {})
        arms.setdefault(row.arm, {})[row.unit, row.seed] = row
    return index


def pair_units(
    baseline: Scores,
    candidate: Scores,
    metric: Metric,
    policy: FailedArms,
    groups: Mapping[str, str] | None = None,
) -> tuple[PairedUnit, ...]:
    """Pair two arms unit by unit; only seeds that ran under both count.

    Args:
        baseline: Rows of the baseline by unit and seed.
        candidate: Rows of the candidate by unit and seed.
        metric: The metric of the rows.
        policy: What a failed arm counts.
        groups: The declared group of each unit, or None.

    Returns:
        The units in order of their id.
    """
    stand_in = _stand_in([*baseline.values(), *candidate.values()], metric, policy)
    by_unit: dict[str, list[tuple[ResultRow, ResultRow]]] = {}
    for key in sorted(baseline.keys() & candidate.keys()):
        by_unit.setdefault(key[0], []).append((baseline[key], candidate[key]))
    paired = []
    for unit, pairs in by_unit.items():
        kept = [
            (one, two)
            for one, two in pairs
            if stand_in is not None or None not in (one.value, two.value)
        ]
        if not kept:
            continue
        scores = [(_score(one, stand_in), _score(two, stand_in)) for one, two in kept]
        paired.append(
            PairedUnit(
                unit=unit,
                group=unit if groups is None else groups[unit],
                cells=tuple(one.cell for one, _ in kept),
                baseline=_mean([one for one, _ in scores]),
                candidate=_mean([two for _, two in scores]),
                difference=_mean([two - one for one, two in scores]),
                retried=any(row.attempt > 1 for pair in kept for row in pair),
            )
        )
    return tuple(paired)


def pair_cells(
    rows: Iterable[ResultRow], arms: tuple[str, str], field: str
) -> Mapping[str, tuple[tuple[float, float], ...]]:
    """Pair a measured resource cell by cell, clusters averaged over their seeds.

    The resources of a block are those of the whole block, so the cluster is the set
    of units that ran together.

    Args:
        rows: Result rows.
        arms: Baseline and candidate.
        field: ``wall_s``, ``max_rss_bytes``, ``cost_usd`` or another number of a row.

    Returns:
        Per benchmark, (baseline, candidate) of each cluster where both are known.
    """
    cells: dict[str, dict[str, float]] = {}
    first_unit: dict[str, tuple[str, str]] = {}
    for row in rows:
        value = getattr(row, field)
        place = (row.benchmark, row.unit)
        first_unit[row.cell] = min(first_unit.get(row.cell, place), place)
        if value is not None:
            cells.setdefault(row.cell, {})[row.arm] = float(value)
    clusters: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for cell, used in cells.items():
        if arms[0] in used and arms[1] in used:
            pair = (used[arms[0]], used[arms[1]])
            clusters.setdefault(first_unit[cell], []).append(pair)
    found: dict[str, list[tuple[float, float]]] = {}
    for (benchmark, _), pairs in clusters.items():
        means = (_mean([a for a, _ in pairs]), _mean([b for _, b in pairs]))
        found.setdefault(benchmark, []).append(means)
    return {benchmark: tuple(pairs) for benchmark, pairs in found.items()}


def _stand_in(
    rows: Sequence[ResultRow], metric: Metric, policy: FailedArms
) -> float | None:
    if policy is FailedArms.DROP_PAIR:
        return None
    if policy is FailedArms.SCORE:
        return metric.failed_value
    if metric.worst_value is not None:
        return metric.worst_value
    values = [row.value for row in rows if row.value is not None]
    worst = min if metric.goal == "maximize" else max
    return worst(values, default=metric.failed_value)


def _score(row: ResultRow, stand_in: float | None) -> float:
    value = stand_in if row.value is None else row.value
    assert value is not None  # a pair without a stand-in was left out
    return value


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)

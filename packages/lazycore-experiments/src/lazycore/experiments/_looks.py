"""Say which declared look a run has reached, what it sees and at which level."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazycore.experiments._plan import look_of_units
from lazycore.experiments._sequential import look_levels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazycore.experiments._results import ResultRow
    from lazycore.experiments._study import Benchmark, Study

__all__ = ["Looks", "benchmark_keys", "look_shares", "see_looks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """The looks of a study, and the last one whose cells are all there.

    Attributes:
        reached: Looks that were reached; the end of the run is the last.
        declared: Looks that were declared, the end included.
        rows: The rows that the last reached look sees. Whoever looks again between
            two looks sees the same, so that looking costs nothing.
        shares: Per benchmark id of the rows, the share of its clusters at each
            reached look.
        spending: The spending function.
    """

    reached: int
    declared: int
    rows: tuple[ResultRow, ...]
    shares: Mapping[str, tuple[float, ...]]
    spending: str

    def level(self, benchmark: str, alpha: float) -> float:
        """Return the level of the last reached look; all together keep `alpha`."""
        shares = self.shares.get(benchmark, ())
        if not shares:
            return alpha
        return look_levels(shares, alpha, self.spending)[-1]


def see_looks(study: Study, rows: Sequence[ResultRow]) -> Looks:
    """Return what the last reached look of a study sees of the rows."""
    looks = study.analysis.looks
    stages: dict[tuple[str, str], int] = {}
    shares: dict[str, tuple[float, ...]] = {}
    for key, benchmark in benchmark_keys(study):
        found = look_of_units(benchmark, looks)
        stages |= {(key, unit): stage for unit, stage in found.items()}
        shares[key] = look_shares(benchmark, looks)
    wanted = Counter(stages.values())
    present = {(row.benchmark, row.unit, row.seed) for row in rows}
    found_at = Counter(
        stages[benchmark, unit]
        for benchmark, unit, _ in present
        if (benchmark, unit) in stages
    )
    reached = 0
    while reached <= len(looks) and found_at[reached] == wanted[reached] * len(
        study.seeds
    ):
        reached += 1
    return Looks(
        reached=reached,
        declared=len(looks) + 1,
        rows=tuple(
            row for row in rows if stages.get((row.benchmark, row.unit), 0) < reached
        ),
        shares={key: found[:reached] for key, found in shares.items()},
        spending=study.analysis.spending,
    )


def look_shares(benchmark: Benchmark, looks: tuple[float, ...]) -> tuple[float, ...]:
    """Return the share of a benchmark's clusters at each look and at the end."""
    groups = benchmark.group_of
    first: dict[str, int] = {}
    for unit, stage in look_of_units(benchmark, looks).items():
        first[unit if groups is None else groups[unit]] = stage
    return tuple(
        sum(stage <= look for stage in first.values()) / len(first)
        for look in range(len(looks) + 1)
    )


def benchmark_keys(study: Study) -> list[tuple[str, Benchmark]]:
    """Return the benchmark ids of result rows, model slots included, in study order."""
    slots = [m.slot for m in study.models] if len(study.models) > 1 else [""]
    return [
        (f"{benchmark.id}@{slot}" if slot else benchmark.id, benchmark)
        for benchmark in study.benchmarks
        for slot in slots
    ]

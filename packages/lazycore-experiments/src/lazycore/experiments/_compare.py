"""Compare two runs: is it the same study, and which results changed?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lazycore.experiments._comparison import compare_run
from lazycore.experiments._numbers import amount, plural
from lazycore.experiments._terminal import printable

if TYPE_CHECKING:
    from lazycore.experiments._paired_result import PairedResult
    from lazycore.experiments._reader import RunRecord
    from lazycore.experiments._results import ResultRow

__all__ = ["ChangedVerdict", "RunDifference", "compare_runs"]

_NAMED = 5
_Key = tuple[str, str, int, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedVerdict:
    """One comparison that both runs made, and how its verdict moved.

    Attributes:
        arm: Name of the arm.
        benchmark: Benchmark id.
        metric: Metric name.
        kind: ``binary`` or ``real``.
        old_verdict: In the first run.
        new_verdict: In the second run.
        old_difference: Paired difference in the first run, or None.
        new_difference: In the second run, or None.
    """

    arm: str
    benchmark: str
    metric: str
    kind: str
    old_verdict: str
    new_verdict: str
    old_difference: float | None
    new_difference: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifference:
    """What differs between two runs.

    Attributes:
        same_lock: Whether both ran from the same lock.
        same_results: Whether both have the same results with the same values and
            failure classes; a cell id, which names the lock, does not count.
        locked: What differs in the locks, by name.
        compared: Results that both runs have.
        changed: Results with another value or status, by
            (benchmark, unit, seed, arm, metric).
        only_old: Results that the second run lacks.
        only_new: Results that the first run lacks.
        verdicts: Comparisons that both runs made.
    """

    same_lock: bool
    same_results: bool
    locked: tuple[str, ...]
    compared: int
    changed: tuple[_Key, ...]
    only_old: int
    only_new: int
    verdicts: tuple[ChangedVerdict, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON-able data."""
        return {
            "same_lock": self.same_lock,
            "same_results": self.same_results,
            "locked": list(self.locked),
            "compared": self.compared,
            "changed": [list(key) for key in self.changed],
            "only_old": self.only_old,
            "only_new": self.only_new,
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
        }

    def lines(self) -> tuple[str, ...]:
        """Return what people read; names can't steer a terminal."""
        lock = "the same lock" if self.same_lock else "different locks"
        results = "equal results" if self.same_results else "different results"
        lines = [f"{lock}, {results}"]
        lines += [f"  lock: {name}" for name in self.locked]
        counted = f"{len(self.changed):,} of {plural(self.compared, 'result')} changed"
        lines.append(counted)
        for benchmark, unit, seed, arm, metric in self.changed[:_NAMED]:
            lines.append(f"  {benchmark}, {unit}, seed {seed}, {arm}, {metric}")
        if len(self.changed) > _NAMED:
            lines.append(f"  and {len(self.changed) - _NAMED:,} more")
        if self.only_old or self.only_new:
            lines.append(
                f"{plural(self.only_old, 'result')} only in the first run, "
                f"{self.only_new:,} only in the second"
            )
        for found in self.verdicts:
            move = (
                f"{found.old_verdict} in both"
                if found.old_verdict == found.new_verdict
                else f"{found.old_verdict}, then {found.new_verdict}"
            )
            sizes = " to ".join(
                "not measured" if value is None else amount(value, kind=found.kind)
                for value in (found.old_difference, found.new_difference)
            )
            place = f"{found.benchmark}, {found.metric}, {found.arm}"
            lines.append(f"{place}: {move} ({sizes})")
        return tuple(map(printable, lines))


def compare_runs(old: RunRecord, new: RunRecord) -> RunDifference:
    """Compare two runs of one study, or of two versions of it.

    Args:
        old: The first run.
        new: The second run.

    Returns:
        What differs: locked inputs, single results, verdicts.

    Examples:
        >>> from lazycore.experiments import compare_runs, load_run
        >>> def repeats(one: str, two: str) -> bool:
        ...     return compare_runs(load_run(one), load_run(two)).same_results
    """
    before, after = _index(old), _index(new)
    shared = before.keys() & after.keys()
    changed = sorted(key for key in shared if before[key] != after[key])
    return RunDifference(
        same_lock=old.lock_digest == new.lock_digest,
        same_results=not changed and before.keys() == after.keys(),
        locked=tuple(
            str(key)
            for key in sorted(old.lock.keys() | new.lock.keys())
            if old.lock.get(key) != new.lock.get(key)
        ),
        compared=len(shared),
        changed=tuple(changed),
        only_old=len(before.keys() - shared),
        only_new=len(after.keys() - shared),
        verdicts=_verdicts(old, new),
    )


def _index(record: RunRecord) -> dict[_Key, tuple[float | None, str | None]]:
    return {_key(row): (row.value, row.failure_class) for row in record.rows}


def _key(row: ResultRow) -> _Key:
    return row.benchmark, row.unit, row.seed, row.arm, row.metric


def _verdicts(old: RunRecord, new: RunRecord) -> tuple[ChangedVerdict, ...]:
    def by_place(record: RunRecord) -> dict[tuple[str, str, str], PairedResult]:
        results = compare_run(record).results
        return {(r.benchmark, r.metric, r.arm): r for r in results}

    after = by_place(new)
    return tuple(
        ChangedVerdict(
            arm=one.arm,
            benchmark=one.benchmark,
            metric=one.metric,
            kind=one.kind,
            old_verdict=one.verdict.value,
            new_verdict=after[place].verdict.value,
            old_difference=one.difference,
            new_difference=after[place].difference,
        )
        for place, one in by_place(old).items()
        if place in after
    )

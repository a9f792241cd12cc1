"""Compare every arm of a run with its baseline, benchmark by benchmark."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lazycore.experiments._families import correct
from lazycore.experiments._looks import Looks, benchmark_keys, see_looks
from lazycore.experiments._numbers import clipped
from lazycore.experiments._paired_result import Comparison, PairedResult, Sensitivity
from lazycore.experiments._paired_summary import PairedSummary, summarise
from lazycore.experiments._pairing import (
    FailedArms,
    PairedUnit,
    Scores,
    index_rows,
    pair_units,
)
from lazycore.experiments._verdict import Verdict, headline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lazycore.experiments._reader import RunRecord
    from lazycore.experiments._results import ResultRow
    from lazycore.experiments._study import Metric, Study

__all__ = [
    "benchmark_title",
    "compare_rows",
    "compare_run",
]

# Titles are for people; names and ids stay whole.
_TITLE = 120


def compare_run(record: RunRecord) -> Comparison:
    """Compare every arm of a run with the study's baseline.

    Args:
        record: A run, finished or not; one that is not is an interim look.

    Returns:
        One result per arm, benchmark and metric. The resampling is seeded by the
        study's digest in the lock: equal results of one study give equal numbers on
        any host.

    Examples:
        >>> from lazycore.experiments import compare_run, load_run
        >>> def verdict(path: str) -> str:
        ...     return compare_run(load_run(path)).headline
    """
    return compare_rows(
        record.study,
        record.rows,
        seed=record.lock["study_sha256"],
        interim=not record.complete,
    )


def compare_rows(
    study: Study, rows: Iterable[ResultRow], *, seed: str, interim: bool = False
) -> Comparison:
    """Compare every arm of the rows with the study's baseline.

    Args:
        study: The study that made the rows.
        rows: Result rows in any order.
        seed: What the resampling depends on.
        interim: Whether rows are still missing.
    """
    looks = see_looks(study, list(rows)) if study.analysis.looks else None
    index = index_rows(rows if looks is None else looks.rows)
    found = [
        _one(
            study,
            arm.name,
            benchmark,
            metric,
            index.get((benchmark, metric.name), {}),
            seed=seed,
            confidence=_confidence(study, benchmark, looks),
        )
        for metric in sorted(study.metrics, key=lambda metric: not metric.primary)
        for benchmark in _benchmarks(study, index)
        for arm in study.arms
        if arm.name != study.baseline
    ]
    results = correct(found, alpha=study.analysis.alpha, looks=looks)
    return Comparison(
        results=tuple(results),
        headline=headline(
            [r for r in results if r.primary],
            interim=interim,
            look=None if looks is None else (looks.reached, looks.declared),
        ),
        interim=interim,
        look=None if looks is None else looks.reached,
        looks=0 if looks is None else looks.declared,
        alpha=study.analysis.alpha,
        failed_arms=study.analysis.failed_arms,
        resamples=study.analysis.resamples,
    )


def benchmark_title(study: Study, benchmark: str) -> str:
    """Return what people read for a benchmark id of the rows, model slot included."""
    name, slot = benchmark, ""
    if len(study.models) > 1:
        name, _, slot = benchmark.rpartition("@")
    title = next((b.title for b in study.benchmarks if b.id == name), benchmark)
    return f"{title} ({slot})" if slot else title


def _benchmarks(study: Study, index: dict[tuple[str, str], Any]) -> list[str]:
    """Return the benchmark ids of the rows, model slots included, in study order."""
    declared = [key for key, _ in benchmark_keys(study)]
    others = sorted({benchmark for benchmark, _ in index} - set(declared))
    return declared + others


def _one(
    study: Study,
    arm: str,
    benchmark: str,
    metric: Metric,
    scores: dict[str, Scores],
    *,
    seed: str,
    confidence: float,
) -> PairedResult:
    known = dict(benchmark_keys(study)).get(benchmark)
    groups = None if known is None else known.group_of
    declared = FailedArms(study.analysis.failed_arms)
    baseline, candidate = scores.get(study.baseline, {}), scores.get(arm, {})

    def run(policy: FailedArms) -> tuple[PairedUnit, ...]:
        return pair_units(baseline, candidate, metric, policy, groups)

    def summary(units: Sequence[PairedUnit], name: str) -> PairedSummary:
        return summarise(
            [unit.difference for unit in units],
            binary=metric.kind == "binary" and _within_one(units),
            one_seed=all(len(unit.cells) == 1 for unit in units),
            margin=metric.equivalence_margin,
            confidence=confidence,
            resamples=study.analysis.resamples,
            seed=(seed, arm, benchmark, metric.name, name),
            groups=None if groups is None else [unit.group for unit in units],
        )

    pairs = baseline.keys() & candidate.keys()
    failed = sum(
        baseline[key].value is None or candidate[key].value is None for key in pairs
    )
    units = run(declared)
    main = summary(units, declared)
    sign = 1 if metric.goal == "maximize" else -1
    gains = [sign * unit.difference for unit in units]
    return PairedResult(
        arm=arm,
        arm_title=clipped(study.arm(arm).title, _TITLE),
        benchmark=benchmark,
        benchmark_title=clipped(benchmark_title(study, benchmark), _TITLE),
        metric=metric.name,
        metric_title=clipped(metric.title, _TITLE),
        kind=metric.kind,
        goal=metric.goal,
        primary=metric.primary,
        verdict=Verdict.NOT_MEASURED,
        units=len(units),
        clusters=main.clusters,
        grouped=groups is not None,
        seeds=len({seed_of for _, seed_of in pairs}),
        failed_pairs=failed,
        baseline_mean=_mean([unit.baseline for unit in units]),
        candidate_mean=_mean([unit.candidate for unit in units]),
        difference=main.difference,
        interval=main.interval,
        confidence=confidence,
        interval_method=main.interval_method,
        p_value=main.p_value,
        p_adjusted=None,
        p_method=main.p_method,
        mcnemar_p=main.mcnemar_p,
        wilcoxon_p=main.wilcoxon_p,
        wins=sum(gain > 0 for gain in gains),
        ties=sum(gain == 0 for gain in gains),
        losses=sum(gain < 0 for gain in gains),
        margin=metric.equivalence_margin,
        equivalence_p=main.equivalence_p,
        within_margin=False,
        detectable=main.detectable,
        sensitivity=_sensitivity(
            units,
            {p: run(p) for p in _policies(metric)} if failed else {},
            declared,
            summary=summary,
        ),
        paired=units,
    )


def _policies(metric: Metric) -> tuple[FailedArms, ...]:
    """Return the policies that a metric has a value for."""
    scored = metric.failed_value is not None
    return tuple(p for p in FailedArms if scored or p is not FailedArms.SCORE)


def _sensitivity(
    units: tuple[PairedUnit, ...],
    policies: Mapping[FailedArms, tuple[PairedUnit, ...]],
    declared: FailedArms,
    *,
    summary: Callable[[Sequence[PairedUnit], str], PairedSummary],
) -> tuple[Sensitivity, ...]:
    """Return every policy where an arm failed, and the run without its retries."""
    found = [
        _row(policy.value, chosen, summary(chosen, policy), policy is declared)
        for policy, chosen in policies.items()
    ]
    once = tuple(unit for unit in units if not unit.retried)
    if len(once) < len(units):
        name = "without retried units"
        found.append(_row(name, once, summary(once, name), declared=False))
    return tuple(found)


def _row(
    name: str,
    units: Sequence[PairedUnit],
    found: PairedSummary,
    declared: bool,  # noqa: FBT001 - private, called in one place
) -> Sensitivity:
    return Sensitivity(
        name=name,
        units=len(units),
        difference=found.difference,
        interval=found.interval,
        p_value=found.p_value,
        declared=declared,
    )


def _confidence(study: Study, benchmark: str, looks: Looks | None) -> float:
    """Return the level of intervals that hold at every look together."""
    declared = study.analysis.confidence
    return declared if looks is None else 1 - looks.level(benchmark, 1 - declared)


def _within_one(units: Sequence[PairedUnit]) -> bool:
    """Return whether no single difference can be larger than 1."""
    return all(0 <= unit.baseline <= 1 and 0 <= unit.candidate <= 1 for unit in units)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None

"""Compare every arm of a run with its baseline, benchmark by benchmark."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazycore.experiments._multiplicity import benjamini_hochberg, holm
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
from lazycore.experiments._verdict import Verdict, headline, judge

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
    index = index_rows(rows)
    found = [
        _one(
            study,
            arm.name,
            benchmark,
            metric,
            index.get((benchmark, metric.name), {}),
            seed=seed,
        )
        for metric in sorted(study.metrics, key=lambda metric: not metric.primary)
        for benchmark in _benchmarks(study, index)
        for arm in study.arms
        if arm.name != study.baseline
    ]
    results = _corrected(found, alpha=study.analysis.alpha)
    return Comparison(
        results=tuple(results),
        headline=headline([r for r in results if r.primary], interim=interim),
        interim=interim,
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
    slots = [m.slot for m in study.models] if len(study.models) > 1 else []
    declared = [
        f"{benchmark.id}@{slot}" if slot else benchmark.id
        for benchmark in study.benchmarks
        for slot in slots or [""]
    ]
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
) -> PairedResult:
    declared = FailedArms(study.analysis.failed_arms)
    baseline, candidate = scores.get(study.baseline, {}), scores.get(arm, {})

    def run(policy: FailedArms) -> tuple[PairedUnit, ...]:
        return pair_units(baseline, candidate, metric, policy)

    def summary(units: Sequence[PairedUnit], name: str) -> PairedSummary:
        return summarise(
            [unit.difference for unit in units],
            binary=metric.kind == "binary" and _within_one(units),
            one_seed=all(len(unit.cells) == 1 for unit in units),
            margin=metric.equivalence_margin,
            confidence=study.analysis.confidence,
            resamples=study.analysis.resamples,
            seed=(seed, arm, benchmark, metric.name, name),
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
        seeds=len({seed_of for _, seed_of in pairs}),
        failed_pairs=failed,
        baseline_mean=_mean([unit.baseline for unit in units]),
        candidate_mean=_mean([unit.candidate for unit in units]),
        difference=main.difference,
        interval=main.interval,
        confidence=study.analysis.confidence,
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


def _corrected(found: list[PairedResult], *, alpha: float) -> list[PairedResult]:
    """Fill in corrected p-values and verdicts, family by family."""
    p_values: dict[int, float] = {}
    equivalence: dict[int, float] = {}
    for primary, correct in ((True, holm), (False, benjamini_hochberg)):
        family = [i for i, r in enumerate(found) if r.primary is primary]
        with_margin = [i for i in family if found[i].margin is not None]
        p_values |= _adjusted({i: found[i].p_value for i in family}, correct)
        equivalence |= _adjusted(
            {i: found[i].equivalence_p for i in with_margin}, correct
        )
    results = []
    for i, result in enumerate(found):
        sign = 1 if result.goal == "maximize" else -1
        margin_p = equivalence.get(i)
        verdict = judge(
            gain=None if result.difference is None else sign * result.difference,
            interval=result.interval,
            p_adjusted=p_values.get(i),
            equivalence_p_adjusted=margin_p,
            alpha=alpha,
        )
        results.append(
            replace(
                result,
                p_adjusted=p_values.get(i),
                equivalence_p=margin_p,
                within_margin=margin_p is not None and margin_p <= alpha,
                verdict=verdict,
            )
        )
    return results


def _adjusted(
    family: Mapping[int, float | None],
    correct: Callable[[Sequence[float]], tuple[float, ...]],
) -> dict[int, float]:
    """Correct the p-values of a family; a test still to come counts as p = 1."""
    raw = [1.0 if p_value is None else p_value for p_value in family.values()]
    adjusted = dict(zip(family, correct(raw), strict=True))
    return {i: adjusted[i] for i, p_value in family.items() if p_value is not None}


def _within_one(units: Sequence[PairedUnit]) -> bool:
    """Return whether no single difference can be larger than 1."""
    return all(0 <= unit.baseline <= 1 and 0 <= unit.candidate <= 1 for unit in units)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None

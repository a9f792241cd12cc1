"""Put a paired result into one sentence that claims no more than was shown."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from lazycore.experiments._numbers import (
    amount,
    joined,
    p_text,
    plural,
    size_text,
    span,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.experiments._paired_result import PairedResult

__all__ = ["Verdict", "counted", "headline", "judge", "sentence"]


class Verdict(StrEnum):
    """What a comparison showed.

    Examples:
        >>> Verdict.HELPS.value
        'helps'
    """

    HELPS = "helps"
    """Better than the baseline: the interval excludes 0 and the adjusted p agrees."""
    HARMS = "harms"
    """Worse than the baseline, by the same rule."""
    EQUIVALENT = "equivalent within margin"
    """The difference is shown to be smaller than the declared margin."""
    NO_DIFFERENCE = "no difference shown"
    """Neither of the above was shown; that is no proof of equality."""
    NOT_MEASURED = "not measured"
    """No pair of results exists."""


_CLAUSES = {
    Verdict.HELPS: "helps on",
    Verdict.HARMS: "harms on",
    Verdict.EQUIVALENT: "is equivalent within the margin on",
    Verdict.NO_DIFFERENCE: "no difference shown on",
    Verdict.NOT_MEASURED: "not measured on",
}
_CLAIMS = {Verdict.HELPS, Verdict.HARMS, Verdict.EQUIVALENT}


def judge(
    *,
    gain: float | None,
    interval: tuple[float, float] | None,
    p_adjusted: float | None,
    equivalence_p_adjusted: float | None,
    alpha: float,
) -> Verdict:
    """Return the verdict of one comparison.

    Args:
        gain: Mean paired difference, positive where the candidate is better.
        interval: Its interval, or None where every unit differed by the same amount.
        p_adjusted: p of "no difference", corrected for its family.
        equivalence_p_adjusted: p of "as large as the margin", corrected, or None.
        alpha: Level of the family.
    """
    if gain is None or p_adjusted is None:
        return Verdict.NOT_MEASURED
    excludes_none = interval is None or interval[0] > 0 or interval[1] < 0
    if p_adjusted <= alpha and gain != 0 and excludes_none:
        return Verdict.HELPS if gain > 0 else Verdict.HARMS
    if equivalence_p_adjusted is not None and equivalence_p_adjusted <= alpha:
        return Verdict.EQUIVALENT
    return Verdict.NO_DIFFERENCE


def sentence(result: PairedResult) -> str:
    """Return one sentence for one comparison, numbers included."""
    place = f"{result.arm_title} on {result.benchmark_title}"
    if result.difference is None:
        return f"{place}: not measured, no unit has a result under both arms."
    size = f"{result.metric_title} {amount(result.difference, kind=result.kind)}"
    level = f"{100 * result.confidence:.4g} %"
    within = (
        f"{level} interval {span(result.interval, kind=result.kind)}"
        if result.interval
        else "no interval: every unit differed by the same amount"
    )
    evidence = (
        f"{size} ({within}, {counted(result)}, adjusted {p_text(result.p_adjusted)})"
    )
    match result.verdict:
        case Verdict.HELPS | Verdict.HARMS:
            small = (
                ", though by less than the margin that was declared to matter"
                if result.within_margin
                else ""
            )
            return f"{place} {result.verdict.value}: {evidence}{small}."
        case Verdict.EQUIVALENT:
            margin = size_text(result.margin or 0.0, kind=result.kind)
            return f"{place} is equivalent within {margin}: {evidence}."
        case _:
            return f"{place}: no difference shown, {evidence}."


def counted(result: PairedResult, *, times: str = "x") -> str:
    """Return how many units, groups and seeds a comparison rests on."""
    units = plural(result.units, "unit")
    groups = f" in {plural(result.clusters, 'group')}" if result.grouped else ""
    seeds = f" {times} {plural(result.seeds, 'seed')}" if result.seeds > 1 else ""
    return f"{units}{groups}{seeds}"


def headline(
    results: Sequence[PairedResult],
    *,
    interim: bool,
    look: tuple[int, int] | None = None,
) -> str:
    """Return the sentence that opens a report: one clause per verdict.

    Args:
        results: The primary comparisons.
        interim: Whether cells are still missing.
        look: The declared look that was reached and how many there are, or None.
    """
    arms = dict.fromkeys(result.arm for result in results)
    parts = [_about([r for r in results if r.arm == arm]) for arm in arms]
    prefix = ""
    if interim and look is not None:
        reached, declared = look
        prefix = (
            f"Declared look {reached} of {declared}: "
            if reached
            else f"Before the first of {declared} declared looks: "
        )
    elif interim:
        prefix = "Interim look, no verdict is final: "
    return prefix + " ".join(parts)


def _about(results: Sequence[PairedResult]) -> str:
    """Return the clauses about one arm, the strongest claim first."""
    claims: list[str] = []
    rest: list[str] = []
    for verdict, words in _CLAUSES.items():
        places = [_place(r, results) for r in results if r.verdict is verdict]
        if places:
            clauses = claims if verdict in _CLAIMS else rest
            clauses.append(f"{words} {joined(places)}")
    arm = results[0].arm_title
    text = "; ".join([*claims, *rest])
    if len(claims) + len(rest) > 1 and not any(
        result.verdict is Verdict.HARMS for result in results
    ):
        text += "; no harm shown"
    return f"{arm} {text}." if claims else f"{arm}: {text}."


def _place(result: PairedResult, results: Sequence[PairedResult]) -> str:
    several = len({r.metric for r in results}) > 1
    name = result.benchmark_title
    return f"{name} ({result.metric_title})" if several else name

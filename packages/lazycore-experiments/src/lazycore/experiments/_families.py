"""Correct the p-values of a run family by family, and judge each comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lazycore.experiments._multiplicity import benjamini_hochberg, holm
from lazycore.experiments._verdict import judge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._looks import Looks
    from lazycore.experiments._paired_result import PairedResult

__all__ = ["correct"]


def correct(
    found: list[PairedResult], *, alpha: float, looks: Looks | None
) -> list[PairedResult]:
    """Fill in corrected p-values and verdicts.

    Args:
        found: Every comparison of a run.
        alpha: Level of the declared family.
        looks: The looks of the study, over which the level is spent, or None.
    """
    p_values: dict[int, float] = {}
    equivalence: dict[int, float] = {}
    for primary in (True, False):
        family = [i for i, r in enumerate(found) if r.primary is primary]
        with_margin = [i for i in family if found[i].margin is not None]
        raw = {i: found[i].p_value for i in family}
        within = {i: found[i].equivalence_p for i in with_margin}
        spend = (alpha, looks) if primary and looks is not None else None
        p_values |= _adjusted(raw, found, primary=primary, spend=spend)
        equivalence |= _adjusted(within, found, primary=primary, spend=spend)
    return [
        _judged(result, p_values.get(i), equivalence.get(i), alpha=alpha)
        for i, result in enumerate(found)
    ]


def _judged(
    result: PairedResult, p_adjusted: float | None, margin_p: float | None, alpha: float
) -> PairedResult:
    sign = 1 if result.goal == "maximize" else -1
    verdict = judge(
        gain=None if result.difference is None else sign * result.difference,
        interval=result.interval,
        p_adjusted=p_adjusted,
        equivalence_p_adjusted=margin_p,
        alpha=alpha,
    )
    return replace(
        result,
        p_adjusted=p_adjusted,
        equivalence_p=margin_p,
        within_margin=margin_p is not None and margin_p <= alpha,
        verdict=verdict,
    )


def _adjusted(
    family: Mapping[int, float | None],
    found: list[PairedResult],
    *,
    primary: bool,
    spend: tuple[float, Looks] | None,
) -> dict[int, float]:
    """Correct the p-values of a family; a test still to come counts as p = 1."""
    raw = [1.0 if p_value is None else p_value for p_value in family.values()]
    if not primary:
        corrected = benjamini_hochberg(raw)
    elif spend is None:
        corrected = holm(raw)
    else:
        alpha, looks = spend
        places = [found[i].benchmark for i in family]
        corrected = holm(
            raw,
            scale=lambda index, size: _scale(looks, places[index], alpha / size),
        )
    adjusted = dict(zip(family, corrected, strict=True))
    return {i: adjusted[i] for i, p_value in family.items() if p_value is not None}


def _scale(looks: Looks, benchmark: str, level: float) -> float:
    """Return what a p is multiplied by, so that it reaches `level` where it may."""
    at_look = looks.level(benchmark, level)
    return level / at_look if at_look > 0 else float("inf")

"""Say before a run how small a difference it can show."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from lazycore.experiments._looks import look_shares
from lazycore.experiments._sequential import look_levels
from lazycore.experiments._terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazycore.experiments._study import Metric, Study

__all__ = ["minimum_detectable_effect", "plan_lines", "smallest_p"]

_EXAMPLE_DISCORDANCE = 0.1


def minimum_detectable_effect(
    units: int, *, sd: float = 1.0, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Return the smallest mean paired difference that a study is likely to show.

    The normal approximation of a two-sided paired test: (z for alpha plus z for
    power) times the standard error.

    Args:
        units: Clusters, at least 1.
        sd: Standard deviation of the paired differences; the result has its unit.
            Of a binary metric with one seed it is at most the square root of the
            share of units on which the arms disagree.
        alpha: Two-sided level of this one comparison.
        power: Chance of showing a difference of that size.

    Raises:
        ValueError: An argument is out of range.

    Examples:
        >>> round(minimum_detectable_effect(569), 3)
        0.117
        >>> round(minimum_detectable_effect(569, sd=0.1**0.5), 4)
        0.0371
    """
    if units < 1 or sd <= 0 or not 0 < alpha < 1 or not 0 < power < 1:
        raise ValueError(
            f"units={units}, sd={sd}, alpha={alpha}, power={power}: give at least 1 "
            "unit, a positive sd, and alpha and power strictly between 0 and 1"
        )
    normal = NormalDist()
    reach = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
    return reach * sd / math.sqrt(units)


def smallest_p(units: int) -> float:
    """Return the smallest two-sided p that a sign-flip test of so many units has."""
    return min(1.0, 2.0 ** (1 - units))


def plan_lines(study: Study) -> tuple[str, ...]:
    """Return one line per benchmark and primary metric: what it is likely to show.

    Args:
        study: A checked study; nothing of it needs to have run.
    """
    primaries = [metric for metric in study.metrics if metric.primary]
    family = len(study.benchmarks) * len(primaries) * (len(study.arms) - 1)
    family *= max(1, len(study.models))
    alpha = study.analysis.alpha / family
    lines = []
    for benchmark in study.benchmarks:
        size = len(benchmark.groups) or len(benchmark.units)
        noun = "group" if benchmark.groups else "unit"
        levels = look_levels(
            look_shares(benchmark, study.analysis.looks),
            alpha,
            study.analysis.spending,
        )
        if smallest_p(size) > levels[-1]:
            lines.append(
                f"{benchmark.id}: {size} {noun}s can't show anything: the smallest "
                f"possible p is {smallest_p(size):.3g}, the level of one of {family} "
                f"comparisons {levels[-1]:.3g}; add {noun}s"
            )
            continue
        lines += [
            f"{benchmark.id}, {metric.name}: {size} {noun}s show "
            f"{_detectable(metric, size, levels[-1], grouped=bool(benchmark.groups))} "
            f"with 80 % power (level {levels[-1]:.3g}, {family} in the family)"
            for metric in primaries
        ]
        lines += _look_lines(study, benchmark.id, levels[:-1])
    return tuple(map(printable, lines))


def _detectable(metric: Metric, size: int, alpha: float, *, grouped: bool) -> str:
    if metric.kind == "binary" and not grouped:
        sd = math.sqrt(_EXAMPLE_DISCORDANCE)
        effect = 100 * minimum_detectable_effect(size, sd=sd, alpha=alpha)
        return f"{effect:.1f} pp where the arms disagree on 10 % of the units"
    effect = minimum_detectable_effect(size, alpha=alpha)
    of_what = "the groups' mean differences" if grouped else "the paired differences"
    return f"{effect:.2g} standard deviations of {of_what}"


def _look_lines(study: Study, benchmark: str, levels: Sequence[float]) -> Iterator[str]:
    """Say at which level each declared look decides, and where draws can't reach it."""
    finest = 1 / (study.analysis.resamples + 1)
    for share, level in zip(study.analysis.looks, levels, strict=True):
        text = f"{benchmark}: a look at {100 * share:g} % decides at level {level:.3g}"
        if level < finest:
            text += (
                f"; {study.analysis.resamples:,} draws show no p below {finest:.3g}, "
                "set more resamples or look later"
            )
        yield text

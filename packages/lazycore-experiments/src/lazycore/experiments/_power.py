"""Say before a run how small a difference it can show."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from lazycore.experiments._terminal import printable

if TYPE_CHECKING:
    from lazycore.experiments._study import Study

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
        units = len(benchmark.units)
        if smallest_p(units) > alpha:
            lines.append(
                f"{benchmark.id}: {units} units can't show anything: the smallest "
                f"possible p is {smallest_p(units):.3g}, the level of one of {family} "
                f"comparisons {alpha:.3g}; add units"
            )
            continue
        for metric in primaries:
            if metric.kind == "binary":
                sd = math.sqrt(_EXAMPLE_DISCORDANCE)
                size = 100 * minimum_detectable_effect(units, sd=sd, alpha=alpha)
                what = f"{size:.1f} pp where the arms disagree on 10 % of the units"
            else:
                size = minimum_detectable_effect(units, alpha=alpha)
                what = f"{size:.2g} standard deviations of the paired differences"
            lines.append(
                f"{benchmark.id}, {metric.name}: {units} units show {what} with "
                f"80 % power (level {alpha:.3g}, {family} in the family)"
            )
    return tuple(map(printable, lines))

"""Spend a level over looks that were declared before the run.

A spending function says how much of the level is used up once a share of the
clusters has been seen (Lan and DeMets, "Discrete sequential boundaries for clinical
trials", Biometrika 70(3), 1983). What is left for each look follows from the joint
normal distribution of the looks, by the recursion of Armitage, McPherson and Rowe,
"Repeated significance tests on accumulating data", Journal of the Royal Statistical
Society A 132(2), 1969.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

__all__ = ["SPENDING", "look_levels"]

SPENDING = ("obrien-fleming", "pocock")
_NORMAL = NormalDist()
_ROOT_TWO = math.sqrt(2)
_CELLS = 160  # of Simpson's rule; more changes no level by one part in 10**5
_FARTHEST = 9.0  # standard deviations; beyond lies less than 10**-18


@lru_cache(maxsize=1024)
def look_levels(
    shares: tuple[float, ...], alpha: float, spending: str
) -> tuple[float, ...]:
    """Return the two-sided level of each look, so that all together keep `alpha`.

    Args:
        shares: Share of the clusters seen at each look, not descending, at most 1.
            A look that sees nothing new has the level of the one before.
        alpha: Two-sided level of the whole.
        spending: ``obrien-fleming`` (little early, nearly all at the end) or
            ``pocock`` (about as much at each look).

    Examples:
        >>> [round(level, 4) for level in look_levels((0.5, 1.0), 0.05, "pocock")]
        [0.031, 0.0277]
    """
    levels: list[float] = []
    spent = seen = 0.0
    # The value of the sum so far, in units in which the whole has variance 1.
    points, density = [0.0], [1.0]
    for share in shares:
        if share <= seen:
            levels.append(levels[-1] if levels else 0.0)
            continue
        step = math.sqrt(share - seen)
        use = _spent(alpha, share, spending) - spent
        bound = _bound(points, density, step, use, _FARTHEST * math.sqrt(share))
        levels.append(2 * _NORMAL.cdf(-bound / math.sqrt(share)))
        points, density = _carried(points, density, step, bound)
        spent, seen = spent + use, share
    return tuple(levels)


def _spent(alpha: float, share: float, spending: str) -> float:
    """Return the part of the level that is used up at a share of the clusters."""
    if share >= 1:
        return alpha
    if spending == "pocock":
        return alpha * math.log(1 + (math.e - 1) * share)
    # The one-sided function of Lan and DeMets for half the level, on both sides.
    reach = _NORMAL.inv_cdf(1 - alpha / 4)
    return 4 * _NORMAL.cdf(-reach / math.sqrt(share))


def _bound(
    points: list[float], density: list[float], step: float, use: float, far: float
) -> float:
    """Return the bound that a path which did not stop yet passes with chance `use`."""
    low, high = 0.0, far
    for _ in range(60):
        middle = (low + high) / 2
        passed = math.fsum(
            weight * (_above((middle - p) / step) + _above((middle + p) / step))
            for p, weight in zip(points, density, strict=True)
        )
        low, high = (middle, high) if passed > use else (low, middle)
    return high


def _above(z: float) -> float:
    return math.erfc(z / _ROOT_TWO) / 2


def _carried(
    points: list[float], density: list[float], step: float, bound: float
) -> tuple[list[float], list[float]]:
    """Return the weighted density, one step on, of paths still within the bound."""
    width = 2 * bound / _CELLS
    scale = width / 3 / (step * math.sqrt(2 * math.pi))
    found, weights = [], []
    for i in range(_CELLS + 1):
        at = -bound + i * width
        simpson = 1 if i in {0, _CELLS} else 4 if i % 2 else 2
        mass = math.fsum(
            weight * math.exp(-0.5 * ((at - p) / step) ** 2)
            for p, weight in zip(points, density, strict=True)
        )
        found.append(at)
        weights.append(simpson * scale * mass)
    return found, weights

"""Resample paired differences: cluster bootstrap and sign flips.

Pure Python on purpose: a verdict must not depend on which libraries are installed.
Only ``random.random()`` is drawn, whose sequence Python guarantees across versions.
Values that repeat (a binary metric has few distinct differences) are drawn by their
counts, which is the same distribution at a fraction of the work.
"""

from __future__ import annotations

import hashlib
import math
import random
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist
from typing import TYPE_CHECKING

from lazycore.experiments._student import student_quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "SignFlip",
    "bootstrap_means",
    "bootstrap_ratios",
    "expanded_interval",
    "limit_interval",
    "sign_flip",
    "stream",
    "worth_drawing",
]

_EXACT_UNITS = 16
_NEGLIGIBLE = 1e-22
# About four seconds of drawing one by one. Beyond, the distribution is so close to
# its limit that drawing would add nothing but waiting.
_MOST_DRAWS = 50_000_000
_LARGEST_SHARE = 0.01
_Draw = tuple[int, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignFlip:
    """A two-sided sign-flip permutation test.

    Attributes:
        p_value: Share of sign assignments with a sum at least as far from 0.
        method: ``exact``, the number of draws, or ``normal limit``.
    """

    p_value: float
    method: str


def stream(*parts: str) -> random.Random:
    """Return random numbers that depend on the parts alone."""
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return random.Random(hashlib.sha256(text).digest())  # noqa: S311 - for statistics


def bootstrap_means(
    values: Sequence[float], *, resamples: int, rng: random.Random
) -> list[float]:
    """Draw clusters with replacement; return the sorted means.

    Args:
        values: One number per cluster, at least one.
        resamples: How many means.
        rng: Where the draws come from.

    Returns:
        The means in ascending order.
    """
    size = len(values)
    counts = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    if len(counts) * 8 > size:
        # Ordered, so that the order of the units does not matter.
        ordered = sorted(values)
        draw = rng.random
        return sorted(
            math.fsum([ordered[int(draw() * size)] for _ in range(size)]) / size
            for _ in range(resamples)
        )
    tables: dict[tuple[int, int], _Draw] = {}
    means = []
    for _ in range(resamples):
        left, weight, total = size, size, 0.0
        for index, (value, count) in enumerate(counts):
            if count == weight:
                total += value * left
                break
            table = tables.get((index, left))
            if table is None:
                table = tables[index, left] = _binomial(left, count / weight)
            drawn = table[0] + bisect_right(table[1], rng.random())
            total += value * drawn
            left -= drawn
            weight -= count
        means.append(total / size)
    means.sort()
    return means


def bootstrap_ratios(
    sums: Sequence[float],
    sizes: Sequence[int],
    *,
    resamples: int,
    rng: random.Random,
) -> list[float]:
    """Draw clusters of unequal size with replacement; return the sorted means.

    The mean of a draw is the sum over its clusters by the number of its units.

    Args:
        sums: Sum of the differences of each cluster.
        sizes: Units of each cluster.
        resamples: How many means.
        rng: Where the draws come from.
    """
    size = len(sums)
    # Ordered, so that the order of the clusters does not matter.
    clusters = sorted(zip(sums, sizes, strict=True))
    draw = rng.random
    means = []
    for _ in range(resamples):
        drawn = [clusters[int(draw() * size)] for _ in range(size)]
        total = math.fsum([one for one, _ in drawn])
        means.append(total / sum([units for _, units in drawn]))
    means.sort()
    return means


def worth_drawing(values: Sequence[float], *, resamples: int) -> bool:
    """Return whether drawing is affordable, by counts or one by one.

    False only for very many different values of which none dominates: then the
    limits below are closer to the full distribution than any number of draws.
    """
    size = len(values)
    if size * resamples <= _MOST_DRAWS or 8 * len(set(values)) <= size:
        return True
    squares = [value * value for value in values]
    return max(squares) > _LARGEST_SHARE * math.fsum(squares)


def limit_interval(
    values: Sequence[float], *, confidence: float
) -> tuple[float, float]:
    """Return what the bootstrap's percentiles tend to with many units and draws.

    Normal quantiles of the mean, corrected for the skewness that the resampled mean
    has (Cornish and Fisher, "Moments and Cumulants in the Specification of
    Distributions", 1938).

    Args:
        values: One number per cluster; not all equal.
        confidence: For instance 0.95.
    """
    size = len(values)
    mean = math.fsum(values) / size
    second = math.fsum((value - mean) ** 2 for value in values) / size
    third = math.fsum((value - mean) ** 3 for value in values) / size
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    skewness = third / second**1.5 / math.sqrt(size)
    shift, error = skewness * (z * z - 1) / 6, math.sqrt(second / size)
    return mean + error * (shift - z), mean + error * (shift + z)


def expanded_interval(
    means: Sequence[float], *, units: int, confidence: float
) -> tuple[float, float]:
    """Return the expanded percentile interval of bootstrap means.

    The plain percentile interval is too narrow for few units; the expansion puts
    Student's t and the n/(n-1) factor back in (Hesterberg, "What Teachers Should
    Know About the Bootstrap", The American Statistician 69(4), 2015, section 5.2).

    Args:
        means: Sorted bootstrap means.
        units: How many clusters were drawn, at least 2.
        confidence: For instance 0.95.
    """
    t = student_quantile(0.5 + confidence / 2, degrees=units - 1)
    level = NormalDist().cdf(-t * math.sqrt(units / (units - 1)))
    rank = max(1, int((len(means) + 1) * level))
    return means[rank - 1], means[len(means) - rank]


def sign_flip(
    differences: Sequence[float], *, resamples: int, rng: random.Random
) -> SignFlip:
    """Test whether paired differences are symmetric around 0.

    Exact for up to 16 differences that are not 0; beyond, Monte Carlo with one
    added to hits and draws, so that no p is 0 (Phipson and Smyth, "Permutation
    P-values Should Never Be Zero", 2010).

    Args:
        differences: One per cluster.
        resamples: Monte Carlo draws.
        rng: Where the draws come from.
    """
    changed = [value for value in differences if value]
    if not changed:
        return SignFlip(p_value=1.0, method="exact")
    # Sums that are equal in exact arithmetic may differ in their last bits.
    reach = abs(math.fsum(changed)) - 1e-9 * math.fsum(map(abs, changed))
    if len(changed) <= _EXACT_UNITS:
        sums = [0.0]
        for value in changed:
            sums = [s + value for s in sums] + [s - value for s in sums]
        hits = sum(abs(s) >= reach for s in sums)
        return SignFlip(p_value=hits / len(sums), method="exact")
    if not worth_drawing(changed, resamples=resamples):
        # Random signs in front of very many differences: the sum is normal, and no
        # p is smaller than the draws could have shown.
        error = math.sqrt(math.fsum(value * value for value in changed))
        tail = 2 * NormalDist().cdf(-abs(math.fsum(changed)) / error)
        return SignFlip(p_value=max(tail, 1 / (resamples + 1)), method="normal limit")
    # In an order that neither the units nor the sign of the effect decide.
    draw = _flipper(sorted(map(abs, changed)), rng.random)
    hits = sum(abs(draw()) >= reach for _ in range(resamples))
    p_value = (hits + 1) / (resamples + 1)
    return SignFlip(p_value=p_value, method=f"{resamples:,} draws")


def _flipper(magnitudes: list[float], draw: Callable[[], float]) -> Callable[[], float]:
    """Return a function that draws the sum of the magnitudes with random signs."""
    counts = sorted(Counter(magnitudes).items())
    if len(counts) * 8 <= len(magnitudes):
        halves = [(value, count, _binomial(count, 0.5)) for value, count in counts]

        def by_counts() -> float:
            total = 0.0
            for value, count, (start, cumulative) in halves:
                positive = start + bisect_right(cumulative, draw())
                total += value * (2 * positive - count)
            return total

        return by_counts
    tables = []
    for start in range(0, len(magnitudes), 8):
        sums = [0.0]
        for value in magnitudes[start : start + 8]:
            sums = [s + value for s in sums] + [s - value for s in sums]
        tables.append((sums, len(sums)))

    def by_bytes() -> float:
        return sum([sums[int(draw() * size)] for sums, size in tables])

    return by_bytes


def _binomial(trials: int, chance: float) -> _Draw:
    """Return the first likely count and the cumulative probabilities from there.

    Built from the mode outwards by the ratio of neighbours; what is left out weighs
    less than one part in 10**20.
    """
    mode = min(trials, int((trials + 1) * chance))
    odds = chance / (1 - chance)
    above, weight, count = [], 1.0, mode
    while count < trials:
        weight *= (trials - count) / (count + 1) * odds
        if weight < _NEGLIGIBLE:
            break
        above.append(weight)
        count += 1
    below, weight, count = [], 1.0, mode
    while count > 0:
        weight *= count / (trials - count + 1) / odds
        if weight < _NEGLIGIBLE:
            break
        below.append(weight)
        count -= 1
    weights = [*reversed(below), 1.0, *above]
    total = math.fsum(weights)
    # The last count needs no boundary of its own: every draw beyond falls on it.
    return mode - len(below), [w / total for w in accumulate(weights[:-1])]

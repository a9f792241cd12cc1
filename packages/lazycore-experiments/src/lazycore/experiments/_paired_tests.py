"""Tests of paired data that have a closed form: McNemar, Wilcoxon, equivalence."""

from __future__ import annotations

import math
from collections import Counter
from statistics import NormalDist
from typing import TYPE_CHECKING

from lazycore.experiments._student import student_cdf

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["equivalence_p", "mcnemar_exact", "wilcoxon_p"]

_EXACT_RANKS = 50


def mcnemar_exact(gained: int, lost: int) -> float:
    """Return the two-sided exact p of McNemar's test.

    Args:
        gained: Pairs where only the candidate succeeded.
        lost: Pairs where only the baseline succeeded.

    Returns:
        Twice the binomial tail at one half, at most 1 (McNemar, Psychometrika 12,
        1947, in its exact form).
    """
    pairs = gained + lost
    ways = tail = 1
    for k in range(min(gained, lost)):
        ways = ways * (pairs - k) // (k + 1)
        tail += ways
    return min(1.0, tail / (1 << max(0, pairs - 1)))


def wilcoxon_p(differences: Sequence[float]) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test.

    Differences of 0 are dropped, as Wilcoxon did. Exact for up to 50 differences
    without ties, else the normal approximation with the tie correction.

    Args:
        differences: One per cluster.
    """
    changed = sorted((value for value in differences if value), key=abs)
    size = len(changed)
    if size == 0:
        return 1.0
    sizes = Counter(map(abs, changed))
    rank_of, below = {}, 0
    for magnitude, count in sorted(sizes.items()):
        rank_of[magnitude] = below + (count + 1) / 2
        below += count
    positive = math.fsum(rank_of[value] for value in changed if value > 0)
    total = size * (size + 1) / 2
    smaller = min(positive, total - positive)
    if size <= _EXACT_RANKS and len(sizes) == size:
        return min(1.0, _rank_tail(size, int(smaller)) / (1 << (size - 1)))
    ties = sum(count**3 - count for count in sizes.values())
    variance = size * (size + 1) * (2 * size + 1) / 24 - ties / 48
    return min(1.0, 2 * NormalDist().cdf((smaller - total / 2) / math.sqrt(variance)))


def equivalence_p(differences: Sequence[float], *, margin: float) -> float | None:
    """Return the p of two one-sided t tests against a margin.

    A small p says that the mean difference lies within the margin (Schuirmann,
    Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).

    Args:
        differences: One per cluster.
        margin: Largest difference that counts as none, above 0.

    Returns:
        The larger of the two p-values, or None where every difference is the same
        and nothing can be said about their spread.
    """
    size = len(differences)
    if size < 2:
        return None
    mean = math.fsum(differences) / size
    spread = math.fsum((value - mean) ** 2 for value in differences) / (size - 1)
    if spread == 0 or len(set(differences)) == 1:
        return None
    error = math.sqrt(spread / size)
    return student_cdf((abs(mean) - margin) / error, degrees=size - 1)


def _rank_tail(size: int, reach: int) -> int:
    """Count the sign assignments whose positive ranks sum to at most `reach`."""
    ways = [1] + [0] * reach
    for rank in range(1, size + 1):
        for total in range(reach, rank - 1, -1):
            ways[total] += ways[total - rank]
    return sum(ways)

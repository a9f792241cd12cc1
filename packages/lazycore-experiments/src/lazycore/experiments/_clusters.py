"""Reduce paired differences to what was sampled: clusters of one or more units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Clusters", "cluster"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """Sums of paired differences per cluster, and how many units each sum holds.

    Attributes:
        sums: Sum of the differences of a cluster's units.
        sizes: Units of each cluster.
        values: One number per cluster whose mean is the mean over units and whose
            spread is that of the mean. Of equally large clusters it is the
            cluster's mean; else the mean plus the cluster's influence on it, the
            first-order term of a ratio of two sums.
    """

    sums: tuple[float, ...]
    sizes: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def even(self) -> bool:
        """Whether every cluster has the same number of units."""
        return len(set(self.sizes)) == 1

    @property
    def single(self) -> bool:
        """Whether every cluster is one unit."""
        return set(self.sizes) == {1}

    @property
    def largest(self) -> float:
        """Size of the largest cluster, in mean sizes."""
        return max(self.sizes) * len(self.sizes) / sum(self.sizes)


def cluster(differences: Sequence[float], groups: Sequence[str] | None) -> Clusters:
    """Gather paired differences, one per unit, into the clusters they belong to.

    Args:
        differences: Candidate minus baseline, at least one.
        groups: The group of each unit, or None where each unit stands for itself.
    """
    if groups is None:
        kept = tuple(differences)
        return Clusters(sums=kept, sizes=(1,) * len(kept), values=kept)
    members: dict[str, list[float]] = {}
    for group, difference in zip(groups, differences, strict=True):
        members.setdefault(group, []).append(difference)
    sums = tuple(math.fsum(found) for found in members.values())
    sizes = tuple(len(found) for found in members.values())
    if len(set(sizes)) == 1:
        values = tuple(total / sizes[0] for total in sums)
    else:
        units = sum(sizes)
        mean = math.fsum(differences) / units
        weight = len(sums) / units
        values = tuple(
            mean + (total - size * mean) * weight
            for total, size in zip(sums, sizes, strict=True)
        )
    return Clusters(sums=sums, sizes=sizes, values=values)

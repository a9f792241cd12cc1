"""Summarise the paired differences of one comparison: estimate, interval, tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazycore.experiments._clusters import Clusters, cluster
from lazycore.experiments._paired_tests import (
    equivalence_p,
    mcnemar_exact,
    wilcoxon_p,
)
from lazycore.experiments._power import minimum_detectable_effect
from lazycore.experiments._resampling import (
    bootstrap_means,
    bootstrap_ratios,
    expanded_interval,
    limit_interval,
    sign_flip,
    stream,
    worth_drawing,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PairedSummary", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedSummary:
    """What one vector of paired differences says; see `PairedResult`."""

    clusters: int = 0
    difference: float | None = None
    interval: tuple[float, float] | None = None
    interval_method: str = "none"
    p_value: float | None = None
    p_method: str = "none"
    mcnemar_p: float | None = None
    wilcoxon_p: float | None = None
    equivalence_p: float | None = None
    detectable: float | None = None


def summarise(
    differences: Sequence[float],
    *,
    binary: bool,
    one_seed: bool,
    margin: float | None,
    confidence: float,
    resamples: int,
    seed: tuple[str, ...],
    groups: Sequence[str] | None = None,
) -> PairedSummary:
    """Summarise paired differences of units, or of declared groups of units.

    Args:
        differences: Candidate minus baseline per unit, seeds averaged.
        binary: Whether each single measurement is 0 or 1.
        one_seed: Whether no unit has more than one seed.
        margin: Equivalence margin, or None.
        confidence: Level of the interval.
        resamples: Bootstrap and permutation draws.
        seed: What the draws depend on.
        groups: The group of each unit; what is resampled is the group.
    """
    if not differences:
        return PairedSummary()
    clusters = cluster(differences, groups)
    exact_pairs = (
        binary
        and one_seed
        and clusters.single
        and all(value in {-1.0, 0.0, 1.0} for value in differences)
    )
    mcnemar = None
    if exact_pairs:
        mcnemar = mcnemar_exact(
            sum(value > 0 for value in differences),
            sum(value < 0 for value in differences),
        )
    if mcnemar is not None:
        p_value, p_method = mcnemar, "exact McNemar"
    else:
        flip = sign_flip(
            clusters.sums, resamples=resamples, rng=stream(*seed, "sign-flip")
        )
        p_value, p_method = flip.p_value, f"sign-flip permutation, {flip.method}"
    interval, interval_method = _interval(
        clusters,
        binary=binary,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    spread = _spread(clusters.values)
    return PairedSummary(
        clusters=len(clusters.sums),
        difference=math.fsum(differences) / len(differences),
        interval=interval,
        interval_method=interval_method,
        p_value=p_value,
        p_method=p_method,
        mcnemar_p=mcnemar,
        wilcoxon_p=wilcoxon_p(clusters.values if clusters.even else clusters.sums),
        equivalence_p=_equivalence(clusters, binary=binary, margin=margin),
        detectable=(
            minimum_detectable_effect(len(clusters.sums), sd=spread) if spread else None
        ),
    )


def _interval(
    clusters: Clusters,
    *,
    binary: bool,
    confidence: float,
    resamples: int,
    seed: tuple[str, ...],
) -> tuple[tuple[float, float] | None, str]:
    values = clusters.values
    count = len(values)
    if len(set(values)) > 1:
        if not worth_drawing(values, resamples=resamples):
            limits = limit_interval(values, confidence=confidence)
            return limits, "cluster bootstrap, limit of very many units"
        rng = stream(*seed, "bootstrap")
        means = (
            bootstrap_means(values, resamples=resamples, rng=rng)
            if clusters.even
            else bootstrap_ratios(
                clusters.sums, clusters.sizes, resamples=resamples, rng=rng
            )
        )
        interval = expanded_interval(means, units=count, confidence=confidence)
        return interval, f"cluster bootstrap, {resamples:,} draws"
    if binary and not any(values):
        # No cluster differed. The bootstrap would answer [0, 0]; the exact binomial
        # bound on the share of clusters that may differ says how far 0 is known.
        share = 1 - (1 - confidence) ** (1 / count)
        reach = min(1.0, share * clusters.largest)
        what = "unit disagreed" if clusters.single else "group differed"
        return (-reach, reach), f"exact bound, no {what}"
    return None, "none: every unit differed by the same amount"


def _equivalence(
    clusters: Clusters, *, binary: bool, margin: float | None
) -> float | None:
    if margin is None:
        return None
    values = clusters.values
    if binary and not any(values):
        # The chance that no cluster differs if as many do as reach the margin.
        return max(0.0, 1 - margin / clusters.largest) ** len(values)
    return equivalence_p(values, margin=margin)


def _spread(differences: Sequence[float]) -> float:
    """Return the sample standard deviation, 0 where it is unknown."""
    units = len(differences)
    if len(set(differences)) < 2:
        return 0.0
    mean = math.fsum(differences) / units
    return math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (units - 1))

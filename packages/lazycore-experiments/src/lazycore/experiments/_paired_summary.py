"""Summarise the paired differences of one comparison: estimate, interval, tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazycore.experiments._paired_tests import (
    equivalence_p,
    mcnemar_exact,
    wilcoxon_p,
)
from lazycore.experiments._power import minimum_detectable_effect
from lazycore.experiments._resampling import (
    bootstrap_means,
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
) -> PairedSummary:
    """Summarise paired differences, one per cluster.

    Args:
        differences: Candidate minus baseline per unit, seeds averaged.
        binary: Whether each single measurement is 0 or 1.
        one_seed: Whether no unit has more than one seed.
        margin: Equivalence margin, or None.
        confidence: Level of the interval.
        resamples: Bootstrap and permutation draws.
        seed: What the draws depend on.
    """
    units = len(differences)
    if units == 0:
        return PairedSummary()
    exact_pairs = (
        binary and one_seed and all(value in {-1.0, 0.0, 1.0} for value in differences)
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
            differences, resamples=resamples, rng=stream(*seed, "sign-flip")
        )
        p_value, p_method = flip.p_value, f"sign-flip permutation, {flip.method}"
    interval, interval_method = _interval(
        differences,
        binary=binary,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    spread = _spread(differences)
    return PairedSummary(
        difference=math.fsum(differences) / units,
        interval=interval,
        interval_method=interval_method,
        p_value=p_value,
        p_method=p_method,
        mcnemar_p=mcnemar,
        wilcoxon_p=wilcoxon_p(differences),
        equivalence_p=_equivalence(differences, binary=binary, margin=margin),
        detectable=minimum_detectable_effect(units, sd=spread) if spread else None,
    )


def _interval(
    differences: Sequence[float],
    *,
    binary: bool,
    confidence: float,
    resamples: int,
    seed: tuple[str, ...],
) -> tuple[tuple[float, float] | None, str]:
    units = len(differences)
    if len(set(differences)) > 1:
        if not worth_drawing(differences, resamples=resamples):
            limits = limit_interval(differences, confidence=confidence)
            return limits, "cluster bootstrap, limit of very many units"
        means = bootstrap_means(
            differences, resamples=resamples, rng=stream(*seed, "bootstrap")
        )
        interval = expanded_interval(means, units=units, confidence=confidence)
        return interval, f"cluster bootstrap, {resamples:,} draws"
    if binary and not any(differences):
        # No unit disagreed. The bootstrap would answer [0, 0]; the exact binomial
        # bound on the share of units that may disagree says how far 0 is known.
        reach = 1 - (1 - confidence) ** (1 / units)
        return (-reach, reach), "exact bound, no unit disagreed"
    return None, "none: every unit differed by the same amount"


def _equivalence(
    differences: Sequence[float], *, binary: bool, margin: float | None
) -> float | None:
    if margin is None:
        return None
    if binary and not any(differences):
        # The chance that no unit disagrees if a share as large as the margin does.
        return max(0.0, 1 - margin) ** len(differences)
    return equivalence_p(differences, margin=margin)


def _spread(differences: Sequence[float]) -> float:
    """Return the sample standard deviation, 0 where it is unknown."""
    units = len(differences)
    if len(set(differences)) < 2:
        return 0.0
    mean = math.fsum(differences) / units
    return math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (units - 1))

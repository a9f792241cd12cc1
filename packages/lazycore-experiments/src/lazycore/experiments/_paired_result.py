"""What a comparison found: one result per arm, benchmark and metric."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lazycore.experiments._verdict import Verdict, sentence

if TYPE_CHECKING:
    from lazycore.experiments._pairing import PairedUnit

__all__ = ["Comparison", "PairedResult", "Sensitivity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The same comparison under another treatment of failed or retried arms.

    Attributes:
        name: ``score``, ``drop-pair``, ``worst-case`` or ``without retried units``.
        units: Units that count.
        difference: Mean paired difference, or None without a unit.
        interval: Its interval, or None.
        p_value: p of "no difference", not corrected, or None.
        declared: Whether the study declared this policy: the verdict rests on it.
    """

    name: str
    units: int
    difference: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    declared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedResult:
    """One arm against the baseline on one benchmark and metric.

    Attributes:
        arm: Name of the arm.
        arm_title: What people read.
        benchmark: Benchmark id as in the rows.
        benchmark_title: What people read.
        metric: Metric name.
        metric_title: What people read.
        kind: ``binary`` or ``real``.
        goal: ``maximize`` or ``minimize``.
        primary: Whether it belongs to the declared family.
        verdict: What was shown; of a metric that is not primary, exploratory.
        units: Units that count.
        clusters: What is resampled: the units, or the declared groups they are in.
        grouped: Whether the study declares groups for this benchmark.
        seeds: Replicates inside a unit.
        failed_pairs: Pairs in which an arm failed.
        baseline_mean: Mean over the units.
        candidate_mean: Mean over the units.
        difference: Candidate minus baseline, whatever the goal.
        interval: Cluster-bootstrap interval of the difference, or None.
        confidence: Level of the interval; where looks are declared, the level at
            which the intervals of all looks hold together.
        interval_method: How the interval was made.
        p_value: p of "no difference", or None without a unit.
        p_adjusted: The same corrected: Holm over the primaries, scaled to what the
            look may spend where looks are declared; Benjamini-Hochberg over the rest.
        p_method: How the p was made.
        mcnemar_p: Exact McNemar p of a one-seed binary metric, or None.
        wilcoxon_p: Secondary signed-rank p, or None.
        wins: Units on which the arm was better.
        ties: Units without a difference.
        losses: Units on which the arm was worse.
        margin: Declared equivalence margin, or None.
        equivalence_p: p of "as large as the margin", Holm-corrected, or None.
        within_margin: Whether that p is at most alpha.
        detectable: Difference that so many units with this spread show with 80 %
            power at the level 0.05 of one comparison, or None.
        sensitivity: Other treatments of failed and retried arms.
        paired: The units behind it.
    """

    arm: str
    arm_title: str
    benchmark: str
    benchmark_title: str
    metric: str
    metric_title: str
    kind: str
    goal: str
    primary: bool
    verdict: Verdict
    units: int
    clusters: int
    grouped: bool
    seeds: int
    failed_pairs: int
    baseline_mean: float | None
    candidate_mean: float | None
    difference: float | None
    interval: tuple[float, float] | None
    confidence: float
    interval_method: str
    p_value: float | None
    p_adjusted: float | None
    p_method: str
    mcnemar_p: float | None
    wilcoxon_p: float | None
    wins: int
    ties: int
    losses: int
    margin: float | None
    equivalence_p: float | None
    within_margin: bool
    detectable: float | None
    sensitivity: tuple[Sensitivity, ...]
    paired: tuple[PairedUnit, ...]

    @property
    def sentence(self) -> str:
        """The verdict with its evidence."""
        return sentence(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All comparisons of a run.

    Attributes:
        results: Primary comparisons first, in the study's order.
        headline: One sentence over the primaries.
        interim: Whether the run is not complete.
        look: The declared look that was reached, from 1, 0 before the first, or None
            where none is declared. Only what it sees is compared.
        looks: How many are declared, the end of the run included.
        alpha: Level of the family.
        failed_arms: The declared policy.
        resamples: Bootstrap and permutation draws.
    """

    results: tuple[PairedResult, ...]
    headline: str
    interim: bool
    look: int | None
    looks: int
    alpha: float
    failed_arms: str
    resamples: int

    @property
    def tentative(self) -> bool:
        """Whether no p holds its level: a look that nobody declared."""
        return self.interim and not self.look

    @property
    def primary(self) -> tuple[PairedResult, ...]:
        """The comparisons that the headline rests on."""
        return tuple(result for result in self.results if result.primary)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the units as JSON-able data."""
        results = []
        for result in self.results:
            document = asdict(replace(result, paired=()))
            del document["paired"]
            document["verdict"] = result.verdict.value
            document["sentence"] = result.sentence
            results.append(document)
        return {
            "headline": self.headline,
            "interim": self.interim,
            "look": self.look,
            "looks": self.looks,
            "alpha": self.alpha,
            "failed_arms": self.failed_arms,
            "resamples": self.resamples,
            "results": results,
        }

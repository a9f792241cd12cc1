"""Units that were sampled together count as one cluster, whatever its size."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from lazycore.experiments._clusters import cluster
from lazycore.experiments._paired_summary import PairedSummary, summarise
from lazycore.experiments._resampling import bootstrap_ratios


def summary(values: list[float], groups: list[str] | None) -> PairedSummary:
    return summarise(
        values,
        binary=True,
        one_seed=True,
        margin=0.2,
        confidence=0.95,
        resamples=999,
        seed=("clusters",),
        groups=groups,
    )


def test_copies_of_a_unit_add_no_evidence() -> None:
    values = [1.0, 0.0, 1.0, -1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    groups = [f"g{i}" for i in range(len(values)) for _ in range(7)]
    copied = [value for value in values for _ in range(7)]
    one, many = summary(values, None), summary(copied, groups)
    assert many.clusters == one.clusters == 10
    assert many.interval == one.interval
    assert many.p_value == one.p_value == pytest.approx(16 / 128)
    assert many.equivalence_p == pytest.approx(one.equivalence_p)
    assert many.detectable == pytest.approx(one.detectable)
    # McNemar's test would count copies; it is for units alone.
    assert one.mcnemar_p is not None
    assert many.mcnemar_p is None
    careless = summary(copied, None)
    assert careless.p_value is not None
    assert careless.p_value < 0.001


def test_sign_flips_turn_whole_groups() -> None:
    values, groups = [1.0, 1.0, 0.5, 2.0, 1.0, 1.0], ["a", "a", "b", "c", "c", "c"]
    found = summary(values, groups)
    sums = (2.0, 0.5, 4.0)
    hits = sum(
        abs(sum(s * v for s, v in zip(signs, sums, strict=True))) >= sum(sums)
        for signs in itertools.product((1, -1), repeat=3)
    )
    assert found.p_value == hits / 8
    assert found.p_method == "sign-flip permutation, exact"


def test_groups_of_unequal_size_weigh_by_their_units() -> None:
    found = cluster([1.0, 1.0, 1.0, 0.0, 0.5], ["a", "a", "a", "b", "c"])
    assert found.sums == (3.0, 0.0, 0.5)
    assert found.sizes == (3, 1, 1)
    assert not found.even
    # The values have the mean over units, and the spread of the ratio of two sums.
    assert math.fsum(found.values) / 3 == pytest.approx(3.5 / 5)
    assert found.values[0] == pytest.approx(0.7 + (3 - 3 * 0.7) * 3 / 5)


def test_spread_equals_cluster_robust_least_squares() -> None:
    linear_model = pytest.importorskip(
        "statsmodels.regression.linear_model", reason="statsmodels is not installed"
    )
    draw = random.Random(3)
    values, groups = [], []
    for group in range(40):
        shared = draw.gauss(0, 1)
        for _ in range(draw.randint(1, 6)):
            values.append(shared + draw.gauss(0.3, 1))
            groups.append(f"g{group}")
    numbers = [int(group[1:]) for group in groups]
    fit = linear_model.OLS(values, [1.0] * len(values)).fit(
        cov_type="cluster",
        cov_kwds={"groups": numbers, "use_correction": False, "df_correction": False},
    )
    found = cluster(values, groups)
    mean = math.fsum(found.values) / 40
    error = math.sqrt(math.fsum((v - mean) ** 2 for v in found.values)) / 40
    assert mean == pytest.approx(float(fit.params[0]))
    assert error == pytest.approx(float(fit.bse[0]))


def test_bootstrap_of_unequal_groups_is_centred_and_repeats() -> None:
    sums, sizes = [3.0, 0.0, 0.5, 1.5], [3, 1, 1, 2]
    means = bootstrap_ratios(sums, sizes, resamples=2_000, rng=random.Random(1))
    again = bootstrap_ratios(
        sums[::-1], sizes[::-1], resamples=2_000, rng=random.Random(1)
    )
    assert means == again == sorted(means)
    assert means[0] >= 0.0
    assert means[-1] <= 1.0


def test_groups_without_a_difference_bound_it_by_the_largest_group() -> None:
    even = summary([0.0] * 40, [f"g{i % 20}" for i in range(40)])
    reach = 1 - 0.05 ** (1 / 20)
    assert even.interval == pytest.approx((-reach, reach))
    assert even.interval_method == "exact bound, no group differed"
    groups = ["big"] * 21 + [f"g{i}" for i in range(19)]
    uneven = summary([0.0] * 40, groups)
    assert uneven.interval is not None
    assert even.interval is not None
    assert uneven.interval[1] == 1.0 > even.interval[1]


def simulate(studies: int, resamples: int) -> tuple[float, float, float]:
    """Return how often studies of nothing reject, cover, and reject without groups."""
    rejected = covered = careless = 0
    for study in range(studies):
        draw = random.Random(f"groups {study}")
        values: list[float] = []
        groups: list[str] = []
        for group in range(40):
            shared = draw.gauss(0, 1)
            size = draw.randint(2, 8)
            values += [shared + draw.gauss(0, 1) for _ in range(size)]
            groups += [f"g{group}"] * size

        def found(
            names: list[str] | None, values: list[float] = values, study: int = study
        ) -> PairedSummary:
            return summarise(
                values,
                binary=False,
                one_seed=False,
                margin=None,
                confidence=0.95,
                resamples=resamples,
                seed=(str(study),),
                groups=names,
            )

        grouped, single = found(groups), found(None)
        assert grouped.p_value is not None
        assert single.p_value is not None
        assert grouped.interval is not None
        rejected += grouped.p_value <= 0.05
        careless += single.p_value <= 0.05
        covered += grouped.interval[0] <= 0 <= grouped.interval[1]
    return rejected / studies, covered / studies, careless / studies


@pytest.mark.once
def test_grouped_studies_of_nothing_keep_their_level() -> None:
    rejected, covered, careless = simulate(25, 199)
    assert rejected <= 0.15
    assert covered >= 0.85
    assert careless > 2 * rejected


@pytest.mark.slow
def test_two_thousand_grouped_studies_of_nothing() -> None:
    rejected, covered, careless = simulate(2_000, 399)
    assert 0.035 <= rejected <= 0.065
    assert 0.93 <= covered <= 0.97
    assert careless > 0.2

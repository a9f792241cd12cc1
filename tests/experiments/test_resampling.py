from __future__ import annotations

import math
from inspect import signature
from itertools import product

import pytest

from lazycore.experiments._resampling import (
    bootstrap_means,
    expanded_interval,
    limit_interval,
    sign_flip,
    stream,
    worth_drawing,
)


def test_the_same_parts_give_the_same_numbers_on_any_python() -> None:
    # Written down once: a change here changes every published interval.
    drawn = stream("lock", "candidate")
    assert [round(drawn.random(), 12) for _ in range(3)] == [
        0.927144420881,
        0.537084013359,
        0.77552931001,
    ]


def test_parts_do_not_run_into_each_other() -> None:
    assert stream("ab", "c").random() != stream("a", "bc").random()


def test_every_assignment_of_five_signs_is_counted() -> None:
    # By hand: of 2**5 sums of +-1, +-2, +-3, +-4, +-5, those at least as far from 0
    # as 1+2+3+4-5 = 5 are counted by brute force below.
    values = [1.0, 2.0, 3.0, 4.0, -5.0]
    sums = [
        sum(sign * abs(value) for sign, value in zip(signs, values, strict=True))
        for signs in product((1, -1), repeat=5)
    ]
    expected = sum(abs(total) >= 5 for total in sums) / 32
    found = sign_flip(values, resamples=10, rng=stream("x"))
    assert found.method == "exact"
    assert found.p_value == expected


@pytest.mark.parametrize(
    ("values", "p_value"),
    [
        pytest.param([], 1.0, id="nothing"),
        pytest.param([0.0, 0.0], 1.0, id="no difference anywhere"),
        pytest.param([2.0], 1.0, id="one unit can't show anything"),
        pytest.param([1.0] * 5, 2 / 32, id="five equal gains"),
        pytest.param([1.0] * 6 + [0.0] * 50, 2 / 64, id="ties say nothing"),
        pytest.param([0.1, 0.2, -0.3], 1.0, id="sums equal but for their last bits"),
    ],
)
def test_small_permutation_tests_are_exact(values: list[float], p_value: float) -> None:
    assert sign_flip(values, resamples=10, rng=stream("x")).p_value == p_value


def test_no_monte_carlo_p_is_zero() -> None:
    found = sign_flip([1.0] * 400, resamples=99, rng=stream("x"))
    assert found.method == "99 draws"
    assert found.p_value == 1 / 100


def test_draws_by_counts_and_one_by_one_agree_with_the_exact_distribution() -> None:
    # 40 gains and 20 losses of size 1: the exact p is McNemar's.
    exact = 2 * sum(math.comb(60, k) for k in range(21)) / 2**60
    lattice = [1.0] * 40 + [-1.0] * 20
    by_counts = sign_flip(lattice, resamples=20_000, rng=stream("a"))
    # Values that are all different in the ninth digit take the other road.
    spread = [v * (1 + 1e-9 * i) for i, v in enumerate(lattice)]
    one_by_one = sign_flip(spread, resamples=20_000, rng=stream("b"))
    error = 4 * math.sqrt(exact / 20_000)
    assert by_counts.p_value == pytest.approx(exact, abs=error)
    # Without exact ties only half of the assignments at the edge count.
    edge = math.comb(60, 20) / 2**60
    assert exact - edge - error < one_by_one.p_value < exact + error


@pytest.mark.parametrize(
    "resamples", [5_000, pytest.param(20_000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1.0] * 30 + [0.0] * 60 + [-1.0] * 10, id="by counts"),
        pytest.param([math.sin(i) for i in range(100)], id="one by one"),
    ],
)
def test_bootstrap_has_the_mean_and_the_error_of_the_data(
    values: list[float], resamples: int
) -> None:
    means = bootstrap_means(values, resamples=resamples, rng=stream("x"))
    mean = sum(values) / 100
    variance = sum((value - mean) ** 2 for value in values) / 100**2
    found = sum(means) / len(means)
    found_variance = sum((value - found) ** 2 for value in means) / len(means)
    assert means == sorted(means)
    assert found == pytest.approx(mean, abs=5 * math.sqrt(variance / resamples))
    assert found_variance == pytest.approx(variance, rel=0.05)


def test_the_order_of_units_does_not_matter() -> None:
    for values in ([0.0] * 20 + [1.0] * 3, [0.3, 0.1, 0.2]):
        forward = bootstrap_means(values, resamples=50, rng=stream("x"))
        assert bootstrap_means(values[::-1], resamples=50, rng=stream("x")) == forward


def test_interval_of_few_units_is_wider_than_the_percentiles() -> None:
    means = [float(i) for i in range(999)]
    low, high = expanded_interval(means, units=10, confidence=0.95)
    plain_low, plain_high = expanded_interval(means, units=10**6, confidence=0.95)
    assert (plain_low, plain_high) == (23.0, 975.0)
    assert low < plain_low
    assert high > plain_high
    assert low == 998 - high


def test_two_units_give_the_whole_range() -> None:
    means = bootstrap_means([0.0, 1.0], resamples=200, rng=stream("x"))
    assert expanded_interval(means, units=2, confidence=0.95) == (0.0, 1.0)


@pytest.mark.parametrize("units", [200, pytest.param(600, marks=pytest.mark.slow)])
def test_the_limit_is_where_the_draws_go(units: int) -> None:
    draw = stream("long tail")
    values = [-math.log(1 - draw.random()) for _ in range(units)]
    means = bootstrap_means(values, resamples=6_000, rng=stream("x"))
    drawn = expanded_interval(means, units=10**6, confidence=0.95)
    limits = limit_interval(values, confidence=0.95)
    width = drawn[1] - drawn[0]
    assert limits == pytest.approx(drawn, abs=0.03 * width)


def test_very_many_units_take_no_longer_than_many() -> None:
    draw = stream("many")
    values = [draw.gauss(0.01, 1.0) for _ in range(30_000)]
    assert not worth_drawing(values, resamples=10_000)
    found = sign_flip(values, resamples=10_000, rng=stream("x"))
    assert found.method == "normal limit"
    error = math.sqrt(sum(value * value for value in values))
    expected = math.erfc(abs(sum(values)) / error / math.sqrt(2))
    assert found.p_value == pytest.approx(expected, rel=1e-9)


def test_limits_never_beat_the_smallest_p_of_the_draws() -> None:
    values = [1.0 + 1e-6 * i for i in range(30_000)]
    assert sign_flip(values, resamples=9_999, rng=stream("x")).p_value == 1e-4


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([float(i % 5) for i in range(40_000)], id="few distinct values"),
        pytest.param(
            [0.001 * i for i in range(40_000)] + [1e6], id="one value dominates"
        ),
        pytest.param([0.1 * i for i in range(3_000)], id="few enough"),
    ],
)
def test_draws_are_kept_where_the_limit_is_not_needed_or_not_there(
    values: list[float],
) -> None:
    assert worth_drawing(values, resamples=10_000)


@pytest.mark.once
def test_bootstrap_error_equals_scipys() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    values = [math.sin(i) + 0.2 for i in range(200)]
    ours = bootstrap_means(values, resamples=9_999, rng=stream("x"))
    low, high = expanded_interval(ours, units=200, confidence=0.95)
    seed_name = (
        "rng" if "rng" in signature(stats.bootstrap).parameters else "random_state"
    )
    theirs = stats.bootstrap(
        (numpy.array(values),),
        numpy.mean,
        n_resamples=9_999,
        method="percentile",
        # Older releases call `rng` by its former name.
        **{seed_name: numpy.random.default_rng(0)},
    ).confidence_interval
    width = high - low
    assert low == pytest.approx(float(theirs.low), abs=0.04 * width)
    assert high == pytest.approx(float(theirs.high), abs=0.04 * width)


def test_permutation_p_equals_scipys() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    values = numpy.array([0.3, -0.1, 0.9, 0.4, 0.2, -0.5, 0.7, 1.1, 0.25, 0.05])
    theirs = stats.permutation_test(
        (values,),
        numpy.mean,
        permutation_type="samples",
        n_resamples=numpy.inf,
    )
    ours = sign_flip(values.tolist(), resamples=10, rng=stream("x"))
    assert ours.p_value == pytest.approx(float(theirs.pvalue))

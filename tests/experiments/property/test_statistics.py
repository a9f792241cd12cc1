from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lazycore.experiments._multiplicity import benjamini_hochberg, holm
from lazycore.experiments._numbers import amount, duration
from lazycore.experiments._paired_summary import PairedSummary, summarise
from lazycore.experiments._paired_tests import mcnemar_exact, wilcoxon_p
from lazycore.experiments._resampling import sign_flip, stream
from lazycore.experiments._student import student_cdf, student_quantile

differences = st.lists(
    st.integers(-6, 6).map(lambda value: value / 3), min_size=1, max_size=40
)
p_values = st.lists(st.floats(0, 1), max_size=20)

# The suite runs often, and on new values each time; the slow test draws many at once.
FEW = settings(max_examples=25, deadline=None)
MANY = settings(max_examples=500, deadline=None)


def summary(values: list[float]) -> PairedSummary:
    return summarise(
        values,
        binary=False,
        one_seed=False,
        margin=0.5,
        confidence=0.95,
        resamples=199,
        seed=("x",),
    )


@FEW
@given(differences)
def test_swapping_the_arms_turns_the_sign_and_nothing_else(
    values: list[float],
) -> None:
    found, swapped = summary(values), summary([-value for value in values])
    assert found.difference is not None
    assert swapped.difference == -found.difference
    assert swapped.p_value == found.p_value
    assert swapped.wilcoxon_p == found.wilcoxon_p
    assert swapped.equivalence_p == found.equivalence_p


@FEW
@given(differences, st.randoms(use_true_random=False))
def test_the_order_of_the_units_changes_nothing(
    values: list[float], shuffler: object
) -> None:
    shuffled = list(values)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis' own Random
    found, again = summary(values), summary(shuffled)
    assert again.interval == found.interval
    assert again.p_value == found.p_value


@FEW
@given(differences)
def test_an_interval_lies_within_the_data_and_around_the_mean(
    values: list[float],
) -> None:
    found = summary(values)
    assert found.p_value is not None
    assert 0 < found.p_value <= 1
    if found.interval is None:
        assert len(set(values)) == 1
        return
    low, high = found.interval
    assert found.difference is not None
    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), max_size=12))
def test_sign_flips_of_binary_pairs_are_mcnemars_test(values: list[float]) -> None:
    flip = sign_flip(values, resamples=10, rng=stream("x"))
    gained, lost = values.count(1.0), values.count(-1.0)
    assert flip.method == "exact"
    assert flip.p_value == mcnemar_exact(gained, lost)


@given(st.lists(st.floats(-10, 10, allow_subnormal=False), max_size=60))
def test_wilcoxon_is_a_probability_and_symmetric(values: list[float]) -> None:
    found = wilcoxon_p(values)
    assert 0 <= found <= 1
    assert math.isclose(wilcoxon_p([-value for value in values]), found)


@given(p_values)
def test_corrections_never_lower_a_p_and_keep_their_order(values: list[float]) -> None:
    strict, rate = holm(values), benjamini_hochberg(values)
    for raw, one, two in zip(values, strict, rate, strict=True):
        assert raw <= two <= 1 or math.isclose(raw, two)
        assert two <= one <= 1 or math.isclose(one, two)
    by_raw = sorted(range(len(values)), key=lambda index: values[index])
    for adjusted in (strict, rate):
        ordered = [adjusted[index] for index in by_raw]
        assert ordered == sorted(ordered)


@given(st.floats(0.001, 0.999), st.integers(1, 500))
def test_quantile_is_the_inverse_of_the_distribution(
    probability: float, degrees: int
) -> None:
    at = student_quantile(probability, degrees=degrees)
    assert math.isclose(student_cdf(at, degrees=degrees), probability, abs_tol=1e-9)


@given(st.floats(-1e12, 1e12), st.sampled_from(["binary", "real"]))
def test_a_written_difference_reads_back(value: float, kind: str) -> None:
    shown = amount(value, kind=kind).removesuffix(" pp").replace("\N{MINUS SIGN}", "-")
    read = float(shown) / (100 if kind == "binary" else 1)
    tolerance = 0.0006 if kind == "binary" else abs(value) * 0.006
    assert math.isclose(read, value, rel_tol=1e-9, abs_tol=tolerance)
    assert not (shown.startswith("-") and read == 0)


@given(st.floats(0, 1e7))
def test_a_duration_has_a_unit(seconds: float) -> None:
    assume(seconds == 0 or seconds > 1e-9)
    assert duration(seconds).endswith((" ms", " s", " min"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    [
        test_swapping_the_arms_turns_the_sign_and_nothing_else,
        test_an_interval_lies_within_the_data_and_around_the_mean,
    ],
)
def test_many_differences_hold_too(check: Any) -> None:
    given(differences)(MANY(check.hypothesis.inner_test))()


@pytest.mark.slow
def test_the_order_of_many_units_changes_nothing() -> None:
    check: Any = test_the_order_of_the_units_changes_nothing
    shuffler = st.randoms(use_true_random=False)
    given(differences, shuffler)(MANY(check.hypothesis.inner_test))()

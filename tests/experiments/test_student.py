from __future__ import annotations

import pytest

from lazycore.experiments._student import student_cdf, student_quantile


# Two-sided 5 % and one-sided 1 % points as every printed table of t has them.
@pytest.mark.parametrize(
    ("probability", "degrees", "value"),
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 5, 2.571),
        (0.975, 10, 2.228),
        (0.975, 30, 2.042),
        (0.975, 120, 1.980),
        (0.99, 4, 3.747),
        (0.95, 9, 1.833),
    ],
)
def test_quantiles_equal_the_printed_table(
    probability: float, degrees: int, value: float
) -> None:
    assert student_quantile(probability, degrees=degrees) == pytest.approx(
        value, abs=6e-4
    )


def test_one_degree_of_freedom_is_the_cauchy_distribution() -> None:
    assert student_cdf(1.0, degrees=1) == pytest.approx(0.75, abs=1e-12)


def test_quantile_and_distribution_are_inverse_and_symmetric() -> None:
    for degrees in (1, 3, 17, 400):
        at = student_quantile(0.2, degrees=degrees)
        assert student_cdf(at, degrees=degrees) == pytest.approx(0.2, abs=1e-10)
        assert student_quantile(0.8, degrees=degrees) == pytest.approx(-at)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, float("nan")])
def test_a_probability_outside_its_range_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        student_quantile(probability, degrees=3)


def test_distribution_equals_scipys() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    for degrees in (1, 2, 7, 56, 1796):
        for value in (-9.0, -1.3, -0.01, 0.0, 0.4, 2.2, 30.0):
            assert student_cdf(value, degrees=degrees) == pytest.approx(
                float(stats.t.cdf(value, degrees)), rel=1e-9, abs=1e-12
            )

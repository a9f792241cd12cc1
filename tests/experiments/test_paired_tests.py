from __future__ import annotations

import math

import pytest

from lazycore.experiments._paired_tests import (
    equivalence_p,
    mcnemar_exact,
    wilcoxon_p,
)

# Darwin's maize, in eighths of an inch: crossed minus self-fertilised, as Fisher
# printed it (The Design of Experiments, 1935, section 17).
DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


@pytest.mark.parametrize(
    ("gained", "lost", "p_value"),
    [
        pytest.param(0, 0, 1.0, id="no pair disagrees"),
        pytest.param(1, 0, 1.0, id="one pair"),
        pytest.param(5, 0, 2 / 32, id="five to none"),
        pytest.param(9, 1, 22 / 1024, id="nine to one: 2 (1 + 10) / 2**10"),
        pytest.param(1, 9, 22 / 1024, id="one to nine"),
        pytest.param(4, 4, 1.0, id="balanced"),
    ],
)
def test_mcnemar_equals_the_table_by_hand(
    gained: int, lost: int, p_value: float
) -> None:
    assert mcnemar_exact(gained, lost) == p_value


def test_mcnemar_of_many_pairs_neither_overflows_nor_is_negative() -> None:
    assert 0 <= mcnemar_exact(9_000, 12) < 1e-300
    assert mcnemar_exact(5_000, 5_000) == 1.0


def test_mcnemar_equals_statsmodels() -> None:
    tables = pytest.importorskip(
        "statsmodels.stats.contingency_tables", reason="statsmodels is not installed"
    )
    for gained, lost in ((12, 3), (3, 12), (40, 25), (1, 1), (0, 7)):
        theirs = tables.mcnemar([[50, gained], [lost, 20]], exact=True).pvalue
        assert mcnemar_exact(gained, lost) == pytest.approx(float(theirs))


def test_wilcoxon_of_darwins_maize_is_the_published_value() -> None:
    # Ranks of the negative differences sum to 24 (10 and 14): of 2**15 assignments
    # 2 * 676 are as far out.
    assert wilcoxon_p([float(value) for value in DARWIN]) == pytest.approx(
        0.041259765625
    )


@pytest.mark.parametrize(
    ("values", "p_value"),
    [
        pytest.param([], 1.0, id="nothing"),
        pytest.param([0.0] * 4, 1.0, id="ties only"),
        pytest.param([1.0, 2.0, 3.0, 4.0, 5.0], 2 / 32, id="five gains"),
        pytest.param([1.0, 2.0, -3.0], 1.0, id="ranks balance"),
    ],
)
def test_wilcoxon_of_few_differences_is_exact(
    values: list[float], p_value: float
) -> None:
    assert wilcoxon_p(values) == p_value


@pytest.mark.once
def test_wilcoxon_equals_scipys_exact_and_asymptotic() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    without_ties = [math.sin(i) + 0.3 for i in range(30)]
    theirs = stats.wilcoxon(without_ties, method="exact").pvalue
    assert wilcoxon_p(without_ties) == pytest.approx(float(theirs))
    with_ties = [(-1, 0, 1, 1, 2, 3, 1)[i % 7] / 3 for i in range(200)]
    theirs = stats.wilcoxon(
        with_ties, method="approx", correction=False, zero_method="wilcox"
    ).pvalue
    assert wilcoxon_p(with_ties) == pytest.approx(float(theirs))


def test_equivalence_by_hand() -> None:
    # Mean 0, sample sd 1, five units: t = -2 / (1 / sqrt 5) = -4.472 with 4 degrees.
    values = [-math.sqrt(2), 0.0, 0.0, 0.0, math.sqrt(2)]
    assert equivalence_p(values, margin=2.0) == pytest.approx(0.00553, abs=1e-4)


@pytest.mark.parametrize(
    "values",
    [[], [0.3], [0.3, 0.3, 0.3]],
    ids=["nothing", "one unit", "no spread"],
)
def test_equivalence_without_a_known_spread_is_not_claimed(values: list[float]) -> None:
    assert equivalence_p(values, margin=10.0) is None


def test_equivalence_equals_statsmodels() -> None:
    weightstats = pytest.importorskip(
        "statsmodels.stats.weightstats", reason="statsmodels is not installed"
    )
    one = [math.sin(i) for i in range(40)]
    two = [math.sin(i) + 0.1 * math.cos(7 * i) + 0.02 for i in range(40)]
    theirs = weightstats.ttost_paired(
        weightstats.np.array(two), weightstats.np.array(one), -0.05, 0.05
    )[0]
    ours = equivalence_p([b - a for a, b in zip(one, two, strict=True)], margin=0.05)
    assert ours == pytest.approx(float(theirs))

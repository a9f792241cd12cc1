from __future__ import annotations

import pytest

from lazycore.experiments._multiplicity import benjamini_hochberg, holm

P_VALUES = [0.01, 0.04, 0.03, 0.005]


def test_holm_by_hand() -> None:
    # Sorted 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1, each at least the one before.
    assert holm(P_VALUES) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_benjamini_hochberg_by_hand() -> None:
    # Sorted 0.005 x 4/1, 0.01 x 4/2, 0.03 x 4/3, 0.04 x 4/4, each at most the next.
    assert benjamini_hochberg(P_VALUES) == pytest.approx((0.02, 0.04, 0.04, 0.02))


@pytest.mark.parametrize("correct", [holm, benjamini_hochberg])
def test_nothing_and_one_value_stay_as_they_are(correct: object) -> None:
    assert callable(correct)
    assert correct([]) == ()
    assert correct([0.2]) == (0.2,)
    assert correct([1.0, 1.0]) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("correct", "method"), [(holm, "holm"), (benjamini_hochberg, "fdr_bh")]
)
def test_corrections_equal_statsmodels(correct: object, method: str) -> None:
    multitest = pytest.importorskip(
        "statsmodels.stats.multitest", reason="statsmodels is not installed"
    )
    assert callable(correct)
    values = [0.001, 0.2, 0.04, 0.04, 0.9, 0.013, 1.0, 0.0004]
    theirs = multitest.multipletests(values, method=method)[1]
    assert correct(values) == pytest.approx([float(p) for p in theirs])

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import Study
from lazycore.experiments._power import (
    minimum_detectable_effect,
    plan_lines,
    smallest_p,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_effect_by_hand() -> None:
    # z of 0.975 and z of 0.8 sum to 2.801585; ten is the root of a hundred units.
    assert minimum_detectable_effect(100) == pytest.approx(0.2801585)
    assert minimum_detectable_effect(100, sd=0.5) == pytest.approx(0.1400793)


@pytest.mark.parametrize(
    "wrong",
    [{"units": 0}, {"sd": 0.0}, {"alpha": 1.0}, {"power": 0.0}],
    ids=["no unit", "no spread", "alpha", "power"],
)
def test_arguments_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    options = {"units": 10, **wrong}
    units = int(options.pop("units"))
    with pytest.raises(ValueError, match="give at least 1 unit"):
        minimum_detectable_effect(units, **options)


def test_effect_equals_statsmodels() -> None:
    power = pytest.importorskip(
        "statsmodels.stats.power", reason="statsmodels is not installed"
    )
    for units in (50, 200, 1500):
        theirs = power.NormalIndPower(ddof=0).solve_power(
            nobs1=units, alpha=0.05, power=0.8, ratio=0
        )
        ours = minimum_detectable_effect(units)
        assert ours == pytest.approx(float(theirs), rel=1e-4)


def test_smallest_p_halves_with_each_unit() -> None:
    assert [smallest_p(units) for units in (1, 2, 6)] == [1.0, 0.5, 2 / 64]


def test_plan_says_that_too_few_units_cannot_show_anything(
    write_study: Callable[..., Path],
) -> None:
    study = Study.load(write_study(units=["a", "b", "c"]))
    (line,) = plan_lines(study)
    assert "3 units can't show anything: the smallest possible p is 0.25" in line


def test_plan_names_what_enough_units_show(
    write_study: Callable[..., Path],
) -> None:
    study = Study.load(write_study(units=[f"u{i}" for i in range(100)]))
    (line,) = plan_lines(study)
    effect = minimum_detectable_effect(100)
    assert f"show {effect:.2g} standard deviations" in line
    assert math.isclose(effect, 0.28, abs_tol=0.001)

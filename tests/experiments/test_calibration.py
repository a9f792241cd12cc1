"""Run the statistics on worlds whose truth is known and count how often they err."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments._paired_summary import summarise
from lazycore.experiments._paired_tests import equivalence_p

if TYPE_CHECKING:
    from collections.abc import Callable

# A binary metric needs more units before its few distinct sums stop mattering.
UNITS = {"binary_unit": 200, "real_unit": 60, "skewed_unit": 60}
SEEDS = 3


def binary_unit(draw: random.Random, effect: float) -> float:
    """Return one unit's difference: both arms succeed as often as the unit allows."""
    ease = draw.uniform(0.2, 0.8)
    one = sum(draw.random() < ease for _ in range(SEEDS))
    two = sum(draw.random() < ease + effect for _ in range(SEEDS))
    return (two - one) / SEEDS


def real_unit(draw: random.Random, effect: float) -> float:
    """Return one unit's difference with normal noise."""
    return draw.gauss(effect, 1.0)


def skewed_unit(draw: random.Random, effect: float) -> float:
    """Return one unit's difference with an exponential's long tail, mean `effect`."""
    return effect + draw.expovariate(1.0) - 1.0


@dataclass(frozen=True)
class Rates:
    rejected: float
    covered: float
    claimed_equivalent: float


def simulate(
    unit: Callable[[random.Random, float], float],
    *,
    effect: float,
    studies: int,
    resamples: int = 399,
    margin: float | None = None,
) -> Rates:
    rejected = covered = equivalent = 0
    for study in range(studies):
        draw = random.Random(f"{unit.__name__} {effect} {study}")
        values = [unit(draw, effect) for _ in range(UNITS[unit.__name__])]
        found = summarise(
            values,
            binary=unit is binary_unit,
            one_seed=False,
            margin=None,
            confidence=0.95,
            resamples=resamples,
            seed=(str(study),),
        )
        assert found.p_value is not None
        assert found.interval is not None
        rejected += found.p_value <= 0.05
        covered += found.interval[0] <= effect <= found.interval[1]
        if margin is not None:
            p_value = equivalence_p(values, margin=margin)
            equivalent += p_value is not None and p_value <= 0.05
    return Rates(rejected / studies, covered / studies, equivalent / studies)


WORLDS = [
    pytest.param(binary_unit, id="binary, three seeds"),
    pytest.param(real_unit, id="normal"),
]


@pytest.mark.parametrize("unit", WORLDS)
@pytest.mark.once
def test_a_against_a_few_studies(unit: Callable[[random.Random, float], float]) -> None:
    rates = simulate(unit, effect=0.0, studies=60, resamples=199)
    assert 0 < rates.rejected <= 0.12
    assert rates.covered >= 0.90


@pytest.mark.slow
@pytest.mark.parametrize("unit", WORLDS)
def test_a_against_a_rejects_one_in_twenty(
    unit: Callable[[random.Random, float], float],
) -> None:
    rates = simulate(unit, effect=0.0, studies=2_000)
    assert 0.035 <= rates.rejected <= 0.065
    assert 0.93 <= rates.covered <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("unit", [*WORLDS, pytest.param(skewed_unit, id="long tail")])
def test_intervals_cover_a_true_effect(
    unit: Callable[[random.Random, float], float],
) -> None:
    rates = simulate(unit, effect=0.15, studies=2_000)
    assert 0.93 <= rates.covered <= 0.97


@pytest.mark.slow
def test_equivalence_is_rarely_claimed_where_the_margin_is_reached() -> None:
    rates = simulate(real_unit, effect=0.5, studies=2_000, margin=0.5)
    assert rates.claimed_equivalent <= 0.065

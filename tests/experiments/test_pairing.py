from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lazycore.experiments._pairing import (
    FailedArms,
    index_rows,
    pair_cells,
    pair_units,
)
from lazycore.experiments._study import Metric

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import RunRecord

    MakeRecord = Callable[..., RunRecord]

# Unit b's candidate failed with seed 1; both arms failed on unit c.
VALUES = {
    "bench": {
        "a": [(0.0, 1.0), (1.0, 1.0)],
        "b": [(1.0, 1.0), (1.0, None)],
        "c": [(None, None), (None, 1.0)],
    }
}


def differences(
    record: RunRecord, metric: Metric, policy: FailedArms
) -> dict[str, float]:
    arms = index_rows(record.rows)["bench", metric.name]
    units = pair_units(arms["no_op"], arms["candidate"], metric, policy)
    return {unit.unit: unit.difference for unit in units}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(FailedArms.SCORE, {"a": 0.5, "b": -0.25, "c": 0.25}, id="score"),
        pytest.param(FailedArms.DROP_PAIR, {"a": 0.5, "b": 0.0}, id="drop"),
        pytest.param(
            FailedArms.WORST_CASE, {"a": 0.5, "b": -1.0, "c": 1.0}, id="worst"
        ),
    ],
)
def test_each_policy_by_hand(
    make_record: MakeRecord, policy: FailedArms, expected: dict[str, float]
) -> None:
    metric = Metric(name="score", title="", failed_value=0.5, worst_value=-1.0)
    found = differences(make_record(VALUES, metric=metric), metric, policy)
    assert found == expected


@pytest.mark.parametrize(
    ("goal", "worst"), [("maximize", 2.0), ("minimize", 9.0)], ids=["max", "min"]
)
def test_the_worst_case_is_the_worst_anyone_got(
    make_record: MakeRecord, goal: str, worst: float
) -> None:
    metric = Metric(name="score", title="", goal=goal, failed_value=None)
    values = {"bench": {"a": [(2.0, 9.0)], "b": [(5.0, None)]}}
    found = differences(
        make_record(values, metric=metric), metric, FailedArms.WORST_CASE
    )
    assert found["b"] == worst - 5.0


def test_a_metric_without_a_failed_value_drops_the_pair(
    make_record: MakeRecord,
) -> None:
    metric = Metric(name="score", title="", goal="minimize", failed_value=None)
    record = make_record(VALUES, metric=metric)
    assert differences(record, metric, FailedArms.SCORE) == {"a": 0.5, "b": 0.0}


def test_a_unit_counts_once_however_many_seeds_it_has(make_record: MakeRecord) -> None:
    values = {"bench": {"a": [(0.0, 1.0)] * 9, "b": [(0.0, 0.0)]}}
    metric = Metric(name="score", title="")
    found = differences(make_record(values), metric, FailedArms.SCORE)
    assert found == {"a": 1.0, "b": 0.0}


def test_equal_differences_are_equal_numbers(make_record: MakeRecord) -> None:
    # Two thirds minus one third is not one third in floating point.
    values = {
        "bench": {
            "a": [(1.0, 1.0), (0.0, 1.0), (0.0, 0.0)],
            "b": [(0.0, 1.0), (0.0, 0.0), (0.0, 0.0)],
        }
    }
    metric = Metric(name="score", title="")
    found = differences(make_record(values), metric, FailedArms.SCORE)
    assert found["a"] == found["b"]


def test_resources_are_paired_per_cell_and_averaged_over_seeds(
    make_record: MakeRecord,
) -> None:
    record = make_record({"bench": {"a": [(0.0, 1.0), (0.0, 1.0)], "b": [(0.0, 0.0)]}})
    # The fixture's wall clock counts rows: 10 and 20 ms, 30 and 40 ms; 50 and 60 ms.
    found = pair_cells(record.rows, ("no_op", "candidate"), "wall_s")["bench"]
    assert found[0] == pytest.approx((0.02, 0.03))
    assert found[1] == pytest.approx((0.05, 0.06))


def test_a_resource_that_was_not_measured_is_left_out(make_record: MakeRecord) -> None:
    record = make_record({"bench": {"a": [(0.0, 1.0)]}})
    assert pair_cells(record.rows, ("no_op", "candidate"), "cpu_s") == {}

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lazycore.experiments._compare import compare_runs
from lazycore.experiments._study import Metric

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import RunRecord

    MakeRecord = Callable[..., RunRecord]

BINARY = Metric(name="accuracy", title="accuracy", kind="binary", primary=True)


def units(gained: int) -> dict[str, list[tuple[float | None, float | None]]]:
    return {f"u{i:03d}": [(0.0, float(i < gained))] for i in range(60)}


def test_a_run_equals_itself(make_record: MakeRecord) -> None:
    record = make_record({"bench": units(20)}, metric=BINARY)
    found = compare_runs(record, record)
    assert found.same_lock
    assert found.same_results
    assert found.changed == ()
    assert found.lines()[:2] == (
        "the same lock, equal results",
        "0 of 120 results changed",
    )


def test_changed_results_and_verdicts_are_named(make_record: MakeRecord) -> None:
    old = make_record({"bench": units(20)}, metric=BINARY)
    new = make_record({"bench": units(2)}, metric=BINARY)
    new = replace(new, lock_digest="ef" * 32, lock={**old.lock, "tree": 1})
    found = compare_runs(old, new)
    assert not found.same_lock
    assert not found.same_results
    assert len(found.changed) == 18
    assert found.changed[0] == ("bench", "u002", 0, "candidate", "accuracy")
    lines = found.lines()
    assert lines[0] == "different locks, different results"
    assert "  lock: tree" in lines
    assert "  and 13 more" in lines
    assert lines[-1] == (
        "bench, accuracy, candidate: helps, then no difference shown "
        "(+33.3 pp to +3.3 pp)"
    )


def test_results_of_one_run_only_are_counted(make_record: MakeRecord) -> None:
    old = make_record({"bench": units(20)}, metric=BINARY)
    shorter = dict(list(units(20).items())[:50])
    found = compare_runs(old, make_record({"bench": shorter}, metric=BINARY))
    assert (found.compared, found.only_old, found.only_new) == (100, 20, 0)
    assert not found.same_results
    assert "20 results only in the first run, 0 only in the second" in found.lines()


def test_a_failure_that_becomes_a_value_is_a_change(make_record: MakeRecord) -> None:
    old = make_record({"bench": {"u": [(1.0, None)]}})
    found = compare_runs(old, make_record({"bench": {"u": [(1.0, 0.0)]}}))
    assert len(found.changed) == 1


def test_a_hostile_name_can_not_steer_the_terminal(make_record: MakeRecord) -> None:
    name = "\x1b]0;title\x07\u202e"
    old = make_record({name: {name: [(1.0, 1.0)]}})
    new = make_record({name: {name: [(1.0, 0.0)]}})
    for line in compare_runs(old, new).lines():
        assert line.isprintable()


def test_everything_is_json(make_record: MakeRecord) -> None:
    record = make_record({"bench": units(20)}, metric=BINARY)
    document = json.loads(json.dumps(compare_runs(record, record).to_json()))
    assert document["verdicts"][0]["new_verdict"] == "helps"

"""Slots keep a bounded number of cells in flight and lose no failure."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments._engine import Slots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazycore.experiments import RunRecord

    Run = Callable[..., RunRecord]


def test_every_item_is_worked_on_once() -> None:
    engine: Slots[int, int] = Slots(3)
    results = [x for x in engine.run(range(50), lambda x: x * 2) if x is not None]
    assert sorted(results) == list(range(0, 100, 2))


def test_items_are_taken_as_slots_come_free() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    engine: Slots[int, int] = Slots(2)
    run = engine.run(items(), lambda x: x)
    next(run)
    run.close()
    assert len(taken) <= 8


def test_a_wait_is_no_silence() -> None:
    gate = threading.Event()
    engine: Slots[int, bool] = Slots(1)
    run = engine.run([1], lambda _x: gate.wait(10))
    assert next(run) is None
    gate.set()
    assert [x for x in run if x is not None] == [True]


def test_an_error_of_the_engine_reaches_the_coordinator() -> None:
    def work(_x: int) -> int:
        raise RuntimeError("host")

    with pytest.raises(RuntimeError, match="host"):
        list(Slots[int, int](2).run([1, 2, 3], work))


def test_closing_waits_for_what_runs_and_starts_nothing_more() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        time.sleep(0.05)
        done.append(number)
        return number

    run = Slots[int, int](1).run(range(100), work)
    next(run)
    run.close()
    count = len(done)
    time.sleep(0.1)
    assert len(done) == count <= 3


@pytest.mark.parametrize("count", [0, -1])
def test_no_slot_is_no_engine(count: int) -> None:
    with pytest.raises(ValueError, match="at least one slot"):
        Slots(count)


def test_too_many_failed_cells_stop_the_study_and_say_so(run_body: Run) -> None:
    record = run_body(
        "raise RuntimeError",
        units=[f"u{index:02}" for index in range(40)],
        extra="[retries]\nmax_failed = 2",
    )
    assert not record.complete
    assert record.reason == "max-failed"
    assert 2 <= record.failed_cells < 40

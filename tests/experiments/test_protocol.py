"""A response is one well-formed answer to its own request, or it is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.experiments import ProtocolError, plan_cells
from lazycore.experiments._protocol import build_request, read_response
from lazycore.experiments._strict_json import parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import Cell, StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]

HASH = "a" * 64


def good(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "protocol": "lazycore-experiments/worker/1",
        "request_hash": HASH,
        "status": "succeeded",
        "metrics": {"score": 1},
        "usage": {},
        "output": None,
        "failure": None,
        "units": None,
        **changes,
    }


@pytest.fixture
def cell(write_study: Write, make_lock: Make) -> Cell:
    lock = make_lock(write_study())
    return next(plan_cells(lock.study, lock.digest))


@pytest.fixture
def block(write_study: Write, make_lock: Make) -> Cell:
    lock = make_lock(write_study(block=2))
    return next(plan_cells(lock.study, lock.digest))


def read(document: object, cell: Cell) -> Any:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_response(
        data, request_hash=HASH, cell=cell, metrics=frozenset({"score"}), limit=10_000
    )


def test_a_good_response_is_read(cell: Cell) -> None:
    response = read(good(usage={"input_tokens": 3, "cost_usd": 0.5}, output=[1]), cell)
    assert response.units["u0"].metrics == {"score": 1.0}
    assert response.units["u0"].output == [1]
    assert response.usage == {"input_tokens": 3, "cost_usd": 0.5}


FAILURE = {"scope": "algorithm", "category": "c", "message": "m"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schema_version": True}, "schema_version"),
        ({"schema_version": 1.0}, "schema_version"),
        ({"protocol": "other"}, "protocol"),
        ({"request_hash": "b" * 64}, "request_hash"),
        ({"status": "ok"}, "status"),
        ({"metrics": {}}, "missing \\['score'\\]"),
        ({"metrics": {"score": None}}, "metric score"),
        ({"metrics": {"score": True}}, "metric score"),
        ({"metrics": {"score": "1"}}, "metric score"),
        ({"metrics": []}, "metrics is no object"),
        ({"usage": {"tokens": 1}}, "unknown counter"),
        ({"usage": {"input_tokens": -1}}, "input_tokens"),
        ({"usage": {"input_tokens": 1.5}}, "input_tokens"),
        ({"usage": {"cost_usd": True}}, "cost_usd"),
        ({"usage": None}, "usage is no object"),
        ({"failure": FAILURE}, "failure is null"),
        ({"status": "failed"}, "metrics are {}"),
        ({"status": "failed", "metrics": {}}, "failure is no object"),
        (
            {
                "status": "failed",
                "metrics": {},
                "failure": {**FAILURE, "scope": "host"},
            },
            "scope is neither",
        ),
        (
            {"status": "failed", "metrics": {}, "failure": {**FAILURE, "message": 1}},
            "strings",
        ),
        ({"units": {}}, "units must be null"),
        ({"receipt": {}}, "unknown \\['receipt'\\]"),
        ({"identity": 1}, "unknown"),
    ],
)
def test_a_response_outside_the_protocol_is_refused(
    cell: Cell, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ProtocolError, match=problem):
        read(good(**changes), cell)


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"{}", b"\x00", b"{" * 5000, b'"' + b"x" * 20_000 + b'"'],
    ids=lambda data: repr(data[:10]),
)
def test_bytes_that_are_no_response_are_refused(cell: Cell, data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(data, cell)


def test_an_algorithmic_failure_is_a_result(cell: Cell) -> None:
    response = read(good(status="failed", metrics={}, failure=FAILURE), cell)
    assert response.units["u0"].failure_class == "algorithm"
    assert response.units["u0"].message == "c: m"


ROW = {"status": "succeeded", "metrics": {"score": 1}, "output": None, "failure": None}


@pytest.mark.parametrize(
    ("units", "problem"),
    [
        (None, "units is no object"),
        ({"u0": ROW}, "missing \\['u1'\\]"),
        ({"u0": ROW, "u1": ROW, "u9": ROW}, "unknown \\['u9'\\]"),
        ({"u0": ROW, "u1": {**ROW, "metrics": {}}}, "unit 'u1': metrics"),
        ({"u0": ROW, "u1": {**ROW, "status": "maybe"}}, "unit 'u1': status"),
        ({"u0": ROW, "u1": {"score": 1}}, "unit 'u1': missing"),
    ],
)
def test_a_block_answers_for_exactly_its_units(
    block: Cell, units: object, problem: str
) -> None:
    assert block.units == ("u0", "u1")
    with pytest.raises(ProtocolError, match=problem):
        read(good(metrics={}, units=units), block)
    with pytest.raises(ProtocolError, match="per unit"):
        read(good(units={"u0": ROW, "u1": ROW}), block)
    assert len(read(good(metrics={}, units={"u0": ROW, "u1": ROW}), block).units) == 2


def test_a_request_carries_everything_the_arm_needs_and_its_own_hash(
    write_study: Write, make_lock: Make
) -> None:
    lock = make_lock(write_study(seeds=[7]))
    cell = next(plan_cells(lock.study, lock.digest))
    data, request_hash = build_request(lock.study, lock.digest, cell, "candidate")
    document = parse(data)
    assert document["request_hash"] == request_hash
    assert document["cell"]["seed"] == 7
    assert document["lock"] == lock.digest
    assert document["parameters"]["arm"] == {"gain": 1}
    assert build_request(lock.study, lock.digest, cell, "no_op")[1] != request_hash


def test_a_plan_covers_every_unit_once_per_seed_and_flips_a_coin(
    write_study: Write, make_lock: Make
) -> None:
    units = [f"u{index:03}" for index in range(200)]
    lock = make_lock(write_study(units=units, seeds=[0, 1]))
    cells = list(plan_cells(lock.study, lock.digest))
    assert sorted((cell.units[0], cell.seed) for cell in cells) == sorted(
        (unit, seed) for unit in units for seed in (0, 1)
    )
    assert len({cell.id for cell in cells}) == 400
    assert [cell.index for cell in cells] == list(range(400))
    first = sum(cell.order[0] == "no_op" for cell in cells)
    assert 150 < first < 250  # 5 standard deviations of a fair coin
    assert cells == list(plan_cells(lock.study, lock.digest))

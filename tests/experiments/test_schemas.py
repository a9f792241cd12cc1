"""The JSON Schemas accept what a run writes and refuse what it never does."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.experiments._plan import plan_cells
from lazycore.experiments._protocol import build_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import RunRecord

    RunBody = Callable[..., RunRecord]

pytestmark = pytest.mark.usefixtures("one_sandbox")

NAMES = ("journal-record", "seal", "study-lock", "worker-request", "worker-response")


def schema(name: str) -> dict[str, Any]:
    path = files("lazycore.experiments") / "schemas" / f"{name}.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def errors(name: str, document: object) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    validator = jsonschema.Draft202012Validator(schema(name))
    return [error.message for error in validator.iter_errors(document)]


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_ships_with_its_id(name: str) -> None:
    found = schema(name)
    assert found["$id"] == f"urn:lazycore:experiments:schema:{name}:1"
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.once
def test_a_run_with_every_outcome_is_what_the_schemas_say(run_body: RunBody) -> None:
    pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    record = run_body(
        "if request.unit == 'u1':\n"
        "    raise AlgorithmFailure('none', 'nothing found')\n"
        "if request.unit == 'u2':\n"
        "    raise RuntimeError('boom')\n"
        "output = [1, None] if request.unit == 'u0' else 'x' * 9_000\n"
        "return Reply({'score': 0.5}, output=output, usage={'model_calls': 2})",
        units=["u0", "u1", "u2", "u3"],
        extra="[retries]\nattempts = 2\nclasses = ['crash']",
    )
    read = record.path.joinpath
    assert errors("study-lock", json.loads(read("lock.json").read_text())) == []
    assert errors("seal", json.loads(read("seal.json").read_text())) == []
    lines = read("journal.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert {r["type"] for r in records} == {"session", "attempt", "cell", "end"}
    assert [errors("journal-record", r) for r in records] == [[]] * len(records)
    cell = next(plan_cells(record.study, record.lock_digest))
    request, _ = build_request(record.study, record.lock_digest, cell, "no_op")
    assert errors("worker-request", json.loads(request)) == []


GOOD = {
    "schema_version": 1,
    "protocol": "lazycore-experiments/worker/1",
    "request_hash": "0" * 64,
    "status": "succeeded",
    "metrics": {"score": 1.0},
    "usage": {},
    "output": None,
    "failure": None,
    "units": None,
}
FAILED = {"scope": "algorithm", "category": "none", "message": ""}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"schema_version": 2}, id="another version"),
        pytest.param({"request_hash": "0" * 63}, id="a short hash"),
        pytest.param({"metrics": {"score": "1"}}, id="a metric in words"),
        pytest.param({"usage": {"dollars": 1}}, id="an unknown counter"),
        pytest.param({"usage": {"cost_usd": -1}}, id="a negative cost"),
        pytest.param({"failure": FAILED}, id="a failure of a success"),
        pytest.param(
            {"status": "failed", "failure": FAILED}, id="metrics of a failure"
        ),
        pytest.param(
            {"status": "failed", "metrics": {}}, id="a failure without reason"
        ),
        pytest.param({"host_receipt": {}}, id="a field of the host"),
    ],
)
def test_a_response_outside_the_protocol_fails_its_schema(
    change: dict[str, object],
) -> None:
    assert errors("worker-response", GOOD) == []
    assert errors("worker-response", {**GOOD, **change}) != []

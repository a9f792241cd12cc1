"""The worker SDK answers on its own descriptor and keeps arms comparable."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from lazycore.experiments import (
    AlgorithmFailure,
    BenchmarkFailure,
    Reply,
    Request,
    _worker,
)


def request(**changes: Any) -> dict[str, Any]:
    cell = {
        "id": "0" * 64,
        "study": "s",
        "benchmark": "b",
        "units": ["u"],
        "seed": 3,
        "block": False,
    }
    return {
        "request_hash": "a" * 64,
        "cell": {**cell, **changes.pop("cell", {})},
        "arm": {"name": "no_op"},
        "model": None,
        "parameters": {
            "shared": {"x": 1, "y": 1, "z": 1},
            "benchmark": {"y": 2, "z": 2},
            "arm": {"z": 3},
        },
        **changes,
    }


def ask(handler: Any, **changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_worker.answer(handler, request(**changes)))
    return document


def test_parameters_merge_from_shared_to_arm() -> None:
    assert Request(request()).parameters == {"x": 1, "y": 2, "z": 3}


def test_noise_is_equal_for_both_arms_and_differs_by_seed_and_part() -> None:
    base = Request(request()).stream("u").random()
    assert Request(request(arm={"name": "candidate"})).stream("u").random() == base
    assert Request(request(cell={"seed": 4})).stream("u").random() != base
    assert Request(request()).stream("v").random() != base


def test_metrics_alone_are_an_answer() -> None:
    answer = ask(lambda _request: {"score": 1})
    assert answer["status"] == "succeeded"
    assert answer["metrics"] == {"score": 1}


def test_a_reported_failure_is_an_answer_with_its_scope() -> None:
    def algorithm(_request: Request) -> Reply:
        raise AlgorithmFailure("c", "m")

    def benchmark(_request: Request) -> Reply:
        raise BenchmarkFailure("c")

    assert ask(algorithm)["failure"] == {
        "scope": "algorithm",
        "category": "c",
        "message": "m",
    }
    assert ask(benchmark)["failure"]["scope"] == "benchmark"


def test_a_block_answers_per_unit() -> None:
    answer = ask(
        lambda r: Reply(
            units={r.units[0]: Reply({"score": 1}), "v": AlgorithmFailure("c")}
        )
    )
    assert answer["units"]["u"]["metrics"] == {"score": 1}
    assert answer["units"]["v"]["status"] == "failed"


def test_numpy_scalars_travel() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    assert ask(lambda _r: {"score": numpy.float64(0.5)})["metrics"] == {"score": 0.5}
    assert ask(lambda _r: {"score": numpy.int64(2)})["metrics"] == {"score": 2}


def test_an_output_that_is_no_json_is_an_error_of_the_worker() -> None:
    with pytest.raises(TypeError, match="a set is no JSON value"):
        ask(lambda _r: Reply({"score": 1}, output={1, 2}))


def test_without_a_descriptor_the_answer_goes_to_stdout() -> None:
    code = (
        "from lazycore.experiments import serve\n"
        "serve(lambda r: {'score': r.seed}, prepare=lambda: None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(request()).encode(),
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert json.loads(done.stdout)["metrics"] == {"score": 3}


def test_a_worker_loads_only_what_it_needs() -> None:
    code = (
        "import sys\nbase = set(sys.modules)\n"
        "from lazycore.experiments import serve, Request, Reply\n"
        "print(sorted(m for m in set(sys.modules) - base if 'lazycore' in m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.strip() == str(
        ["lazycore", "lazycore.experiments", "lazycore.experiments._worker"]
    )

"""A run tells its story as spans through lazycore.telemetry, or costs nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.experiments import run_study

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]

pytestmark = pytest.mark.usefixtures("one_sandbox")


@pytest.fixture
def exported() -> Any:
    sdk = pytest.importorskip(
        "opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed"
    )
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    provider = sdk.TracerProvider()
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return SimpleNamespace(provider=provider, spans=exporter.get_finished_spans)


def test_run_cell_and_arm_spans_hang_together(
    write_study: Write, make_lock: Make, tmp_path: Path, exported: Any
) -> None:
    body = (
        "if request.unit == 'u1': raise RuntimeError('boom')\n"
        "return {'score': 1 + request.parameters['gain']}"
    )
    record = run_study(
        make_lock(write_study(body, units=["u0", "u1"])),
        tmp_path / "run",
        tracer_provider=exported.provider,
    )
    spans = exported.spans()
    by_kind: dict[str, list[Any]] = {}
    for span in spans:
        by_kind.setdefault(span.name.split()[0], []).append(span)
    (run,) = by_kind["experiment"]
    assert run.attributes["test.suite.name"] == "sample"
    assert run.attributes["test.suite.run.status"] == "failure"
    assert run.attributes["lazycore.experiment.lock"] == record.lock_digest
    assert run.attributes["lazycore.experiment.results"] == record.results_digest
    assert len(by_kind["cell"]) == 2
    assert {span.parent.span_id for span in by_kind["cell"]} == {run.context.span_id}
    assert {
        span.attributes["test.case.name"]: span.attributes["test.case.result.status"]
        for span in by_kind["cell"]
    } == {"bench/u0": "pass", "bench/u1": "fail"}
    cells = {span.context.span_id for span in by_kind["cell"]}
    assert len(by_kind["arm"]) == 4
    for arm in by_kind["arm"]:
        assert arm.parent.span_id in cells
        assert arm.start_time < arm.end_time
    errors = [span.attributes.get("error.type") for span in by_kind["arm"]]
    assert sorted(filter(None, errors)) == ["crash", "crash"]
    scores = [
        value
        for span in spans
        for event in [span, *span.events]
        for key, value in (event.attributes or {}).items()
        if key == "gen_ai.evaluation.score.value"
    ]
    assert sorted(set(scores)) == [1.0, 2.0]
    for span in spans:
        assert not span.status.description


def test_without_an_sdk_nothing_is_emitted(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    assert run_study(make_lock(write_study(units=["u"])), tmp_path / "run").complete

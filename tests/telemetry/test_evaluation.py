"""Evaluation results by every road to every kind of target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lazycore.telemetry import add_evaluation_result, configure, genai_span

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_recording_span_gets_the_event_on_both_roads(recorded: Any) -> None:
    with genai_span("chat", provider="openai") as span:
        add_evaluation_result(span, "tone", score=1)
    (event,) = recorded.span.events
    (record,) = recorded.logs
    assert event.name == record.event_name == "gen_ai.evaluation.result"
    assert dict(event.attributes) == dict(record.attributes)


@pytest.mark.parametrize("form", ["GenAISpan", "span", "context"])
def test_an_ended_span_gets_the_event_through_logs(form: str, recorded: Any) -> None:
    with genai_span("chat", provider="openai") as span:
        pass
    target: Any = {"GenAISpan": span, "span": span.span, "context": span.context}[form]
    add_evaluation_result(target, "tone", label="kind")
    (record,) = recorded.logs
    assert record.span_id == span.context.span_id
    assert record.trace_id == span.context.trace_id
    assert len(recorded.spans) == 1


def test_a_response_identifier_is_a_target(recorded: Any) -> None:
    add_evaluation_result("resp-1", "tone", score=0)
    (record,) = recorded.logs
    assert record.attributes["gen_ai.response.id"] == "resp-1"


def test_without_a_logs_pipeline_a_linked_span_carries_it(
    make_recorded: Callable[..., Any],
) -> None:
    from opentelemetry._logs import NoOpLoggerProvider

    recorded = make_recorded()
    configure(logger_provider=NoOpLoggerProvider())
    with genai_span("chat", provider="openai") as span:
        pass
    add_evaluation_result(span, "tone", score=0.5)
    found = recorded.spans[1]
    assert found.name == "evaluation tone"
    assert found.parent.span_id == span.context.span_id
    assert found.links[0].context.span_id == span.context.span_id
    assert found.attributes["gen_ai.evaluation.score.value"] == 0.5


def test_a_failed_evaluation_says_why(recorded: Any) -> None:
    add_evaluation_result("r", "tone", error=TimeoutError("secret"))
    (record,) = recorded.logs
    assert record.attributes["error.type"] == "TimeoutError"
    assert "secret" not in repr(dict(record.attributes))


@pytest.mark.parametrize(
    ("events", "on_span", "on_log"),
    [("both", 1, 1), ("span", 1, 0), ("logs", 0, 1), ("none", 0, 0)],
)
def test_events_take_the_chosen_road(
    events: str, on_span: int, on_log: int, make_recorded: Callable[..., Any]
) -> None:
    recorded = make_recorded(events=events)
    with genai_span("chat", provider="openai") as span:
        add_evaluation_result(span, "tone", score=1)
    assert len(recorded.span.events) == on_span
    assert len(recorded.logs) == on_log


def test_without_an_sdk_nothing_happens() -> None:
    with genai_span("chat", provider="openai") as span:
        add_evaluation_result(span, "tone", score=1)
    add_evaluation_result(span, "tone", score=1)
    add_evaluation_result("r", "tone", score=1)

"""A call that was seen before says what it would say for the first time."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from lazycore import telemetry as t
from lazycore.telemetry import TelemetryUsageError

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES: dict[str, list[Any]] = {
    "max_tokens": [1, True, 1.0, "1", 256, None, 1 << 70, float("nan")],
    "temperature": [0, 0.0, False, 0.5, None, float("inf")],
    "stream": [True, 1, False, 0, None],
    "stop_sequences": [["a"], ("a",), "a", None],
    "conversation_id": ["a", "a\ud800", "a\0", "x" * 300, None, 7],
}
CALLS = [{name: value} for name, values in VALUES.items() for value in values] + [
    dict(zip(("max_tokens", "temperature"), pair, strict=True))
    for pair in itertools.product(VALUES["max_tokens"], VALUES["temperature"])
]


def said(recorded: Any, options: dict[str, Any], model: Any = "m") -> Any:
    with t.genai_span("chat", provider="openai", model=model, **options) as span:
        span.set_response(id="r", model="n", finish_reasons=["stop"])
    (found,) = recorded.spans
    recorded.exporter.clear()
    return found.name, dict(found.attributes)


def test_no_earlier_call_changes_what_a_call_says(
    make_recorded: Callable[..., Any],
) -> None:
    fresh = [said(make_recorded(), options) for options in CALLS]
    recorded = make_recorded()
    for _ in range(2):  # the second round finds what the first one left
        for options, expected in zip(CALLS, fresh, strict=True):
            for _ in range(2):
                assert repr(said(recorded, options)) == repr(expected)


@pytest.mark.parametrize("model", [1, True, "1", ["1"], {"m": 1}, None, b"1"])
def test_a_model_that_only_equals_another_keeps_its_own_name(
    model: Any, make_recorded: Callable[..., Any]
) -> None:
    expected = said(make_recorded(), {}, model)
    recorded = make_recorded()
    for other in (1, True, "1", 1.0):
        said(recorded, {}, other)
    assert said(recorded, {}, model) == expected


def test_a_list_that_changes_between_two_calls_is_read_again(recorded: Any) -> None:
    stops = ["a"]
    name = "gen_ai.request.stop_sequences"
    assert said(recorded, {"stop_sequences": stops})[1][name] == ("a",)
    stops.append("b")
    assert said(recorded, {"stop_sequences": stops})[1][name] == ("a", "b")


def test_attributes_of_one_span_never_reach_the_next(recorded: Any) -> None:
    for _ in range(3):
        with t.genai_span("chat", provider="openai", model="m", seed=1) as span:
            span.set_attribute("mine", 1)
            span.set_usage(1, 2)
    assert {len(found.attributes) for found in recorded.spans} == {7}
    recorded.exporter.clear()
    assert "mine" not in said(recorded, {"seed": 1})[1]


def test_options_added_later_are_written(recorded: Any) -> None:
    said(recorded, {"seed": 1})
    span = t.genai_span("chat", provider="openai", model="m", seed=1)
    with span.set_request(seed=2, top_p=0.5):
        pass
    found = recorded.span.attributes
    assert (found["gen_ai.request.seed"], found["gen_ai.request.top_p"]) == (2, 0.5)


def test_new_settings_forget_what_was_remembered(
    make_recorded: Callable[..., Any],
) -> None:
    recorded = make_recorded()
    assert "gen_ai.system" not in said(recorded, {"seed": 1})[1]
    recorded = make_recorded(semconv="dup")
    assert said(recorded, {"seed": 1})[1]["gen_ai.system"] == "openai"


def test_a_mistake_is_refused_however_often_it_is_made(recorded: Any) -> None:
    del recorded
    for _ in range(3):
        with pytest.raises(TelemetryUsageError, match="temprature"):
            t.genai_span("chat", provider="x", temprature=1)  # type: ignore[call-arg]
        with pytest.raises(TelemetryUsageError, match="needs provider"):
            t.genai_span("chat", model="m")
        t.genai_span("execute_tool", tool="x")
        with pytest.raises(TelemetryUsageError, match="needs tool"):
            t.genai_span("execute_tool", tool=None)
        t.genai_span("chat", provider="x", server_address="h", server_port=1)
        with pytest.raises(TelemetryUsageError, match="server_address"):
            t.genai_span("chat", provider="x", server_address=None, server_port=1)
        t.genai_span("chat", provider="x", request={"seed": 1})
        with pytest.raises(TelemetryUsageError, match="does not take sed"):
            t.genai_span("chat", provider="x", request={"sed": 1})
        with pytest.raises(TelemetryUsageError, match="unknown operation"):
            t.genai_span(["chat"])  # type: ignore[arg-type]


def test_an_empty_context_makes_a_root(recorded: Any) -> None:
    from opentelemetry.context import Context

    with t.workflow_span("w"):
        for _ in range(2):
            with t.genai_span("chat", provider="x", model="m", context=Context()):
                pass
            with t.genai_span("chat", provider="x", model="m"):
                pass
    parents = [span.parent for span in recorded.spans if span.name == "chat m"]
    assert [parent is None for parent in parents] == [True, False, True, False]


def test_a_span_left_in_a_copied_context_is_no_error(
    recorded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def leave_in_a_copy() -> None:
        span = t.genai_span("chat", provider="x", model="m")
        span.__enter__()
        contextvars.copy_context().run(span.__exit__, None, None, None)

    contextvars.copy_context().run(leave_in_a_copy)  # where the span stays current
    assert recorded.span.name == "chat m"
    assert caplog.records == []

    async def leave_in_a_task() -> None:
        opened = t.genai_span("chat", provider="x", model="m")
        opened.__enter__()

        async def leave() -> None:
            opened.__exit__(None, None, None)

        await asyncio.create_task(leave())

    asyncio.run(leave_in_a_task())
    assert caplog.records == []


def test_memory_stays_bounded_whatever_programs_call(recorded: Any) -> None:
    from lazycore.telemetry import _calls, _compose, _record, _runtime

    for index in range(1_500):
        with t.genai_span(
            "chat", provider="x", model=f"m{index}", conversation_id=f"c{index}"
        ) as span:
            span.set_response(model=f"n{index}")
    assert len(_runtime.current().openings) <= _compose.MAX_OPENINGS
    assert len(_record.MODELS) <= _record.MAX_MODELS
    assert len(_calls.SHAPES) <= _calls.MAX_SHAPES
    assert recorded.spans[-1].attributes["gen_ai.response.model"] == "n1499"

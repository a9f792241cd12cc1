"""Names, kinds, nesting, errors, decorators and metrics of spans."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from lazycore import telemetry as t

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


def chat(**options: Any) -> t.GenAISpan:
    return t.genai_span("chat", provider="openai", model="m", **options)


@pytest.mark.parametrize(
    ("make", "name", "kind"),
    [
        (chat, "chat m", "CLIENT"),
        (lambda: t.genai_span("chat", provider="x"), "chat", "CLIENT"),
        (lambda: t.tool_span("search"), "execute_tool search", "INTERNAL"),
        (lambda: t.agent_span("a"), "invoke_agent a", "INTERNAL"),
        (t.agent_span, "invoke_agent", "INTERNAL"),
        (
            lambda: t.agent_span("a", remote=True, provider="x"),
            "invoke_agent a",
            "CLIENT",
        ),
        (lambda: t.workflow_span("w"), "invoke_workflow w", "INTERNAL"),
        (lambda: t.embeddings_span("x", "e"), "embeddings e", "CLIENT"),
        (lambda: t.retrieval_span("kb"), "retrieval kb", "CLIENT"),
        (lambda: t.memory_span("upsert"), "upsert_memory", "CLIENT"),
        (lambda: t.plan_span("a"), "plan a", "INTERNAL"),
        (lambda: chat(name="own name"), "own name", "CLIENT"),
    ],
)
def test_names_and_kinds_follow_the_conventions(
    make: Callable[[], t.GenAISpan], name: str, kind: str, recorded: Any
) -> None:
    with make():
        pass
    assert recorded.span.name == name
    assert recorded.span.kind.name == kind


def test_spans_nest_and_threads_of_context_close_again(recorded: Any) -> None:
    from opentelemetry.trace import get_current_span

    with t.workflow_span("w") as outer, t.agent_span("a") as inner, chat() as leaf:
        assert get_current_span() is leaf.span
        assert leaf.traceparent == t.carrier()["traceparent"]
    assert not get_current_span().is_recording()
    by_name = {s.name: s for s in recorded.spans}
    assert by_name["chat m"].parent.span_id == inner.context.span_id
    assert by_name["invoke_agent a"].parent.span_id == outer.context.span_id


def test_an_unsampled_span_stays_the_parent_and_metrics_go_on(
    make_recorded: Callable[..., Any],
) -> None:
    recorded = make_recorded(sampled=False)
    with chat() as outer:
        outer.set_usage(input=5)
        with chat() as inner:
            assert inner.context.trace_id == outer.context.trace_id
            assert not inner.is_recording()
    assert recorded.spans == ()
    assert len(recorded.metrics()["gen_ai.client.operation.duration"]) == 1
    (point,) = recorded.metrics()["gen_ai.client.token.usage"]
    assert (point.sum, point.count) == (5, 1)


@pytest.mark.parametrize("key", ["suppress_instrumentation", "api key"])
def test_an_application_that_asks_for_quiet_gets_it(key: str, recorded: Any) -> None:
    from opentelemetry import context

    name = key if key != "api key" else context._SUPPRESS_INSTRUMENTATION_KEY
    with t.genai_span("app.outer"):
        token = context.attach(context.set_value(name, True))
        try:
            with chat() as span:
                span.set_usage(input=1)
                t.set_ml_metric(span, "accuracy", 0.5)
                t.set_security_finding(span, "high", "LLM01")
                t.add_transcript_event(span, "user", "x")
                t.add_evaluation_result(span, "tone", score=1)
        finally:
            context.detach(token)
    assert recorded.span.name == "app.outer"
    assert dict(recorded.span.attributes) == {}
    assert recorded.span.events == ()
    assert recorded.logs == []
    assert recorded.metrics() == {}


class OddError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("x"), "ValueError"),
        (OddError(), f"{__name__}.OddError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (SystemExit(3), "SystemExit"),
        (StopIteration(), "StopIteration"),
    ],
)
def test_every_way_out_but_an_early_stop_is_an_error(
    error: BaseException, kind: str, recorded: Any
) -> None:
    with pytest.raises(type(error)), chat():
        raise error
    assert recorded.span.status.status_code.name == "ERROR"
    assert recorded.span.attributes["error.type"] == kind
    (point,) = recorded.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes["error.type"] == kind


def test_a_consumer_that_stops_early_is_no_error(recorded: Any) -> None:
    with pytest.raises(GeneratorExit), chat():
        raise GeneratorExit
    assert recorded.span.status.status_code.name == "UNSET"
    assert "error.type" not in recorded.span.attributes


def test_a_providers_code_can_be_the_error(recorded: Any) -> None:
    with chat() as span:
        span.fail("rate_limit_exceeded")
    assert recorded.span.attributes["error.type"] == "rate_limit_exceeded"
    assert recorded.span.status.status_code.name == "ERROR"


def test_a_finding_is_a_result_and_no_error(recorded: Any) -> None:
    with t.genai_span("audit.probe") as span:
        t.set_security_finding(span, "critical", "LLM01")
    assert recorded.span.status.status_code.name == "UNSET"


def test_a_decorated_function_has_a_span_per_call(recorded: Any) -> None:
    @chat(temperature=0.5)
    def ask(question: str) -> str:
        """Ask."""
        return question.upper()

    assert ask("a") + ask("b") == "AB"
    assert ask.__doc__ == "Ask."
    assert [s.name for s in recorded.spans] == ["chat m", "chat m"]


def test_a_decorated_coroutine_has_a_span_per_call(recorded: Any) -> None:
    @chat()
    async def ask() -> int:
        await asyncio.sleep(0)
        return 7

    async def main() -> list[int]:
        return list(await asyncio.gather(ask(), ask()))

    assert asyncio.run(main()) == [7, 7]
    assert len(recorded.spans) == 2
    assert all(s.parent is None for s in recorded.spans)


def test_a_decorated_generator_is_a_stream(recorded: Any) -> None:
    from opentelemetry.trace import get_current_span

    @chat()
    def ask() -> Iterator[int]:
        assert get_current_span().is_recording()
        yield 1
        yield 2

    for _ in ask():
        assert not get_current_span().is_recording()
    assert recorded.span.attributes["gen_ai.request.stream"] is True


def test_a_decorated_asynchronous_generator_is_a_stream(recorded: Any) -> None:
    @chat()
    async def ask() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(0)
        yield 2

    async def main() -> list[int]:
        return [chunk async for chunk in ask()]

    assert asyncio.run(main()) == [1, 2]
    assert recorded.span.attributes["gen_ai.request.stream"] is True


def test_usage_that_is_unknown_is_not_zero(recorded: Any) -> None:
    with chat() as span:
        span.set_usage(input=0)
    found = recorded.span.attributes
    assert found["gen_ai.usage.input_tokens"] == 0
    assert "gen_ai.usage.output_tokens" not in found


def test_what_everybody_assumes_is_left_out(recorded: Any) -> None:
    with chat(stream=False, choice_count=1, compacted=False):
        pass
    assert set(recorded.span.attributes) == {
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
    }


def test_small_attributes_come_before_content(
    make_recorded: Callable[..., Any],
) -> None:
    policy = t.ContentPolicy(mode=t.ContentMode.SPAN_ONLY)
    recorded = make_recorded(policy=policy)
    with chat() as span:
        span.add_input("user", "x")
        span.set_usage(input=1)
    names = list(recorded.span.attributes)
    assert names.index("gen_ai.usage.input_tokens") < names.index(
        "gen_ai.input.messages"
    )


def test_former_names_come_along_under_dup(make_recorded: Callable[..., Any]) -> None:
    recorded = make_recorded(semconv="dup")
    with t.genai_span("chat", provider="gcp.vertex_ai") as span:
        span.set_usage(cache_write=3)
    found = recorded.span.attributes
    assert found["gen_ai.system"] == "vertex_ai"
    assert found["gen_ai.usage.cache_creation.input_tokens"] == 3
    assert found["gen_ai.usage.cache_write.input_tokens"] == 3


@pytest.mark.parametrize(
    ("value", "used"),
    [("next", "next"), ("dup", "dup"), ("", "2026-10"), ("2031-01", "2026-10")],
)
def test_the_environment_selects_the_profile(
    value: str,
    used: str,
    monkeypatch: pytest.MonkeyPatch,
    make_recorded: Callable[..., Any],
) -> None:
    monkeypatch.setenv("LAZYCORE_TELEMETRY_SEMCONV", value)
    recorded = make_recorded()
    with chat():
        pass
    wanted = {"gen_ai.client.operation.duration"} if used != "next" else set()
    if used != "2026-10":
        wanted.add("gen_ai.client.inference.duration")
    assert set(recorded.metrics()) == wanted


def test_a_refused_call_counts_zero_tokens_under_the_coming_names(
    make_recorded: Callable[..., Any],
) -> None:
    recorded = make_recorded(semconv="next")
    with pytest.raises(ConnectionError), chat():
        raise ConnectionError
    (point,) = recorded.metrics()["gen_ai.client.inference.operation.input_tokens"]
    assert (point.sum, point.count) == (0, 1)


def test_tokens_are_split_by_modality_under_the_coming_names(
    make_recorded: Callable[..., Any],
) -> None:
    recorded = make_recorded(semconv="next")
    with chat() as span:
        span.set_usage(input=10)
        span.set_usage(input=7, modality="text")
    points = recorded.metrics()["gen_ai.client.inference.usage.input_tokens"]
    assert {p.attributes["gen_ai.token.modality"]: p.value for p in points} == {
        "text": 7,
        "unknown": 3,
    }


def test_metrics_can_be_left_out(make_recorded: Callable[..., Any]) -> None:
    recorded = make_recorded(metrics=False)
    with chat() as span:
        span.set_usage(input=1)
    assert recorded.metrics() == {}


def test_details_carry_structured_content_in_a_log_event(
    make_recorded: Callable[..., Any],
) -> None:
    policy = t.ContentPolicy(mode=t.ContentMode.EVENT_ONLY)
    recorded = make_recorded(policy=policy)
    with chat() as span:
        span.add_input("user", "hello")
        span.set_usage(input=1)
    (record,) = recorded.logs
    assert record.event_name == "gen_ai.client.inference.operation.details"
    assert record.span_id == span.context.span_id
    (message,) = record.attributes["gen_ai.input.messages"]
    assert message["role"] == "user"
    assert message["parts"][0]["content"] == "hello"
    assert record.attributes["gen_ai.usage.input_tokens"] == 1


def test_an_sdk_that_is_set_up_later_takes_effect_at_once() -> None:
    import subprocess
    import sys

    pytest.importorskip(
        "opentelemetry.sdk", reason="opentelemetry-sdk is not installed"
    )
    code = """
from lazycore.telemetry import genai_span
with genai_span("chat", provider="openai") as span:
    assert not span.is_recording()
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
with genai_span("chat", provider="openai") as span:
    assert span.is_recording()
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("semconv", "reasons", "said"),
    [
        ("2026-10", ["stop", "length"], ["stop", "length"]),
        ("2026-10", ["stop"], ["stop", "stop"]),
        ("2026-10", None, ["", ""]),
        ("next", ["stop"], [None, None]),
    ],
)
def test_output_messages_say_how_they_ended_while_receivers_ask_for_it(
    semconv: str,
    reasons: list[str] | None,
    said: list[str | None],
    make_recorded: Callable[..., Any],
) -> None:
    policy = t.ContentPolicy(mode=t.ContentMode.SPAN_ONLY)
    recorded = make_recorded(policy=policy, semconv=semconv)
    with chat() as span:
        span.add_output("assistant", "a").add_output("assistant", "b")
        span.set_response(finish_reasons=reasons)
    messages = json.loads(recorded.span.attributes["gen_ai.output.messages"])
    assert [message.get("finish_reason") for message in messages] == said


@pytest.mark.parametrize(
    ("mode", "emit", "events"),
    [
        ("", "", 0),
        ("", "true", 1),
        ("SPAN_ONLY", "", 0),
        ("EVENT_ONLY", "", 1),
        ("EVENT_ONLY", "false", 0),
        ("", "perhaps", 0),
    ],
)
def test_the_environment_decides_about_details(
    mode: str,
    emit: str,
    events: int,
    monkeypatch: pytest.MonkeyPatch,
    make_recorded: Callable[..., Any],
) -> None:
    prefix = "OTEL_INSTRUMENTATION_GENAI"
    monkeypatch.setenv(f"{prefix}_CAPTURE_MESSAGE_CONTENT", mode)
    monkeypatch.setenv(f"{prefix}_EMIT_EVENT", emit)
    recorded = make_recorded()
    with chat():
        pass
    assert len(recorded.logs) == events

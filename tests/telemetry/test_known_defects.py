"""Eleven faults that other telemetry helpers have; each is the right value here."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.telemetry import (
    ContentMode,
    ContentPolicy,
    add_evaluation_result,
    genai_span,
    set_ml_metric,
    tool_span,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "secret prompt text"
ON = ContentPolicy(mode=ContentMode.SPAN_ONLY)


def chat(**options: Any) -> Any:
    return genai_span("chat", provider="openai", model="m", **options)


def everything(recorded: Any) -> str:
    """Return all that was recorded as one text."""
    spans = [(s.name, dict(s.attributes), s.status.description) for s in recorded.spans]
    spans += [
        (e.name, dict(e.attributes), None) for s in recorded.spans for e in s.events
    ]
    logs = [(r.event_name, dict(r.attributes), r.body) for r in recorded.logs]
    points = [dict(p.attributes) for ps in recorded.metrics().values() for p in ps]
    return repr((spans, logs, points))


def test_1_exception_text_stays_out_while_content_is_off(recorded: Any) -> None:
    with pytest.raises(ValueError, match=SECRET), chat():
        raise ValueError(SECRET)
    assert SECRET not in everything(recorded)
    span = recorded.span
    assert span.status.status_code.name == "ERROR"
    assert span.status.description is None
    assert span.attributes["error.type"] == "ValueError"
    assert span.events == ()
    (record,) = recorded.logs
    assert record.event_name == "gen_ai.client.operation.exception"
    assert record.severity_number.value == 13
    assert dict(record.attributes) == {"exception.type": "ValueError"}


def test_2_an_object_in_a_message_never_raises_into_the_caller(
    make_recorded: Callable[..., Any],
) -> None:
    recorded = make_recorded(policy=ON)
    with chat() as span:
        span.add_input("user", {"type": "text", "content": object()})
    (message,) = json.loads(recorded.span.attributes["gen_ai.input.messages"])
    assert message["parts"][0]["content"].startswith("<object object")


def test_3_odd_tool_arguments_are_kept_in_a_valid_form(
    make_recorded: Callable[..., Any],
) -> None:
    recorded = make_recorded(policy=ON)
    cycle: dict[str, Any] = {"nan": float("nan"), "object": object}
    cycle["self"] = cycle
    with tool_span("search", arguments=cycle):
        pass
    found = json.loads(recorded.span.attributes["gen_ai.tool.call.arguments"])
    assert found == {
        "nan": "NaN",
        "object": "<class 'object'>",
        "self": "<dict: cycle>",
    }


def test_4_content_off_holds_for_manual_calls_and_a_raising_body_is_an_error(
    recorded: Any,
) -> None:
    with pytest.raises(RuntimeError), chat() as span:  # noqa: PT012 - the whole block
        span.add_input("user", SECRET)
        span.add_output("assistant", SECRET)
        raise RuntimeError
    assert SECRET not in everything(recorded)
    assert recorded.span.status.status_code.name == "ERROR"
    assert recorded.span.attributes["lazycore.input.char_count"] == len(SECRET)


def test_5_cancellation_is_an_error_with_its_type(recorded: Any) -> None:
    async def work() -> None:
        async with chat():
            await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert recorded.span.status.status_code.name == "ERROR"
    assert recorded.span.attributes["error.type"] == "asyncio.exceptions.CancelledError"


def test_6_a_lone_surrogate_in_an_attribute_is_replaced_and_kept(
    make_recorded: Callable[..., Any],
) -> None:
    recorded = make_recorded(policy=ON)
    with chat(conversation_id="a\ud800b") as span:
        span.add_input("user", "c\udfffd")
    found = recorded.span.attributes
    assert found["gen_ai.conversation.id"] == "a\ufffdb"
    assert json.loads(found["gen_ai.input.messages"])[0]["parts"][0]["content"] == (
        "c\ufffdd"
    )


def test_7_no_surrogate_reaches_a_name_a_status_or_an_event(
    make_recorded: Callable[..., Any],
) -> None:
    encoder = pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.common.trace_encoder",
        reason="opentelemetry-exporter-otlp-proto-common is not installed",
    )
    recorded = make_recorded(policy=ON)
    with (  # noqa: PT012 - the whole block
        pytest.raises(ValueError, match="quoted"),
        genai_span("chat", provider="openai", model="m\ud800") as span,
    ):
        span.add_event("e\ud800", {"k\ud800": "v\ud800"})
        raise ValueError("quoted \ud800")
    assert recorded.span.name == "chat m\ufffd"
    assert recorded.span.status.description == "quoted \ufffd"
    assert recorded.span.events[0].name == "e\ufffd"
    batch = encoder.encode_spans(recorded.spans).SerializeToString()
    assert batch


def test_8_what_is_known_after_the_end_still_arrives(
    recorded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with chat() as span:
        span.set_response(id="r-1")
    with caplog.at_level(logging.WARNING):
        add_evaluation_result(span, "relevance", score=0.5, label="fair")
    assert caplog.records == []
    (record,) = recorded.logs
    assert record.event_name == "gen_ai.evaluation.result"
    assert record.trace_id == span.context.trace_id
    assert record.span_id == span.context.span_id
    assert dict(record.attributes) == {
        "gen_ai.evaluation.name": "relevance",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.score.label": "fair",
        "gen_ai.response.id": "r-1",
    }


@pytest.mark.parametrize("word", ["nan", "inf", "-inf"])
def test_9_a_number_that_is_not_finite_is_said_beside_the_attribute(
    word: str, recorded: Any
) -> None:
    with chat(temperature=float(word)) as span:
        set_ml_metric(span, "loss", float(word))
    found = recorded.span.attributes
    assert "ml.metric.loss" not in found
    assert found["ml.metric.loss.nonfinite"] == word
    assert "gen_ai.request.temperature" not in found
    assert found["lazycore.dropped_attributes"] == ("gen_ai.request.temperature",)


def test_10_a_no_op_span_builds_no_mock_and_no_opentelemetry_span() -> None:
    with chat() as span:
        span.set_usage(input=1)
    assert span._span is None
    assert span._final == {}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import sys\n"
                "from lazycore.telemetry import genai_span\n"
                "with genai_span('chat', provider='openai') as span:\n"
                "    span.set_usage(input=1)\n"
                "assert 'unittest.mock' not in sys.modules\n"
                "assert 'opentelemetry.sdk' not in sys.modules\n"
            ),
        ],
        check=False,
        timeout=60,
    )
    assert done.returncode == 0


def test_11_every_module_imports_with_what_is_declared() -> None:
    import importlib.metadata

    required = importlib.metadata.requires("lazycore-telemetry")
    assert required is not None
    (only,) = required
    assert only.startswith("opentelemetry-api<")

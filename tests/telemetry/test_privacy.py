"""With content off, no string of a conversation reaches any signal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lazycore import telemetry as t
from lazycore.telemetry import ContentMode, ContentPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

CANARY = "canary-7f3a"


class LeakyError(Exception):
    """An exception that quotes a prompt in every place it has."""

    def __init__(self) -> None:
        super().__init__(CANARY, {"prompt": CANARY})
        self.add_note(CANARY)


def run_everything() -> None:
    """Put the canary on every path that content can take."""
    with t.workflow_span("audit"), t.agent_span("planner") as agent:
        agent.add_input("user", CANARY)
        agent.set_system(CANARY)
        with t.plan_span("planner"):
            for held in (t.carrier(baggage=True), t.carrier(environment=True)):
                assert CANARY not in repr(held)
        span = t.genai_span("chat", provider="openai", model="m").start()
        span.add_input("system", CANARY, name="operator")
        span.add_input("user", {"type": "text", "content": CANARY, CANARY: CANARY})
        span.add_input("user", {"type": "blob", "content": CANARY.encode()})
        span.set_system(CANARY, {"type": "text", "content": CANARY})
        span.set_tools([{"type": "function", "name": CANARY, "description": CANARY}])
        span.set_prompt_variables({"city": CANARY})
        for _ in span.stream([CANARY, {"content": CANARY}], end=False):
            pass
        span.add_output("assistant", CANARY, [CANARY], {CANARY: [CANARY]})
        t.add_transcript_event(span, "user", CANARY, tool_call_id="c")
        t.add_transcript_event(span, "assistant", {"content": CANARY})
        t.set_security_finding(span, "high", "LLM01", evidence=CANARY, title="leak")
        t.add_evaluation_result(span, "tone", score=1, explanation=CANARY)
        span.end(LeakyError())
        t.add_evaluation_result(span, "tone", error=LeakyError(), explanation=CANARY)
        t.set_security_finding(span, "low", evidence={"quote": CANARY})
        with t.tool_span("search", arguments={"q": CANARY}) as tool:
            tool.set_arguments(CANARY)
            tool.set_result([CANARY])
            tool.fail(LeakyError())
        with t.retrieval_span("kb", query=CANARY) as retrieval:
            retrieval.set_documents([{"id": "d", "text": CANARY}])
        with t.memory_span("search", store="s", query=CANARY) as memory:
            memory.set_records([CANARY])
        with pytest.raises(LeakyError), t.embeddings_span("openai", "m"):
            raise LeakyError
        with t.genai_span("audit.free") as free:
            from opentelemetry.trace import StatusCode

            free.set_status(StatusCode.ERROR, CANARY)
    stream = t.genai_span("chat", provider="openai").start().stream(broken())
    with pytest.raises(LeakyError):
        list(stream)
    with pytest.raises(LeakyError):
        decorated(CANARY)


def broken() -> Any:
    yield CANARY
    raise LeakyError


@t.genai_span("chat", provider="openai")
def decorated(_: str) -> None:
    raise LeakyError


def texts(recorded: Any) -> list[str]:
    """Return every text of every signal, as an exporter sees it."""
    found = []
    for span in recorded.spans:
        found.append(span.to_json())
        found.append(repr([(e.name, dict(e.attributes)) for e in span.events]))
        found.append(repr([dict(link.attributes or {}) for link in span.links]))
    for record in recorded.logs:
        found.append(record.to_json() if hasattr(record, "to_json") else "")
        found.append(repr((record.event_name, record.body, dict(record.attributes))))
    found.append(repr(recorded.metrics()))
    return found


OFF: dict[str, dict[str, Any]] = {
    "by default": {},
    "by policy": {"policy": ContentPolicy()},
    "with a keyed hash": {"policy": ContentPolicy(hash_key=b"0123456789abcdef")},
    "with a hook": {"policy": ContentPolicy(redact=lambda _, part: part)},
    "with details": {"policy": ContentPolicy(), "details": True},
    "under both names": {"semconv": "dup", "details": True},
    "under the next names": {"semconv": "next", "details": True},
    "with events on spans": {"events": "span"},
    "with events in logs": {"events": "logs"},
}


@pytest.mark.parametrize("setting", OFF)
def test_no_canary_reaches_any_signal_while_content_is_off(
    setting: str, make_recorded: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    recorded = make_recorded(**OFF[setting])
    with caplog.at_level("DEBUG"):
        run_everything()
    assert CANARY not in caplog.text
    assert len(recorded.spans) >= 11
    assert [text for text in texts(recorded) if CANARY in text] == []


@pytest.mark.parametrize(
    "value", ["true", "yes", "SPAN", "span_only ;", "0", "FULL", "?"]
)
def test_an_unknown_environment_value_records_nothing(
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    make_recorded: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
    recorded = make_recorded()
    run_everything()
    assert [text for text in texts(recorded) if CANARY in text] == []
    assert "recording no content" in caplog.text


def test_the_canary_is_found_where_content_is_on(
    make_recorded: Callable[..., Any],
) -> None:
    recorded = make_recorded(policy=ContentPolicy(mode=ContentMode.SPAN_AND_EVENT))
    run_everything()
    assert len([text for text in texts(recorded) if CANARY in text]) > 10


@pytest.mark.parametrize("mode", [ContentMode.SPAN_ONLY, ContentMode.EVENT_ONLY])
def test_each_mode_keeps_to_its_signal(
    mode: ContentMode, make_recorded: Callable[..., Any]
) -> None:
    recorded = make_recorded(policy=ContentPolicy(mode=mode))
    run_everything()
    spans = [s.to_json() for s in recorded.spans]
    logs = [repr((r.body, dict(r.attributes))) for r in recorded.logs]
    on_span, on_log = (any(CANARY in text for text in side) for side in (spans, logs))
    assert on_span is mode.on_span
    assert on_log is mode.on_event


def test_a_hook_sees_every_role_and_what_it_hides_stays_hidden(
    make_recorded: Callable[..., Any],
) -> None:
    roles = set()

    def redact(role: str, part: dict[str, Any]) -> Any:
        roles.add(role)
        return json.loads(json.dumps(part).replace(CANARY, "[hidden]"))

    policy = ContentPolicy(mode=ContentMode.SPAN_AND_EVENT, redact=redact)
    recorded = make_recorded(policy=policy)
    run_everything()
    assert [text for text in texts(recorded) if CANARY in text] == []
    assert roles == {
        "system",
        "user",
        "assistant",
        "tool",
        "definitions",
        "variables",
        "documents",
        "query",
        "records",
        "explanation",
        "evidence",
        "exception",
    }


def test_a_hook_that_fails_hides_the_part_and_is_counted(
    make_recorded: Callable[..., Any],
) -> None:
    def redact(_: str, part: dict[str, Any]) -> Any:
        raise RuntimeError(part)

    policy = ContentPolicy(mode=ContentMode.SPAN_AND_EVENT, redact=redact)
    recorded = make_recorded(policy=policy)
    run_everything()
    assert [text for text in texts(recorded) if CANARY in text] == []
    chat = next(s for s in recorded.spans if s.name == "chat m")
    assert chat.attributes["lazycore.withheld_parts"] > 5


def test_a_secret_at_the_cut_is_seen_whole_by_the_hook(
    make_recorded: Callable[..., Any],
) -> None:
    seen = []

    def redact(_: str, part: dict[str, Any]) -> Any:
        seen.append(part["content"])
        return {**part, "content": part["content"].replace(CANARY, "[hidden]")}

    policy = ContentPolicy(
        mode=ContentMode.SPAN_ONLY, redact=redact, max_part_chars=100
    )
    recorded = make_recorded(policy=policy)
    with t.genai_span("chat", provider="openai") as span:
        span.add_input("user", "x" * 95 + CANARY)
    assert seen == ["x" * 95 + CANARY]
    assert "canar" not in recorded.span.to_json()


def test_the_keyed_hash_recognises_equal_prompts_only_with_the_key(
    make_recorded: Callable[..., Any],
) -> None:
    found = []
    for key in (b"a" * 16, b"a" * 16, b"b" * 16):
        recorded = make_recorded(policy=ContentPolicy(hash_key=key))
        with t.genai_span("chat", provider="openai") as span:
            span.add_input("user", "hello")
        found.append(recorded.span.attributes["lazycore.input.hmac_sha256"])
    assert found[0] == found[1] != found[2]

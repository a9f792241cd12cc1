"""Every span, event and metric that can be emitted, held against the dated table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lazycore import telemetry as t
from lazycore.telemetry import ContentMode, ContentPolicy, conventions
from lazycore.telemetry import _operations as ops
from lazycore.telemetry._conformance import fits

if TYPE_CHECKING:
    from collections.abc import Callable

PROFILES = ("2026-10", "next", "dup")
REMOTE = "invoke_agent (remote)"
VALUES: dict[str, Any] = {
    "s": "x",
    "i": 3,
    "f": 0.5,
    "b": True,
    "l": ["a", "b"],
}
# Names that a receiver of the convention's earlier commit does not know.
YOUNGER_OPERATIONS = {"fetch_response"}


CONTENT: dict[str, Callable[[t.GenAISpan], Any]] = {
    "gen_ai.input.messages": lambda span: span.add_input("user", "hello"),
    "gen_ai.output.messages": lambda span: span.add_output("assistant", "hello"),
    "gen_ai.system_instructions": lambda span: span.set_system("be kind"),
    "gen_ai.tool.definitions": lambda span: span.set_tools([{"type": "function"}]),
    "gen_ai.prompt.variable": lambda span: span.set_prompt_variables({"a": "b"}),
    "gen_ai.tool.call.arguments": lambda span: span.set_arguments({"a": 1}),
    "gen_ai.tool.call.result": lambda span: span.set_result("r"),
    "gen_ai.retrieval.query.text": lambda span: span.set_query("q"),
    "gen_ai.retrieval.documents": lambda span: span.set_documents([{"id": "d"}]),
    "gen_ai.memory.query.text": lambda span: span.set_query("q"),
    "gen_ai.memory.records": lambda span: span.set_records([{"id": "r"}]),
}


def emit_all() -> list[str]:
    """Emit each operation with everything it takes; return the span names."""
    names = []
    for key in (*ops.OPERATIONS, REMOTE):
        remote = key == REMOTE
        operation = ops.REMOTE_AGENT if remote else ops.OPERATIONS[key]
        given: dict[str, Any] = {
            name: VALUES[operation.options[name][1]]
            for name in operation.allows - ops.CONTROLS
        }
        if "provider" in operation.takes:
            given["provider"] = "openai"
        if "model" in operation.takes:
            given["model"] = "m"
        if "output_type" in given:
            given["output_type"] = "json"
        given["request"] = {}
        with t.genai_span(operation.name, **given) as span:
            say_all(span, operation)
        names.append(key)
    return names


def say_all(span: t.GenAISpan, operation: ops.Operation) -> None:
    responses: dict[str, Any] = {
        "id": "r",
        "model": "m-1",
        "finish_reasons": ["stop"],
        "status": "completed",
    }
    span.set_response(**{k: v for k, v in responses.items() if k in operation.responds})
    counts = operation.usage - {"modality"}
    given: dict[str, Any] = dict.fromkeys(counts, 100)
    span.set_usage(**given)
    if "modality" in operation.usage:
        for modality in ("text", "image", "audio"):
            span.set_usage(input=10, output=10, cache_read=10, modality=modality)
    rules = conventions().operations
    known = rules[
        REMOTE
        if span._provider
        and operation.family == "client"
        and (operation.name == "invoke_agent")
        else operation.name
    ].known
    for name, say in CONTENT.items():
        if name in known:
            say(span)
    if "id" in operation.responds:
        list(span.stream(["a", "b", "c"]))
    t.set_security_finding(
        span,
        "high",
        ["LLM01", "ASI01"],
        atlas="AML.T0051",
        cwe="CWE-94",
        cve="CVE-2026-12345",
        cvss=8.1,
        rule_id="r",
        title="t",
        category="c",
        evidence="e",
        verdict="v",
        action="a",
        target="x",
    )
    t.set_ml_metric(span, "accuracy", 0.5, split="test", step=3, higher_is_better=True)
    t.add_transcript_event(span, "user", "hello", name="a", tool_call_id="c")
    t.add_evaluation_result(
        span, "tone", score=0.5, label="fair", explanation="why", error="timeout"
    )


@pytest.fixture(params=PROFILES)
def emitted(
    request: pytest.FixtureRequest, make_recorded: Callable[..., Any]
) -> tuple[str, Any]:
    policy = ContentPolicy(mode=ContentMode.SPAN_AND_EVENT)
    recorded = make_recorded(policy=policy, semconv=request.param)
    emit_all()
    with pytest.raises(ValueError, match="x"), t.genai_span("chat", provider="openai"):
        raise ValueError("x")
    return request.param, recorded


def test_the_table_is_consistent() -> None:
    assert conventions().problems() == []


def test_the_table_knows_every_operation_and_no_other() -> None:
    assert set(conventions().operations) == {*ops.OPERATIONS, REMOTE}


def test_every_option_is_in_the_table_under_its_type() -> None:
    letters = {
        "s": "string",
        "i": "int",
        "f": "double",
        "b": "boolean",
        "l": "string[]",
    }
    table = conventions()
    for options in (ops.OPTIONS, ops.RETRIEVAL_OPTIONS):
        for attribute, letter in options.values():
            entry = table.attribute(attribute)
            assert entry is not None, attribute
            assert entry.type == letters[letter], attribute
            assert entry.replaced_by is None, attribute


def test_no_option_strays_from_its_operation() -> None:
    for key, rules in conventions().operations.items():
        operation = ops.REMOTE_AGENT if key == REMOTE else ops.OPERATIONS[key]
        for option in operation.allows - ops.CONTROLS:
            assert operation.options[option][0] in rules.known, (key, option)


def test_every_span_conforms(emitted: tuple[str, Any]) -> None:
    profile, recorded = emitted
    table = conventions()
    assert len(recorded.spans) == len(ops.OPERATIONS) + 2
    for span in recorded.spans:
        assert table.violations(span, profile=profile) == [], span.name


def test_every_known_attribute_of_an_operation_is_emitted(
    emitted: tuple[str, Any],
) -> None:
    _, recorded = emitted
    rules = conventions().operations
    for span, key in zip(recorded.spans, (*ops.OPERATIONS, REMOTE), strict=False):
        given = {
            name
            if not name.startswith("gen_ai.prompt.variable.")
            else ("gen_ai.prompt.variable")
            for name in span.attributes
        }
        assert rules[key].known - given <= {"error.type"}, key


def test_every_event_conforms(emitted: tuple[str, Any]) -> None:
    _, recorded = emitted
    table = conventions()
    found = [("log", r.event_name, dict(r.attributes)) for r in recorded.logs]
    found += [
        ("span", e.name, dict(e.attributes)) for s in recorded.spans for e in s.events
    ]
    assert {name for _, name, _ in found} == set(table.events)
    for signal, name, attributes in found:
        event = table.events[name]
        assert signal in event.signals, name
        assert set(event.required) <= set(attributes), name
        for key, value in attributes.items():
            entry = table.attribute(key)
            assert entry is not None, key
            assert entry.name in {*event.required, *event.optional}, (name, key)
            assert fits(entry.type, value), (name, key, value)


def test_every_metric_conforms(emitted: tuple[str, Any]) -> None:
    profile, recorded = emitted
    table = conventions()
    found = recorded.metrics()
    expected = {m.name for m in table.metrics.values() if profile in m.profiles}
    assert set(found) == expected
    for name, points in found.items():
        metric = table.metrics[name]
        for point in points:
            assert set(point.attributes) <= set(metric.attributes), name
            if metric.buckets:
                assert tuple(point.explicit_bounds) == metric.buckets, name
            for key, value in point.attributes.items():
                entry = table.attribute(key)
                assert entry is not None
                assert fits(entry.type, value)


def test_an_independent_checker_agrees(emitted: tuple[str, Any]) -> None:
    oracle = pytest.importorskip(
        "pytest_genai_semconv.assertions",
        reason="pytest-genai-semconv is not installed",
    )
    _, recorded = emitted
    checked = 0
    for span in recorded.spans:
        if span.attributes["gen_ai.operation.name"] in YOUNGER_OPERATIONS:
            continue
        oracle.assert_genai_span_compliant(span)
        checked += 1
    assert checked == len(ops.OPERATIONS) + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gen_ai.operation.name": "chatt"}, "unknown operation chatt"),
        ({"gen_ai.system": "openai"}, "deprecated, use gen_ai.provider.name"),
        ({"gen_ai.request.seed": "7"}, "should be int"),
        ({"gen_ai.request.temperature": 1}, "should be double"),
        ({"gen_ai.response.finish_reasons": "stop"}, "should be string[]"),
        ({"gen_ai.request.stream": 1}, "should be boolean"),
        ({"gen_ai.tool.name": "x"}, "does not belong on chat"),
        ({"gen_ai.invented": 1}, "not in the table"),
        ({"gen_ai.provider.name": None}, "gen_ai.provider.name is required"),
        ({"gen_ai.request.model": "other"}, "the name should be 'chat other'"),
    ],
)
def test_the_checker_finds_planted_faults(change: dict[str, Any], message: str) -> None:
    from types import SimpleNamespace

    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
    } | change
    kept = {name: value for name, value in attributes.items() if value is not None}
    kind = SimpleNamespace(name="CLIENT")
    span = SimpleNamespace(name="chat m", kind=kind, attributes=kept)
    assert any(message in line for line in conventions().violations(span))
    span = SimpleNamespace(
        name="chat m", kind=SimpleNamespace(name="SERVER"), attributes=kept
    )
    if "operation" not in message:
        assert any("kind SERVER" in line for line in conventions().violations(span))

"""A mistake of the calling code raises, with an SDK and without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lazycore import telemetry as t
from lazycore.telemetry import TelemetryError, TelemetryUsageError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=["without an SDK", "with an SDK"])
def anywhere(request: pytest.FixtureRequest) -> None:
    if request.param == "with an SDK":
        request.getfixturevalue("recorded")


def chat(**options: Any) -> t.GenAISpan:
    return t.genai_span("chat", provider="openai", **options)


def opened() -> t.GenAISpan:
    return chat().start()


def ended() -> t.GenAISpan:
    span = opened()
    span.end()
    return span


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "misspelt operation": (
        lambda: t.genai_span("chatt", provider="openai"),
        "nearest is 'chat'",
    ),
    "empty operation": (lambda: t.genai_span(""), "unknown operation ''"),
    "operation is no text": (
        lambda: t.genai_span(7),  # type: ignore[arg-type]
        "unknown operation 7",
    ),
    "no provider": (lambda: t.genai_span("chat"), "needs provider"),
    "no provider for embeddings": (
        lambda: t.genai_span("embeddings"),
        "needs provider",
    ),
    "unknown option": (lambda: chat(temprature=1), "does not take temprature"),
    "option of another operation": (
        lambda: chat(tool="search"),
        "does not take tool",
    ),
    "option given twice": (
        lambda: chat(seed=1, request={"seed": 2}),
        "given twice: seed",
    ),
    "request is no dict": (lambda: chat(request=7), "request is a dict"),
    "unknown option in request": (
        lambda: chat(request={"sed": 1}),
        "does not take sed",
    ),
    "port without address": (lambda: chat(server_port=1), "server_address"),
    "tracer is none": (lambda: chat(tracer="x"), "tracer has no start_span"),
    "extra is none": (lambda: chat(extra="x"), "extra has no items"),
    "attributes is none": (lambda: chat(attributes=7), "attributes is a mapping"),
    "kind is none": (lambda: chat(kind="client"), "kind is an OpenTelemetry"),
    "context is none": (lambda: chat(context="x"), "context is an OpenTelemetry"),
    "tool without a name": (lambda: t.genai_span("execute_tool"), "needs tool"),
    "response without identifier": (
        lambda: t.genai_span("fetch_response", provider="openai"),
        "needs response_id",
    ),
    "provider on a tool": (
        lambda: t.genai_span("execute_tool", provider="x", tool="y"),
        "does not take provider",
    ),
    "provider on a local agent": (
        lambda: t.agent_span("a", provider="x"),
        "remote=True",
    ),
    "remote agent without provider": (
        lambda: t.agent_span("a", remote=True),
        "needs provider",
    ),
    "memory operation": (lambda: t.memory_span("find"), "give one of search"),
    "severity": (
        lambda: t.set_security_finding(opened(), "severe"),
        "give one of info",
    ),
    "owasp identifier": (
        lambda: t.set_security_finding(opened(), "high", "LLM11"),
        "unknown OWASP",
    ),
    "owasp edition": (
        lambda: t.set_security_finding(opened(), "high", "LLM02:2023"),
        "another edition",
    ),
    "owasp given twice": (
        lambda: t.set_security_finding(
            opened(), "high", "LLM01", owasp_mapping=["LLM02"]
        ),
        "give one",
    ),
    "atlas": (
        lambda: t.Finding(severity="high", atlas="T51"),  # type: ignore[arg-type]
        "MITRE ATLAS",
    ),
    "cwe": (
        lambda: t.Finding(severity="high", cwe="79"),  # type: ignore[arg-type]
        "CWE-94",
    ),
    "cve": (
        lambda: t.Finding(severity="high", cve="CVE-1"),  # type: ignore[arg-type]
        "CVE",
    ),
    "identifier is no text": (
        lambda: t.Finding(severity="high", owasp=(7,)),  # type: ignore[arg-type]
        "is a string",
    ),
    "identifiers are none": (
        lambda: t.Finding(severity="high", owasp=7),  # type: ignore[arg-type]
        "list of them",
    ),
    "cvss out of range": (
        lambda: t.Finding(severity="high", cvss=11),  # type: ignore[arg-type]
        "between 0.0 and 10.0",
    ),
    "cvss against severity": (
        lambda: t.Finding(severity="low", cvss=9.8),  # type: ignore[arg-type]
        "means critical",
    ),
    "cvss is not a number": (
        lambda: t.SecuritySeverity.from_cvss(float("nan")),
        "between 0.0",
    ),
    "metric name": (
        lambda: t.set_ml_metric(opened(), "F1 score", 1),
        "is no metric name",
    ),
    "empty metric name": (lambda: t.ml_metric_attribute(""), "is no metric name"),
    "metric names are checked first": (
        lambda: t.set_ml_metrics(opened(), {"f1": 1, "9": 2}),
        "is no metric name",
    ),
    "no span": (lambda: t.set_ml_metric("x", "f1", 1), "expected an OpenTelemetry"),  # type: ignore[arg-type]
    "evaluation without a name": (
        lambda: t.add_evaluation_result(opened(), ""),
        "has a name",
    ),
    "evaluation of nothing": (
        lambda: t.add_evaluation_result(7, "x"),  # type: ignore[arg-type]
        "expected an OpenTelemetry",
    ),
    "usage of a tool": (
        lambda: t.tool_span("x").start().set_usage(input=1),
        "has no input",
    ),
    "cache of a local agent": (
        lambda: t.agent_span("x").start().set_usage(cache_read=1),
        "has no cache_read",
    ),
    "status of a chat": (lambda: opened().set_response(status="x"), "no status"),
    "modality": (
        lambda: opened().set_usage(input=1, modality="smell"),
        "unknown modality",
    ),
    "reasoning by modality": (
        lambda: opened().set_usage(reasoning=1, modality="text"),
        "has no reasoning",
    ),
    "late request option": (
        lambda: opened().set_request(tool="x"),
        "does not take tool",
    ),
    "response after the end": (lambda: ended().set_response(id="x"), "has ended"),
    "usage after the end": (lambda: ended().set_usage(input=1), "has ended"),
    "message after the end": (lambda: ended().add_input("user", "x"), "has ended"),
    "attribute after the end": (lambda: ended().set_attribute("a", 1), "has ended"),
    "started twice": (lambda: opened().start(), "started already"),
    "ended before it started": (lambda: chat().end(), "never started"),
    "streamed before it started": (lambda: chat().stream([1]), "start the span"),
    "policy": (
        lambda: t.configure(policy="full"),  # type: ignore[arg-type]
        "policy is a ContentPolicy",
    ),
    "semconv": (
        lambda: t.configure(semconv="2025-01"),  # type: ignore[arg-type]
        "unknown semconv",
    ),
    "events": (
        lambda: t.configure(events="all"),  # type: ignore[arg-type]
        "unknown events",
    ),
    "metrics": (
        lambda: t.configure(metrics="on"),  # type: ignore[arg-type]
        "True or False",
    ),
    "content mode": (
        lambda: t.ContentPolicy(mode="SPAN_ONLY"),  # type: ignore[arg-type]
        "mode is a ContentMode",
    ),
    "hash key": (lambda: t.ContentPolicy(hash_key=b"short"), "at least 16"),
    "redaction hook": (
        lambda: t.ContentPolicy(redact=7),  # type: ignore[arg-type]
        "redact is called",
    ),
    "part limit": (lambda: t.ContentPolicy(max_part_chars=1), "int >= 16"),
    "total limit": (lambda: t.ContentPolicy(max_total_bytes=1), "int >= 1024"),
    "carrier": (lambda: t.attach_carrier("x"), "a carrier is a mapping"),  # type: ignore[arg-type]
    "function": (lambda: t.run_in_context(7), "expected a function"),  # type: ignore[arg-type]
    "findings": (lambda: t.findings_to_sarif([7]), "expected a Finding"),  # type: ignore[list-item]
}


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("name", CALLS)
def test_a_mistake_raises_and_says_what_to_do(name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(TelemetryUsageError) as caught:
        call()
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TelemetryError)


@pytest.mark.usefixtures("anywhere")
def test_ending_twice_and_early_settings_are_no_mistakes() -> None:
    span = chat().set_response(id="x").set_usage(input=1).add_input("user", "x")
    span.set_request(seed=3).start()
    span.end()
    span.end()


def test_what_is_said_before_the_start_is_recorded(recorded: Any) -> None:
    span = chat(model="m").set_response(id="x").set_usage(input=1).set_request(seed=3)
    span.start().end()
    assert recorded.span.attributes["gen_ai.response.id"] == "x"
    assert recorded.span.attributes["gen_ai.usage.input_tokens"] == 1
    assert recorded.span.attributes["gen_ai.request.seed"] == 3

"""The names that users of the single package rely on, and their call forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lazycore import telemetry
from lazycore.telemetry import (
    ATTR_GENAI_EVENT_CONTENT,
    ATTR_GENAI_EVENT_ROLE,
    ATTR_ML_METRIC_ACCURACY,
    ATTR_ML_METRIC_PREFIX,
    ATTR_OWASP_MAPPING,
    ATTR_SECURITY_SEVERITY,
    SecuritySeverity,
    add_transcript_event,
    genai_span,
    get_tracer,
    ml_metric_attribute,
    set_ml_metric,
    set_security_finding,
)

if TYPE_CHECKING:
    from typing import Any as Recorded


def test_constants_keep_their_values() -> None:
    assert ATTR_SECURITY_SEVERITY == "security.severity"
    assert ATTR_OWASP_MAPPING == "owasp.mapping"
    assert ATTR_ML_METRIC_PREFIX == "ml.metric."
    assert ATTR_ML_METRIC_ACCURACY == "ml.metric.accuracy"
    assert ATTR_GENAI_EVENT_ROLE == "gen_ai.event.role"
    assert ATTR_GENAI_EVENT_CONTENT == "gen_ai.event.content"
    assert [s.value for s in SecuritySeverity] == [
        "info",
        "low",
        "medium",
        "high",
        "critical",
    ]
    assert SecuritySeverity.HIGH == "high"  # type: ignore[comparison-overlap]
    assert ml_metric_attribute("accuracy") == "ml.metric.accuracy"


def test_without_an_sdk_every_call_is_a_safe_no_op() -> None:
    with get_tracer().start_as_current_span("plain") as plain:
        set_ml_metric(plain, "accuracy", 0.9)
        set_security_finding(plain, severity="high", owasp_mapping=["LLM01"])
        add_transcript_event(plain, "user", "hello", turn=1)
    with genai_span("chat", provider="openai", model="m") as span:
        span.set_response(id="r", model="m-1", finish_reasons=("stop",))
        span.set_usage(input=1, output=2)
        set_ml_metric(span, "f1", 0.5)
        set_security_finding(span, SecuritySeverity.LOW, "LLM02")
        add_transcript_event(span, "assistant", "hello")
    assert not span.is_recording()
    assert span.traceparent is None


def test_the_documented_call_writes_todays_names(recorded: Recorded) -> None:
    with genai_span(
        "chat", provider="openai", model="m", temperature=0.5, max_tokens=100
    ) as span:
        span.set_response(id="r-1", model="m-1", finish_reasons=("stop",))
        span.set_usage(input=12, output=3)
    found = recorded.span
    assert found.name == "chat m"
    assert found.kind.name == "CLIENT"
    assert found.status.status_code.name == "UNSET"
    assert dict(found.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.response.id": "r-1",
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
    }
    assert found.instrumentation_scope.name == "lazycore.telemetry"
    assert found.instrumentation_scope.schema_url == telemetry.conventions().schema_url


def test_a_dotted_name_makes_a_span_under_that_name(recorded: Recorded) -> None:
    with genai_span("audit.probe.run", attributes={"probe": 7}) as span:
        set_security_finding(span, severity="high", owasp_mapping=["LLM01"])
        span.set_attribute("note", "kept")
    found = recorded.span
    assert found.name == "audit.probe.run"
    assert found.attributes["probe"] == 7
    assert found.attributes["note"] == "kept"
    assert found.attributes[ATTR_SECURITY_SEVERITY] == "high"
    assert found.attributes[ATTR_OWASP_MAPPING] == ("LLM01:2025",)
    assert found.status.status_code.name == "UNSET"


def test_a_tracer_of_the_callers_own_is_used(recorded: Recorded) -> None:
    tracer = get_tracer("my.module", tracer_provider=recorded.tracer_provider)
    with genai_span("my.work", tracer=tracer):
        pass
    assert recorded.span.instrumentation_scope.name == "my.module"


def test_every_public_name_is_documented_with_an_example() -> None:
    for name in telemetry.__all__:
        value = getattr(telemetry, name)
        if name.startswith("ATTR_"):
            continue
        assert value.__doc__, name
        assert ">>>" in value.__doc__, name


def test_an_unknown_public_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = telemetry.nonsense
    assert set(dir(telemetry)) == set(telemetry.__all__)

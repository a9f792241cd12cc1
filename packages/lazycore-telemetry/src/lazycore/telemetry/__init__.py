"""GenAI spans, security findings, ML metrics and evaluations over opentelemetry-api.

Without an SDK everything here is a no-op that costs next to nothing. Mistakes in the
calling code raise `TelemetryUsageError` all the same; data never raises.
"""

from importlib import import_module

# Type checkers take this name for true; importing typing would cost more than all
# the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from lazycore.telemetry._conventions import Conventions, conventions
    from lazycore.telemetry._errors import TelemetryError, TelemetryUsageError
    from lazycore.telemetry._evaluation import add_evaluation_result
    from lazycore.telemetry._findings import Finding, set_security_finding
    from lazycore.telemetry._ml_metrics import (
        ml_metric_attribute,
        set_ml_metric,
        set_ml_metrics,
    )
    from lazycore.telemetry._names import (
        ATTR_GENAI_EVENT_CONTENT,
        ATTR_GENAI_EVENT_ROLE,
        ATTR_ML_METRIC_ACCURACY,
        ATTR_ML_METRIC_PREFIX,
        ATTR_OWASP_MAPPING,
        ATTR_SECURITY_SEVERITY,
    )
    from lazycore.telemetry._policy import ContentMode, ContentPolicy
    from lazycore.telemetry._propagation import attach_carrier, carrier, run_in_context
    from lazycore.telemetry._reports import findings_to_sarif
    from lazycore.telemetry._runtime import configure, get_tracer
    from lazycore.telemetry._severity import SecuritySeverity
    from lazycore.telemetry._span import GenAISpan
    from lazycore.telemetry._spans import (
        agent_span,
        embeddings_span,
        genai_span,
        memory_span,
        plan_span,
        retrieval_span,
        tool_span,
        workflow_span,
    )
    from lazycore.telemetry._transcript import add_transcript_event

_HOMES = {
    "ATTR_GENAI_EVENT_CONTENT": "_names",
    "ATTR_GENAI_EVENT_ROLE": "_names",
    "ATTR_ML_METRIC_ACCURACY": "_names",
    "ATTR_ML_METRIC_PREFIX": "_names",
    "ATTR_OWASP_MAPPING": "_names",
    "ATTR_SECURITY_SEVERITY": "_names",
    "ContentMode": "_policy",
    "ContentPolicy": "_policy",
    "Conventions": "_conventions",
    "Finding": "_findings",
    "GenAISpan": "_span",
    "SecuritySeverity": "_severity",
    "TelemetryError": "_errors",
    "TelemetryUsageError": "_errors",
    "add_evaluation_result": "_evaluation",
    "add_transcript_event": "_transcript",
    "agent_span": "_spans",
    "attach_carrier": "_propagation",
    "carrier": "_propagation",
    "configure": "_runtime",
    "conventions": "_conventions",
    "embeddings_span": "_spans",
    "findings_to_sarif": "_reports",
    "genai_span": "_spans",
    "get_tracer": "_runtime",
    "memory_span": "_spans",
    "ml_metric_attribute": "_ml_metrics",
    "plan_span": "_spans",
    "retrieval_span": "_spans",
    "run_in_context": "_propagation",
    "set_ml_metric": "_ml_metrics",
    "set_ml_metrics": "_ml_metrics",
    "set_security_finding": "_findings",
    "tool_span": "_spans",
    "workflow_span": "_spans",
}

__all__ = [
    "ATTR_GENAI_EVENT_CONTENT",
    "ATTR_GENAI_EVENT_ROLE",
    "ATTR_ML_METRIC_ACCURACY",
    "ATTR_ML_METRIC_PREFIX",
    "ATTR_OWASP_MAPPING",
    "ATTR_SECURITY_SEVERITY",
    "ContentMode",
    "ContentPolicy",
    "Conventions",
    "Finding",
    "GenAISpan",
    "SecuritySeverity",
    "TelemetryError",
    "TelemetryUsageError",
    "add_evaluation_result",
    "add_transcript_event",
    "agent_span",
    "attach_carrier",
    "carrier",
    "configure",
    "conventions",
    "embeddings_span",
    "findings_to_sarif",
    "genai_span",
    "get_tracer",
    "memory_span",
    "ml_metric_attribute",
    "plan_span",
    "retrieval_span",
    "run_in_context",
    "set_ml_metric",
    "set_ml_metrics",
    "set_security_finding",
    "tool_span",
    "workflow_span",
]


def __getattr__(name: str) -> object:
    """Import a public name's module on first use: spans cost only who opens them."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

"""Say how good an answer was, often long after its span has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.telemetry import _events, _runtime
from lazycore.telemetry._compose import clean_name, error_type, lost
from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._names import EVENT_EVALUATION
from lazycore.telemetry._span import GenAISpan
from lazycore.telemetry._target import target_span
from lazycore.telemetry._text import metadata
from lazycore.telemetry._values import as_float

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext
    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._runtime import Runtime

__all__ = ["add_evaluation_result"]


def add_evaluation_result(
    target: Span | SpanContext | GenAISpan | str,
    name: str,
    *,
    score: object = None,
    label: object = None,
    explanation: object = None,
    error: BaseException | str | None = None,
    response_id: object = None,
) -> None:
    """Record an evaluation as a `gen_ai.evaluation.result` event.

    It works after the evaluated span has ended: the event then goes through the Logs
    API under that span's identity. Where no logs pipeline exists, a linked span
    `evaluation {name}` carries it, so that receivers of spans alone get it too.

    Args:
        target: What was evaluated: a span, its context, or a response identifier.
        name: Name of the evaluation, such as `relevance`.
        score: A number; one that is not finite is left out.
        label: Such as `pass` or `relevant`.
        explanation: Why; recorded as the content policy allows.
        error: What kept the evaluation from a result.
        response_id: Identifier of the response that was evaluated.

    Raises:
        TelemetryUsageError: If the name is empty or the target is none of these.

    Example:
        >>> from lazycore.telemetry import genai_span
        >>> with genai_span("chat", provider="openai") as span:
        ...     pass
        >>> add_evaluation_result(span, "relevance", score=0.9, label="relevant")
    """
    given: object = name
    if not isinstance(given, str) or not given.strip():
        raise TelemetryUsageError("an evaluation has a name, such as 'relevance'")
    span = _target(target)
    runtime = _runtime.current()
    if isinstance(target, str):
        response_id = target
    elif isinstance(target, GenAISpan) and response_id is None:
        response_id = target.response_id
    attributes = _attributes(name, score, label, error, response_id)
    policy = runtime.settings.policy
    on_span = dict(attributes)
    on_log = dict(attributes)
    if explanation is not None and policy.captures:
        text = policy.text("explanation", explanation)
        if text is not None:
            if policy.mode.on_span:
                on_span["gen_ai.evaluation.explanation"] = text
            if policy.mode.on_event:
                on_log["gen_ai.evaluation.explanation"] = text
    _deliver(name, runtime, span, on_span, on_log)


def _target(target: object) -> Span | None:
    if isinstance(target, str):
        return None
    if hasattr(target, "trace_id") and hasattr(target, "span_id"):
        from opentelemetry.trace import NonRecordingSpan

        return NonRecordingSpan(target)  # type: ignore[arg-type] # a SpanContext by its fields
    return target_span(target)


def _attributes(
    name: str, score: object, label: object, error: object, response_id: object
) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {"gen_ai.evaluation.name": metadata(name)}
    if score is not None:
        value = as_float(score)
        if value is not None:
            found["gen_ai.evaluation.score.value"] = value
    if label is not None:
        found["gen_ai.evaluation.score.label"] = metadata(label)
    if response_id is not None:
        found["gen_ai.response.id"] = metadata(response_id)
    if error is not None:
        found["error.type"] = error_type(error)
    return found


def _deliver(
    name: str,
    runtime: Runtime,
    span: Span | None,
    on_span: dict[str, AttributeValue],
    on_log: dict[str, AttributeValue],
) -> None:
    from opentelemetry.trace import Link, set_span_in_context

    events = runtime.settings.events
    if events == "none":
        return
    if span is not None and span.is_recording():
        _events.emit(runtime, span, EVENT_EVALUATION, on_span, structured=on_log)  # type: ignore[arg-type] # scalars
        return
    identified = span is not None and span.get_span_context().is_valid
    if span is not None and not identified:
        return
    if events in {"both", "logs"} and runtime.logging:
        context = None if span is None else set_span_in_context(span)
        _events.emit_log(runtime, EVENT_EVALUATION, on_log, context)
        return
    links = [] if span is None else [Link(span.get_span_context())]
    parent = None if span is None else set_span_in_context(span)
    try:
        carrier = runtime.tracer.start_span(
            clean_name(f"evaluation {metadata(name)}"),
            parent,
            attributes=on_span,
            links=links,
        )
        carrier.end()
    except Exception as error:  # noqa: BLE001 - a sampler or a processor
        lost("record an evaluation as", error)

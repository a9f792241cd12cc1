"""Events: through the Logs API, and on the span where receivers read only spans."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

from lazycore.telemetry._names import EVENT_DETAILS, EVENT_EXCEPTION
from lazycore.telemetry._text import type_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._runtime import Runtime
    from lazycore.telemetry._span import GenAISpan
    from lazycore.telemetry._values import JSON

__all__ = ["details", "emit", "emit_log", "exception"]

WARN: Final = 13
INFO: Final = 9


def emit_log(
    runtime: Runtime,
    name: str,
    attributes: Mapping[str, JSON] | Mapping[str, AttributeValue],
    context: Context | None,
    *,
    severity: int = INFO,
) -> None:
    """Emit one event through the Logs API."""
    from opentelemetry._logs import SeverityNumber

    try:
        runtime.logger.emit(
            event_name=name,
            attributes=attributes,
            context=context,
            severity_number=SeverityNumber(severity),
        )
    except Exception as error:  # noqa: BLE001 - a log processor may do anything
        from lazycore.telemetry._compose import lost

        lost("emit an event of", error)


def emit(
    runtime: Runtime,
    span: Span,
    name: str,
    attributes: Mapping[str, AttributeValue],
    *,
    structured: Mapping[str, JSON] | None = None,
    severity: int = INFO,
    timestamp: int | None = None,
) -> None:
    """Emit an event about a span where the settings want it.

    On an ended span only the Logs API can still carry it.
    """
    from opentelemetry.trace import set_span_in_context

    events = runtime.settings.events
    if events == "none":
        return
    recording = span.is_recording()
    if recording and events in {"both", "span"}:
        span.add_event(name, attributes, timestamp)
    if events in {"both", "logs"} and span.get_span_context().is_valid:
        emit_log(
            runtime,
            name,
            structured if structured is not None else attributes,
            set_span_in_context(span),
            severity=severity,
        )


def exception(runtime: Runtime, span: GenAISpan, error: BaseException) -> None:
    """Emit the exception event; its text and trace only where the policy allows."""
    if runtime.settings.events not in {"both", "logs"}:
        return
    found: dict[str, AttributeValue] = {"exception.type": type_name(type(error))}
    policy = runtime.settings.policy
    if policy.mode.on_event:
        message = policy.text("exception", error)
        if message is not None:
            found["exception.message"] = message
        stack = policy.text("exception", _stack(error))
        if stack is not None:
            found["exception.stacktrace"] = stack
    emit_log(runtime, EVENT_EXCEPTION, found, span._measured_context(), severity=WARN)


def _stack(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - an exception may refuse to be shown
        return ""


def details(
    runtime: Runtime, span: GenAISpan, response: Mapping[str, AttributeValue]
) -> None:
    """Emit the event that carries the whole inference, content structured."""
    from lazycore.telemetry._compose import write_options

    found: dict[str, JSON] = {"gen_ai.operation.name": span._operation.name}
    if span._provider is not None:
        found["gen_ai.provider.name"] = _json(span._provider)
    if span._model is not None:
        found["gen_ai.request.model"] = _json(span._model)
    given: dict[str, AttributeValue] = {}
    write_options(span._operation, span._options, given)
    for name, value in given.items():
        found[name] = _json(value)
    for name, value in response.items():
        found[name] = _json(value)
    if span._content is not None:
        found |= span._content.event_attributes()
    # Former names are for the dashboards of spans.
    former = "gen_ai.usage.cache_creation.input_tokens"
    known = {
        name: value
        for name, value in found.items()
        if not name.startswith("lazycore.") and name != former
    }
    emit_log(runtime, EVENT_DETAILS, known, span._measured_context())


def _json(value: object) -> JSON:
    from lazycore.telemetry._values import normalise

    return normalise(value, max_chars=4096)

"""Write what a span says: attributes at its start, the rest in one go at its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from lazycore.telemetry import _events
from lazycore.telemetry._text import metadata, type_name
from lazycore.telemetry._values import (
    as_attribute,
    as_bool,
    as_float,
    as_int,
    as_strings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.trace import Span, Tracer
    from opentelemetry.trace.status import Status, StatusCode
    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._operations import Operation
    from lazycore.telemetry._runtime import Runtime
    from lazycore.telemetry._span import GenAISpan

__all__ = [
    "clean_name",
    "extra",
    "finish",
    "metric_attributes",
    "options",
    "set_status",
    "start",
]

_READ: Final[dict[str, Callable[[object], AttributeValue | None]]] = {
    "s": metadata,
    "i": as_int,
    "f": as_float,
    "b": as_bool,
    "l": as_strings,
}
_RESPONSE: Final[dict[str, tuple[str, Callable[[object], AttributeValue | None]]]] = {
    "id": ("gen_ai.response.id", metadata),
    "model": ("gen_ai.response.model", metadata),
    "finish_reasons": ("gen_ai.response.finish_reasons", as_strings),
    "status": ("gen_ai.response.status", metadata),
}
_USAGE: Final = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_write.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}
_USAGE_MODAL: Final = {
    f"{kind}.{side}": f"gen_ai.usage.{kind}.{name}"
    for kind in ("text", "image", "audio")
    for side, name in (
        ("input", "input_tokens"),
        ("output", "output_tokens"),
        ("cache_read", "cache_read.input_tokens"),
    )
}
_ALL_USAGE: Final = {**_USAGE, **_USAGE_MODAL}
# Names that dashboards of before read; written beside today's under "dup".
_FORMER_PROVIDERS: Final = {
    "azure.ai.inference": "az.ai.inference",
    "azure.ai.openai": "az.ai.openai",
    "gcp.gemini": "gemini",
    "gcp.vertex_ai": "vertex_ai",
    "x_ai": "xai",
}
# Said only where it differs from what everybody assumes.
_SILENT: Final = {"choice_count": 1, "stream": False, "compacted": False}

MAX_NAME_CHARS: Final = 512


def clean_name(name: object) -> str:
    """Return a span or event name that no exporter chokes on."""
    found = metadata(name)
    return found if len(found) <= MAX_NAME_CHARS else found[: MAX_NAME_CHARS - 1] + "…"


def start(
    runtime: Runtime,
    tracer: Tracer,
    operation: Operation,
    provider: object,
    model: object,
    given: dict[str, object],
) -> Span:
    """Start the OpenTelemetry span with everything that samplers may look at."""
    attributes: dict[str, AttributeValue] = {}
    if operation.name:
        attributes["gen_ai.operation.name"] = operation.name
    if provider is not None:
        provider = metadata(provider)
        attributes["gen_ai.provider.name"] = provider
        if runtime.settings.semconv == "dup":
            attributes["gen_ai.system"] = _FORMER_PROVIDERS.get(provider, provider)
    if model is not None:
        model = metadata(model)
        attributes["gen_ai.request.model"] = model
    attributes |= options(operation, given)
    target = model if operation.target == "model" else given.get(operation.target)
    name = given.get("name")
    if name is None:
        name = (
            operation.name if target is None else f"{operation.name} {metadata(target)}"
        )
    for key in ("attributes", "extra"):
        own = given.get(key)
        if own is not None:
            attributes |= extra(own)
    kind = given.get("kind")
    if kind is None:
        kind = runtime.kinds[operation.kind]
    return tracer.start_span(
        clean_name(name),
        given.get("context"),  # type: ignore[arg-type] # checked by the caller
        kind,  # type: ignore[arg-type] # checked by the caller
        attributes,
        given.get("links"),  # type: ignore[arg-type] # checked by the caller
    )


def options(
    operation: Operation, given: Mapping[str, object]
) -> dict[str, AttributeValue]:
    """Return the attributes of request options."""
    found: dict[str, AttributeValue] = {}
    known = operation.options
    dropped: list[str] | None = None
    for key, value in given.items():
        entry = known.get(key)
        if entry is None or value is None:
            continue
        attribute, kind = entry
        read = _READ[kind](value)
        if read is None:
            dropped = [*(dropped or ()), attribute]
        elif _SILENT.get(key) != read:
            found[attribute] = read
    if dropped:
        found["lazycore.dropped_attributes"] = dropped
    return found


def extra(given: object) -> dict[str, AttributeValue]:
    """Return attributes of the developer's own, made safe."""
    found: dict[str, AttributeValue] = {}
    try:
        pairs = list(given.items())  # type: ignore[attr-defined] # may raise
    except Exception:  # noqa: BLE001 - foreign mappings may refuse
        return found
    for key, value in pairs:
        name = metadata(key)
        try:
            read = as_attribute(value)
        except Exception:  # noqa: BLE001 - foreign values may refuse
            read = f"<{type_name(type(value))}>"
        if name and read is not None:
            found[name] = read
    return found


def error_type(error: object) -> str:
    """Return `error.type`: the provider's code, or the exception's qualified name."""
    if isinstance(error, BaseException):
        return type_name(type(error))
    return metadata(error) or "_OTHER"


def failed(error: object) -> bool:
    """Tell failures from a consumer that stopped early."""
    return error is not None and not isinstance(error, GeneratorExit)


def finish(span: GenAISpan) -> None:
    """Write the rest, end the span and record its metrics; never raises for data."""
    problem = span._problem
    error = error_type(problem) if failed(problem) else None
    try:
        if span._recording:
            _write(span, error)
    finally:
        if span._span is not None:
            span._span.end()
    if span._metered:
        _measure(span, error)


def _write(span: GenAISpan, error: str | None) -> None:
    target = span._span
    assert target is not None
    attributes = _response_attributes(span, error)
    if attributes:
        target.set_attributes(attributes)
    content = span._content
    if content is not None:
        target.set_attributes(content.span_attributes())
    if error is not None:
        _mark_failed(span, target)
    runtime = span._runtime
    if runtime.settings.details and span._operation.family == "inference":
        _events.details(runtime, span, attributes)


def _response_attributes(
    span: GenAISpan, error: str | None
) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    response = span._response
    if response is not None:
        for key, value in response.items():
            attribute, read = _RESPONSE[key]
            found = read(value)
            if found is not None:
                attributes[attribute] = found
    usage = span._usage
    if usage is not None:
        for key, count in usage.items():
            attributes[_ALL_USAGE[key]] = count
        if "cache_write" in usage and span._runtime.settings.semconv == "dup":
            attributes["gen_ai.usage.cache_creation.input_tokens"] = usage[
                "cache_write"
            ]
    if span._chunked is not None and span._operation.family == "inference":
        attributes["gen_ai.response.time_to_first_chunk"] = span._chunked
        attributes["gen_ai.request.stream"] = True
    if error is not None:
        attributes["error.type"] = error
        if span._chunked is not None and "gen_ai.response.finish_reasons" not in (
            attributes
        ):
            # A choice that never ended counts as an error of its own.
            count = as_int(span._options.get("choice_count")) or 1
            attributes["gen_ai.response.finish_reasons"] = ("error",) * min(count, 128)
    return attributes


def _mark_failed(span: GenAISpan, target: Span) -> None:
    from opentelemetry.trace.status import Status, StatusCode

    problem = span._problem
    policy = span._runtime.settings.policy
    text = None
    if policy.mode.on_span and isinstance(problem, BaseException):
        text = policy.text("exception", problem)
    target.set_status(Status(StatusCode.ERROR, text))
    if isinstance(problem, BaseException):
        _events.exception(span._runtime, span, problem)


def set_status(
    span: GenAISpan, status: Status | StatusCode, description: str | None
) -> None:
    """Set a status of the developer's own, its text by policy."""
    from opentelemetry.trace.status import Status

    code = status.status_code if isinstance(status, Status) else status
    text = status.description if isinstance(status, Status) else description
    policy = span._runtime.settings.policy
    if text is not None:
        text = policy.text("exception", text) if policy.mode.on_span else None
    assert span._span is not None
    span._span.set_status(Status(code, text if code.name == "ERROR" else None))


def metric_attributes(span: GenAISpan, error: str | None) -> dict[str, AttributeValue]:
    """Return the few attributes that metrics carry."""
    operation, given = span._operation, span._options
    found: dict[str, AttributeValue] = {}
    family = operation.family
    if family in _OWN_LABELS:
        for key, attribute in _OWN_LABELS[family]:
            value = given.get(key)
            if value is not None:
                found[attribute] = metadata(value)
        if family == "agent" and span._model is not None:
            found["gen_ai.request.model"] = metadata(span._model)
    else:
        found["gen_ai.operation.name"] = operation.name
        if span._provider is not None:
            found["gen_ai.provider.name"] = metadata(span._provider)
        if span._model is not None:
            found["gen_ai.request.model"] = metadata(span._model)
        response = span._response
        if response is not None and "model" in response:
            found["gen_ai.response.model"] = metadata(response["model"])
        address = given.get("server_address")
        if address is not None:
            found["server.address"] = metadata(address)
            port = as_int(given.get("server_port"))
            if port is not None:
                found["server.port"] = port
    if error is not None:
        found["error.type"] = error
    return found


_OWN_LABELS: Final = {
    "tool": (
        ("tool", "gen_ai.tool.name"),
        ("tool_type", "gen_ai.tool.type"),
        ("agent", "gen_ai.agent.name"),
    ),
    "agent": (("agent", "gen_ai.agent.name"),),
    "workflow": (("workflow", "gen_ai.workflow.name"),),
}


def _measure(span: GenAISpan, error: str | None) -> None:
    family = span._operation.family
    if not family:
        return
    seconds = time.perf_counter() - span._began
    attributes = metric_attributes(span, error)
    context = span._measured_context()
    instruments = span._runtime.instruments
    instruments.duration(family, seconds, attributes, context)
    usage = span._usage
    refused = error is not None and span._chunked is None
    if usage is not None or refused:
        instruments.tokens(family, usage or {}, attributes, context, refused=refused)

"""Write what a span says: attributes at its start, the rest in one go at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lazycore.telemetry import _events
from lazycore.telemetry._attributes import own_attributes
from lazycore.telemetry._text import metadata, type_name
from lazycore.telemetry._usage import USAGE
from lazycore.telemetry._values import (
    MANY,
    as_bool,
    as_float,
    as_int,
    as_strings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.trace.status import Status, StatusCode
    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._operations import Operation
    from lazycore.telemetry._record import SpanRecord
    from lazycore.telemetry._runtime import Runtime
    from lazycore.telemetry._span import GenAISpan

__all__ = [
    "clean_name",
    "finish",
    "lost",
    "set_status",
    "start",
    "write_options",
]

_READ: Final[dict[str, Callable[[object], AttributeValue | None]]] = {
    "s": metadata,
    "i": as_int,
    "f": as_float,
    "b": as_bool,
    "l": as_strings,
}
# Names that dashboards of before read; written beside today's under "dup".
_FORMER_PROVIDERS: Final = {
    "azure.ai.inference": "az.ai.inference",
    "azure.ai.openai": "az.ai.openai",
    "gcp.gemini": "gemini",
    "gcp.vertex_ai": "vertex_ai",
    "x_ai": "xai",
}
_FORMER_CACHE_WRITE: Final = "gen_ai.usage.cache_creation.input_tokens"
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
    record: SpanRecord,
    context: Context,
) -> Span:
    """Start the OpenTelemetry span with everything that samplers may look at."""
    shape, given = record._shape, record._options
    provider, model = record._provider, record._model
    operation = shape.operation
    name, attributes = _head(runtime, operation.name, provider, model)
    if given:
        write_options(operation, given, attributes)
    if not (shape.plain and type(provider) is str and type(model) is str):
        return _start_slowly(runtime, tracer, record, context, attributes)
    if len(runtime.openings) < MAX_OPENINGS and all(map(_keepable, given.values())):
        known = Opening(name, tuple(given.values()), attributes.copy())
        runtime.openings[shape, provider, model] = known
    return tracer.start_span(name, context, runtime.client, attributes)


class Opening:
    """Name and attributes of the last call of one shape to one model.

    Its values are immutable and kept alive, so a call that gives the very same
    objects says the same.
    """

    __slots__ = ("attributes", "name", "values")

    def __init__(
        self,
        name: str,
        values: tuple[object, ...],
        attributes: dict[str, AttributeValue],
    ) -> None:
        self.name = name
        self.values = values
        self.attributes = attributes


def _keepable(value: object) -> bool:
    kind = type(value)
    return kind in _IMMUTABLE and (kind is not str or len(value) <= MAX_KEPT_CHARS)  # type: ignore[arg-type] # a str


_IMMUTABLE: Final = frozenset({bool, float, int, str, type(None)})
# Programs make few different calls; what goes beyond is read anew each time.
MAX_OPENINGS: Final = 256
MAX_KEPT_CHARS: Final = 256


def _head(
    runtime: Runtime, operation: str, provider: object, model: object
) -> tuple[str, dict[str, AttributeValue]]:
    """Return the name and the attributes that calls of one model share."""
    name = operation
    found: dict[str, AttributeValue] = {"gen_ai.operation.name": operation}
    if provider is not None:
        found["gen_ai.provider.name"] = provider = metadata(provider)
        if runtime.dup:
            found["gen_ai.system"] = _FORMER_PROVIDERS.get(provider, provider)
    if model is not None:
        found["gen_ai.request.model"] = model = metadata(model)
        name = clean_name(f"{operation} {model}")
    return name, found


def _start_slowly(
    runtime: Runtime,
    tracer: Tracer,
    record: SpanRecord,
    context: Context,
    attributes: dict[str, AttributeValue],
) -> Span:
    """Start a span that has controls, or a name that is not the model's."""
    operation, given = record._operation, record._options
    if not operation.name:
        del attributes["gen_ai.operation.name"]
    target = (
        record._model if operation.target == "model" else given.get(operation.target)
    )
    name = given.get("name")
    if name is None:
        name = operation.name
        if target is not None:
            name = f"{name} {metadata(target)}"
    for key in ("attributes", "extra"):
        own = given.get(key)
        if own is not None:
            attributes |= own_attributes(own)
    kind = given.get("kind")
    if kind is None:
        kind = runtime.kinds[operation.kind]
    return tracer.start_span(
        clean_name(name),
        context,
        kind,  # type: ignore[arg-type] # checked by the caller
        attributes,
        given.get("links"),  # type: ignore[arg-type] # checked by the caller
    )


def write_options(
    operation: Operation,
    given: Mapping[str, object],
    found: dict[str, AttributeValue],
) -> None:
    """Write the attributes of request options into `found`."""
    known = operation.options
    dropped: list[str] | None = None
    for key, value in given.items():
        if value is None or key not in known:
            continue
        attribute, kind = known[key]
        if kind == "f":
            if type(value) is float and value - value == 0:  # finite
                found[attribute] = value
                continue
        elif kind == "i" and type(value) is int and 1 < value < MANY:
            found[attribute] = value
            continue
        read = _READ[kind](value)
        if read is None:
            dropped = [*(dropped or ()), attribute]
        elif _SILENT.get(key) != read:
            found[attribute] = read
    if dropped:
        found["lazycore.dropped_attributes"] = dropped


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
    target, runtime = span._span, span._runtime
    error = None
    try:
        if (
            span._recording
            and span._problem is None
            and span._content is None
            and span._chunked is None
            and runtime.bare
        ):
            # All there is to say is what the response said.
            if span._final:
                target.set_attributes(span._final)  # type: ignore[union-attr] # open
        else:
            problem = span._problem
            error = error_type(problem) if failed(problem) else None
            if span._recording:
                _write(span, target, error)  # type: ignore[arg-type] # open
    except Exception as fault:  # noqa: BLE001 - a log processor may do anything
        lost("write", fault)
    try:
        target.end()  # type: ignore[union-attr] # open
        if runtime.probe._real_instrument is not None:
            from lazycore.telemetry._measure import measure

            measure(span, error)
    except Exception as fault:  # noqa: BLE001 - a span processor may do anything
        lost("end", fault)


def lost(what: str, error: Exception) -> None:
    """Say in the log that the SDK's own parts failed; never what was in the span."""
    import logging

    logging.getLogger("lazycore.telemetry").warning(
        "could not %s a span: the tracing SDK raised %s", what, type_name(type(error))
    )


def _write(span: GenAISpan, target: Span, error: str | None) -> None:
    attributes = span._final
    if span._chunked is not None or error is not None:
        _say_how_it_ended(span, attributes, error)
    runtime = span._runtime
    if attributes:
        if runtime.dup and USAGE["cache_write"] in attributes:
            attributes[_FORMER_CACHE_WRITE] = attributes[USAGE["cache_write"]]
        target.set_attributes(attributes)
    content = span._content
    if content is not None:
        if runtime.settings.semconv != "next":
            content.finish(attributes.get("gen_ai.response.finish_reasons"))
        target.set_attributes(content.span_attributes())
    if error is not None:
        _mark_failed(span, target)
    if runtime.settings.details and span._operation.family == "inference":
        _events.details(runtime, span, attributes)


def _say_how_it_ended(
    span: GenAISpan, attributes: dict[str, AttributeValue], error: str | None
) -> None:
    operation = span._operation
    if span._chunked is not None and operation.name and "id" in operation.responds:
        attributes["gen_ai.response.time_to_first_chunk"] = span._chunked
        attributes["gen_ai.request.stream"] = True
        reasons = "gen_ai.response.finish_reasons"
        if error is not None and reasons not in attributes:
            # A choice that never ended counts as an error of its own.
            count = as_int(span._options.get("choice_count")) or 1
            attributes[reasons] = ("error",) * min(max(count, 1), 128)
    if error is not None:
        attributes["error.type"] = error


def _mark_failed(span: GenAISpan, target: Span) -> None:
    problem, runtime = span._problem, span._runtime
    policy = runtime.settings.policy
    status = runtime.failed
    if policy.mode.on_span and isinstance(problem, BaseException):
        from opentelemetry.trace.status import Status, StatusCode

        status = Status(StatusCode.ERROR, policy.text("exception", problem))
    target.set_status(status)
    if runtime.logging and isinstance(problem, BaseException):
        _events.exception(runtime, span, problem)


def set_status(
    span: SpanRecord, status: Status | StatusCode, description: str | None
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

"""What a caller says of request, response and usage, kept until the span ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.telemetry import _compose
from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._operations import CONTROLS
from lazycore.telemetry._text import metadata
from lazycore.telemetry._usage import MODALITIES, USAGE, USAGE_BY_MODALITY
from lazycore.telemetry._values import MANY, as_int, as_strings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextvars import Token
    from typing import Self

    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._calls import Shape
    from lazycore.telemetry._content import ContentBuffer
    from lazycore.telemetry._operations import Operation
    from lazycore.telemetry._runtime import Runtime

__all__ = ["ENDED", "IDLE", "NEW", "OPEN", "SpanRecord"]

# An idle span is open, but nothing it says leads anywhere.
NEW, OPEN, IDLE, ENDED = 0, 1, 2, 3
# What nearly every response says, in the form that a span takes.
MAX_MODELS = 256
MODELS: dict[object, str] = {}
ONE_REASON: dict[object, tuple[str, ...]] = {
    reason: (reason,)
    for reason in ("stop", "length", "content_filter", "tool_call", "tool_calls")
}
_BY_MODALITY = frozenset({"input", "output", "cache_read"})


class SpanRecord:
    """Request, response and usage of one operation."""

    __slots__ = (
        "_attached",
        "_began",
        "_chunked",
        "_content",
        "_context",
        "_final",
        "_last_chunk",
        "_managed",
        "_model",
        "_options",
        "_problem",
        "_provider",
        "_recording",
        "_runtime",
        "_shape",
        "_span",
        "_state",
        "_token",
    )

    # Set when the span starts.
    _began: float
    _chunked: float | None
    _context: Context
    _last_chunk: float | None
    _managed: bool
    _runtime: Runtime

    def __init__(
        self,
        shape: Shape,
        provider: object,
        model: object,
        options: dict[str, object],
    ) -> None:
        self._shape = shape
        self._provider = provider
        self._model = model
        self._options = options
        self._state = NEW
        self._recording = False
        self._token: Token[Context] | None = None
        self._span: Span | None = None
        self._final: dict[str, AttributeValue] = {}
        self._content: ContentBuffer | None = None
        self._problem: object = None

    @property
    def _operation(self) -> Operation:
        return self._shape.operation

    def set_request(self, **options: object) -> Self:
        """Add request options that were not known at the start.

        Raises:
            TelemetryUsageError: If the operation has no such option.
        """
        allowed = self._operation.allows - CONTROLS - {"server_port", "server_address"}
        unknown = sorted(options.keys() - allowed)
        if unknown:
            raise TelemetryUsageError(
                f"{self._operation.name} does not take {', '.join(unknown)}; it takes "
                f"{', '.join(sorted(allowed))}"
            )
        if self._state == NEW:
            self._options = {**self._options, **options}
            # No longer what was checked when the span was made.
            self._shape = self._shape.altered()
        elif self._writable() and self._recording and self._span is not None:
            found: dict[str, AttributeValue] = {}
            _compose.write_options(self._operation, options, found)
            self._span.set_attributes(found)
        return self

    def set_response(
        self,
        *,
        id: object = None,  # noqa: A002 - the convention's own word
        model: object = None,
        finish_reasons: Iterable[object] | None = None,
        status: object = None,
    ) -> Self:
        """Keep what the response says; written when the span ends.

        Args:
            id: Identifier of the response.
            model: Model that answered.
            finish_reasons: One per choice: `stop`, `length`, `content_filter`,
                `tool_call`, `compaction` or `error`.
            status: For `fetch_response` only.

        Raises:
            TelemetryUsageError: If the operation has no such field, or has ended.
        """
        if status is not None or not self._shape.answers:
            self._check_fields(
                self._operation.responds,
                {
                    "id": id,
                    "model": model,
                    "finish_reasons": finish_reasons,
                    "status": status,
                },
                "set_response",
            )
        if self._state != OPEN and not self._writable():
            return self
        found = self._final
        # Written out for what nearly every response says, since every span passes:
        # short printable text is clean, and there are few models and reasons.
        if type(id) is str and len(id) <= 256 and id.isprintable():
            found["gen_ai.response.id"] = id
        elif id is not None:
            found["gen_ai.response.id"] = metadata(id)
        try:
            if model is not None:
                found["gen_ai.response.model"] = MODELS.get(model) or _model(model)
            if finish_reasons is not None:
                found["gen_ai.response.finish_reasons"] = (
                    ONE_REASON[finish_reasons[0]]  # type: ignore[index] # caught
                    if len(finish_reasons) == 1  # type: ignore[arg-type] # caught
                    else _reasons(finish_reasons)
                )
        except Exception:  # noqa: BLE001 - not a list, or not known
            _say_slowly(found, model, finish_reasons)
        if status is not None:
            found["gen_ai.response.status"] = metadata(status)
        return self

    def set_usage(  # noqa: C901 - one branch per count
        self,
        input: object = None,  # noqa: A002 - the convention's own word
        output: object = None,
        *,
        cache_read: object = None,
        cache_write: object = None,
        reasoning: object = None,
        modality: str | None = None,
    ) -> Self:
        """Keep token counts; None means unknown, which is not zero.

        Args:
            input: All input tokens, cached ones included.
            output: All output tokens, reasoning ones included.
            cache_read: Input tokens served from a cache.
            cache_write: Input tokens written to a cache.
            reasoning: Output tokens spent on reasoning.
            modality: The counts are those of `text`, `image` or `audio` alone.

        Raises:
            TelemetryUsageError: If the operation has no such count, or has ended.
        """
        if modality is not None or not self._shape.answers:
            self._check_usage(
                modality,
                input=input,
                output=output,
                cache_read=cache_read,
                cache_write=cache_write,
                reasoning=reasoning,
            )
        if self._state != OPEN and not self._writable():
            return self
        found = self._final
        if modality is not None:
            for side, count in (
                ("input", input),
                ("output", output),
                ("cache_read", cache_read),
            ):
                if count is not None:
                    _count(found, USAGE_BY_MODALITY[modality][side], count)
            return self
        if type(input) is int and 0 <= input < MANY:
            found["gen_ai.usage.input_tokens"] = input
        elif input is not None:
            _count(found, USAGE["input"], input)
        if type(output) is int and 0 <= output < MANY:
            found["gen_ai.usage.output_tokens"] = output
        elif output is not None:
            _count(found, USAGE["output"], output)
        if cache_read is not None:
            _count(found, USAGE["cache_read"], cache_read)
        if cache_write is not None:
            _count(found, USAGE["cache_write"], cache_write)
        if reasoning is not None:
            _count(found, USAGE["reasoning"], reasoning)
        return self

    def _check_usage(self, modality: str | None, **counts: object) -> None:
        if modality is not None:
            if modality not in MODALITIES:
                raise TelemetryUsageError(
                    f"unknown modality {modality!r}: give one of "
                    f"{', '.join(MODALITIES)}"
                )
            self._check_fields(
                _BY_MODALITY, counts, f"set_usage(modality={modality!r})"
            )
        self._check_fields(self._operation.usage, counts, "set_usage")

    def _check_fields(
        self, known: frozenset[str], given: Mapping[str, object], call: str
    ) -> None:
        unknown = [n for n, v in given.items() if v is not None and n not in known]
        if unknown:
            fields = ", ".join(sorted(known - {"modality"})) or "none"
            raise TelemetryUsageError(
                f"{call} of {self._operation.name} has no {', '.join(unknown)}; "
                f"it has {fields}"
            )

    def _writable(self) -> bool:
        """Tell whether something leads on; an ended span is a mistake of the code."""
        if self._state == ENDED:
            raise TelemetryUsageError(
                "this span has ended, what is set now would be lost: set it before, or "
                "use add_evaluation_result for what is known only later"
            )
        return self._state != IDLE


def _model(value: object) -> str:
    """Return the name of a model, and remember it if it is one of few."""
    text = metadata(value)
    if type(value) is str and len(text) <= 256 and len(MODELS) < MAX_MODELS:
        MODELS[value] = text
    return text


def _reasons(value: object) -> tuple[str, ...]:
    found = as_strings(value)
    if found is None:
        raise TypeError
    return found


def _say_slowly(
    found: dict[str, AttributeValue], model: object, finish_reasons: object
) -> None:
    """Say what could not be looked up."""
    if model is not None:
        found["gen_ai.response.model"] = metadata(model)
    reasons = as_strings(finish_reasons)
    if reasons is not None:
        found["gen_ai.response.finish_reasons"] = reasons


def _count(found: dict[str, AttributeValue], name: str, value: object) -> None:
    """Keep a token count; what is no count is unknown."""
    count = as_int(value)
    if count is not None and count >= 0:
        found[name] = count

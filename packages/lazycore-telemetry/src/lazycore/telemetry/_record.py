"""What a caller says about an operation, kept until its span ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.telemetry import _compose, _runtime
from lazycore.telemetry._content import ContentBuffer
from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._operations import CONTROLS
from lazycore.telemetry._text import metadata
from lazycore.telemetry._usage import MODALITIES, USAGE, USAGE_BY_MODALITY
from lazycore.telemetry._values import as_int, as_strings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextvars import Token
    from typing import Self

    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._operations import Operation

__all__ = ["ENDED", "IDLE", "NEW", "OPEN", "SpanRecord"]

# An idle span is open, but nothing it says leads anywhere.
NEW, OPEN, IDLE, ENDED = 0, 1, 2, 3
_BY_MODALITY = frozenset({"input", "output", "cache_read"})
_MANY = 1 << 62


class SpanRecord:
    """Request, response, usage and content of one operation."""

    __slots__ = (
        "_attached",
        "_began",
        "_chunked",
        "_content",
        "_context",
        "_final",
        "_last_chunk",
        "_managed",
        "_metered",
        "_model",
        "_operation",
        "_options",
        "_plain",
        "_problem",
        "_provider",
        "_recording",
        "_runtime",
        "_span",
        "_state",
        "_token",
    )

    def __init__(
        self,
        operation: Operation,
        provider: object,
        model: object,
        options: dict[str, object],
        plain: bool,  # noqa: FBT001 - the hot path has no time for its name
    ) -> None:
        self._operation = operation
        self._provider = provider
        self._model = model
        self._options = options
        self._plain = plain
        self._state = NEW
        self._recording = False
        self._token: Token[Context] | None = None
        self._span: Span | None = None
        self._final: dict[str, AttributeValue] | None = None
        self._content: ContentBuffer | None = None
        self._problem: object = None

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
        responds = self._operation.responds
        if len(responds) != 3 or status is not None:
            self._check_fields(
                responds,
                {
                    "id": id,
                    "model": model,
                    "finish_reasons": finish_reasons,
                    "status": status,
                },
                "set_response",
            )
        state = self._state
        if state == IDLE or (state != OPEN and not self._writable()):
            return self
        found = self._final
        if found is None:
            found = self._final = {}
        if id is not None:
            found["gen_ai.response.id"] = metadata(id)
        if model is not None:
            found["gen_ai.response.model"] = metadata(model)
        if finish_reasons is not None:
            reasons = as_strings(finish_reasons)
            if reasons is not None:
                found["gen_ai.response.finish_reasons"] = reasons
        if status is not None:
            found["gen_ai.response.status"] = metadata(status)
        return self

    def set_usage(
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
        usage = self._operation.usage
        if len(usage) != 6 or modality is not None:
            self._check_usage(
                modality,
                input=input,
                output=output,
                cache_read=cache_read,
                cache_write=cache_write,
                reasoning=reasoning,
            )
        state = self._state
        if state == IDLE or (state != OPEN and not self._writable()):
            return self
        found = self._final
        if found is None:
            found = self._final = {}
        names = USAGE if modality is None else USAGE_BY_MODALITY[modality]
        if input is not None:
            _count(found, names["input"], input)
        if output is not None:
            _count(found, names["output"], output)
        if cache_read is not None:
            _count(found, names["cache_read"], cache_read)
        if cache_write is not None:
            _count(found, names["cache_write"], cache_write)
        if reasoning is not None:
            _count(found, names["reasoning"], reasoning)
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

    def add_input(self, role: str, *parts: object, name: object = None) -> Self:
        """Add a message that was sent.

        Args:
            role: `system`, `user`, `assistant`, `tool`, or another.
            *parts: Texts, or parts in the shape of the conventions
                (`{"type": "text", "content": ...}`).
            name: Name of the participant.
        """
        return self._add("input", role, parts, name)

    def add_output(self, role: str, *parts: object, name: object = None) -> Self:
        """Add a message that came back; like `add_input`."""
        return self._add("output", role, parts, name)

    def set_system(self, *parts: object) -> Self:
        """Set the system instructions that are not part of the messages."""
        return self._put("gen_ai.system_instructions", "system", parts, many=True)

    def set_tools(self, definitions: Iterable[object]) -> Self:
        """Set the definitions of the tools that the model may call."""
        return self._put(
            "gen_ai.tool.definitions", "definitions", definitions, many=True
        )

    def set_arguments(self, value: object) -> Self:
        """Set the arguments of a tool call."""
        return self._put("gen_ai.tool.call.arguments", "tool", value)

    def set_result(self, value: object) -> Self:
        """Set the result of a tool call."""
        return self._put("gen_ai.tool.call.result", "tool", value)

    def set_query(self, text: object) -> Self:
        """Set the query of a retrieval or of a search in memory."""
        memory = self._operation.name.endswith(("_memory", "_store"))
        kind = "memory" if memory else "retrieval"
        return self._put(f"gen_ai.{kind}.query.text", "query", text, text=True)

    def set_documents(self, documents: Iterable[object]) -> Self:
        """Set what a retrieval found: `{"id": ..., "score": ...}` each."""
        return self._put(
            "gen_ai.retrieval.documents", "documents", documents, many=True
        )

    def set_records(self, records: Iterable[object]) -> Self:
        """Set the records that a memory operation read or wrote."""
        return self._put("gen_ai.memory.records", "records", records, many=True)

    def set_prompt_variables(self, variables: Mapping[str, object]) -> Self:
        """Set the values that were put into a prompt template."""
        if self._buffered() is not None and self._content is not None:
            self._content.variables(variables)
        return self

    def _buffered(self) -> ContentBuffer | None:
        if not self._writable():
            return None
        if self._state == OPEN and not self._recording:
            return None
        found = self._content
        if found is None:
            policy = _runtime.current().settings.policy
            found = self._content = ContentBuffer(policy)
        return found

    def _add(
        self, side: str, role: object, parts: tuple[object, ...], name: object
    ) -> Self:
        if self._state == IDLE:
            return self
        buffer = self._buffered()
        if buffer is not None:
            buffer.message(side, role, parts, name)
        return self

    def _put(
        self,
        attribute: str,
        role: str,
        value: object,
        *,
        many: bool = False,
        text: bool = False,
    ) -> Self:
        if self._state == IDLE:
            return self
        buffer = self._buffered()
        if buffer is not None:
            buffer.put(attribute, role, value, many=many, text=text)
        return self


def _count(found: dict[str, AttributeValue], name: str, value: object) -> None:
    """Keep a token count; what is no count is unknown."""
    count = value if type(value) is int and value < _MANY else as_int(value)
    if count is not None and count >= 0:
        found[name] = count

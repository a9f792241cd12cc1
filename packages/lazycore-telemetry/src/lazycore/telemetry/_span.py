"""One GenAI operation as a span: its life from start to end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ParamSpec, TypeVar, overload

from lazycore.telemetry import _compose, _runtime
from lazycore.telemetry._content import ContentBuffer
from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._operations import CONTROLS
from lazycore.telemetry._values import as_int

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )
    from contextvars import Token
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, Tracer
    from opentelemetry.trace.status import Status, StatusCode
    from opentelemetry.util.types import AttributeValue
    from typing import Self

    from lazycore.telemetry._operations import Operation
    from lazycore.telemetry._runtime import Runtime
    from lazycore.telemetry._stream import AsyncSpanStream, SpanStream

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

__all__ = ["GenAISpan"]

_NEW, _OPEN, _ENDED = 0, 1, 2
_MODALITIES = ("text", "image", "audio")
_BY_MODALITY = frozenset({"input", "output", "cache_read"})


class GenAISpan:
    """A span of one GenAI operation; made by `genai_span` and its siblings.

    Use it in a `with` or `async with` block, as a decorator, or by `start()` and
    `end()` where the operation outlives a block (streams). Request attributes are
    written when the span starts, so that samplers see them; what the response says
    is kept and written once, when it ends: small attributes first, content last.

    Entering attaches the span to the current context, so never `yield` inside the
    block: wrap the iterable in `stream()` instead.

    Attributes:
        span: The OpenTelemetry span. Not recording without an SDK.

    Example:
        >>> from lazycore.telemetry import genai_span
        >>> with genai_span("chat", provider="openai", model="m") as span:
        ...     _ = span.set_response(id="r-1", finish_reasons=("stop",))
        ...     _ = span.set_usage(input=12, output=3)
    """

    __slots__ = (
        "_attached",
        "_began",
        "_chunked",
        "_content",
        "_context",
        "_idle",
        "_last_chunk",
        "_metered",
        "_model",
        "_operation",
        "_options",
        "_problem",
        "_provider",
        "_recording",
        "_response",
        "_runtime",
        "_span",
        "_state",
        "_token",
        "_usage",
    )

    def __init__(
        self,
        operation: Operation,
        provider: object,
        model: object,
        options: dict[str, object],
    ) -> None:
        self._operation = operation
        self._provider = provider
        self._model = model
        self._options = options
        self._state = _NEW
        self._idle = self._recording = self._metered = False
        self._token: Token[Context] | None = None
        self._span: Span | None = None
        self._response: dict[str, object] | None = None
        self._usage: dict[str, int] | None = None
        self._content: ContentBuffer | None = None
        self._problem: object = None

    # Life

    def start(self) -> Self:
        """Start the span without making it the current one; pair with `end`.

        Raises:
            TelemetryUsageError: If it has been started before.

        Example:
            >>> from lazycore.telemetry import genai_span
            >>> span = genai_span("chat", provider="openai").start()
            >>> span.end()
        """
        if self._state:
            raise TelemetryUsageError(
                "this span has been started already: make a new one for each call"
            )
        self._state = _OPEN
        runtime = self._runtime = _runtime.current()
        options = self._options
        tracer = options.get("tracer") or runtime.tracer
        if runtime.idle(tracer):  # type: ignore[arg-type] # checked by the caller
            self._idle = True
            return self
        self._begin(tracer)  # type: ignore[arg-type] # checked by the caller
        return self

    def _begin(self, tracer: Tracer) -> None:
        runtime = self._runtime
        self._last_chunk: float | None = None
        self._chunked: float | None = None
        self._attached: Context | None = None
        context = self._options.get("context")
        if runtime.suppressed():
            self._context = context
            self._span = runtime.get_span(context)  # type: ignore[arg-type] # a Context
            self._idle = True
            return
        span = _compose.start(
            runtime, tracer, self._operation, self._provider, self._model, self._options
        )
        self._span = span
        self._recording = span.is_recording()
        self._metered = runtime.metered
        self._context = context
        if self._recording or self._metered:
            self._began = time.perf_counter()

    def end(self, error: BaseException | str | None = None) -> None:
        """End the span; ending it again does nothing.

        Args:
            error: The exception, or a provider's error code, that ended the
                operation. `GeneratorExit` is no error: a consumer may stop early.
        """
        if self._state != _OPEN:
            if self._state == _NEW:
                raise TelemetryUsageError("this span was never started")
            return
        self._state = _ENDED
        if self._idle:
            self._idle = False
            return
        if error is not None and self._problem is None:
            self._problem = error
        _compose.finish(self)

    def activate(self) -> Activation:
        """Make a started span the current one within a `with` block.

        The block must not yield. Leaving it does not end the span.
        """
        return Activation(self)

    def __enter__(self) -> Self:
        self.start()
        if not self._idle:
            self._attach()
        return self

    def _attach(self) -> None:
        span = self._span
        # An unsampled span of an SDK must be current too, or children would be
        # roots; without an SDK there is nothing to attach.
        if span is not None and (self._recording or span.get_span_context().is_valid):
            runtime = self._runtime
            context = runtime.set_span(span, self._context)  # type: ignore[arg-type] # a Context
            self._attached = context
            self._token = runtime.attach(context)

    def _detach(self) -> None:
        token = self._token
        if token is not None:
            self._token = None
            # In a foreign context (a generator closed elsewhere) the token can't be
            # used; the API would log an error and the context is not ours anyway.
            if self._runtime.get_context() is self._attached:
                self._runtime.detach(token)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._token is not None:
            self._detach()
        if self._idle:
            self._state = _ENDED
            self._idle = False
            return
        if self._state == _OPEN:
            self.end(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function, coroutine function or generator: a new span per call."""
        from lazycore.telemetry._decorate import decorate

        return decorate(self._again, function)

    def _again(self) -> GenAISpan:
        return GenAISpan(self._operation, self._provider, self._model, self._options)

    # What the response says

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
        if self._state == _NEW:
            self._options = {**self._options, **options}
        elif self._writable() and self._recording and self._span is not None:
            found = _compose.options(self._operation, options)
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
        if self._idle or not self._writable():
            return self
        found = self._response
        if found is None:
            found = self._response = {}
        if id is not None:
            found["id"] = id
        if model is not None:
            found["model"] = model
        if finish_reasons is not None:
            found["finish_reasons"] = finish_reasons
        if status is not None:
            found["status"] = status
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
        if self._idle or not self._writable():
            return self
        found = self._usage
        if found is None:
            found = self._usage = {}
        prefix = f"{modality}." if modality else ""
        for name, value in (
            ("input", input),
            ("output", output),
            ("cache_read", cache_read),
            ("cache_write", cache_write),
            ("reasoning", reasoning),
        ):
            if value is not None:
                count = as_int(value)
                if count is not None and count >= 0:
                    found[prefix + name] = count
        return self

    def _check_usage(self, modality: str | None, **counts: object) -> None:
        if modality is not None:
            if modality not in _MODALITIES:
                raise TelemetryUsageError(
                    f"unknown modality {modality!r}: give one of "
                    f"{', '.join(_MODALITIES)}"
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
        if self._state == _ENDED:
            raise TelemetryUsageError(
                "this span has ended, what is set now would be lost: set it before, or "
                "use add_evaluation_result for what is known only later"
            )
        return not self._idle

    # Content

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
        if self._idle or not self._writable():
            return None
        if self._state == _OPEN and not self._recording:
            return None
        found = self._content
        if found is None:
            policy = _runtime.current().settings.policy
            found = self._content = ContentBuffer(policy)
        return found

    def _add(
        self, side: str, role: object, parts: tuple[object, ...], name: object
    ) -> Self:
        if self._idle:
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
        if self._idle:
            return self
        buffer = self._buffered()
        if buffer is not None:
            buffer.put(attribute, role, value, many=many, text=text)
        return self

    # Streams and errors

    @overload
    def stream(
        self, chunks: AsyncIterable[T], *, end: bool | None = None
    ) -> AsyncSpanStream[T]: ...
    @overload
    def stream(
        self, chunks: Iterable[T], *, end: bool | None = None
    ) -> SpanStream[T]: ...
    def stream(
        self,
        chunks: AsyncIterable[T] | Iterable[T],
        *,
        end: bool | None = None,
    ) -> AsyncSpanStream[T] | SpanStream[T]:
        """Watch a streamed response: first chunk, every chunk, how it ended.

        Args:
            chunks: What the provider returned; attributes are passed through.
            end: Whether the end of the stream ends the span. By default it does
                when the span was started by `start()`, not by a `with` block.

        Returns:
            An iterator of the same chunks (asynchronous for an asynchronous one).
            Closing, dropping or failing it ends the span too.

        Example:
            >>> from lazycore.telemetry import genai_span
            >>> span = genai_span("chat", provider="openai").start()
            >>> list(span.stream(["a", "b"]))
            ['a', 'b']
        """
        from lazycore.telemetry._stream import wrap

        if self._state == _NEW:
            raise TelemetryUsageError("start the span before its stream")
        return wrap(self, chunks, self._token is None if end is None else end)

    def fail(self, error: BaseException | str) -> Self:
        """Say that the operation failed although no exception leaves the block.

        Args:
            error: The exception, or the provider's error code.
        """
        if self._writable() or self._state == _OPEN:
            self._problem = error
        return self

    def chunk_arrived(self) -> None:
        """Note that a chunk of a stream has arrived; `stream` calls it."""
        if self._idle or self._state != _OPEN or not (self._recording or self._metered):
            return
        now = time.perf_counter()
        last = self._last_chunk
        if self._chunked is None:
            self._chunked = now - self._began
        self._last_chunk = now
        if self._metered:
            self._runtime.instruments.chunk(
                now - (self._began if last is None else last),
                _compose.metric_attributes(self, None),
                self._measured_context(),
                first=last is None,
            )

    def _measured_context(self) -> Context | None:
        if self._span is None:
            return None
        return self._runtime.set_span(self._span, self._context)  # type: ignore[arg-type] # a Context

    # The OpenTelemetry span

    @property
    def span(self) -> Span:
        """The OpenTelemetry span, for what this class does not say."""
        found = self._span
        if found is None:
            from opentelemetry.trace import NonRecordingSpan, get_current_span

            parent = get_current_span()
            # Never the parent itself: writing to it would change another span.
            found = NonRecordingSpan(parent.get_span_context())
            if self._state != _NEW:
                self._span = found
        return found

    @property
    def context(self) -> SpanContext:
        """Identity of the span; invalid without an SDK and without a parent."""
        return self.span.get_span_context()

    @property
    def traceparent(self) -> str | None:
        """W3C `traceparent` of the span, None where there is none."""
        found = self.context
        if not found.is_valid:
            return None
        flags = int(found.trace_flags) & 0xFF
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{flags:02x}"

    def record(self, attributes: Mapping[str, object]) -> Self:
        """Set attributes of your own now; their names are not checked.

        Values are made safe: text is cleaned, what is no scalar becomes JSON. The
        content policy does not apply to them.
        """
        if self._writable() and self._recording and self._span is not None:
            self._span.set_attributes(_compose.extra(attributes))
        return self

    def is_recording(self) -> bool:
        """Tell whether attributes lead anywhere."""
        return self._state == _OPEN and not self._idle and self._recording

    @property
    def response_id(self) -> object:
        """Identifier of the response, as far as it was set."""
        return None if self._response is None else self._response.get("id")

    def get_span_context(self) -> SpanContext:
        """Return the identity of the span, as an OpenTelemetry span does."""
        return self.context

    def set_attribute(self, key: str, value: object) -> None:
        """Set one attribute of your own, as an OpenTelemetry span does."""
        self.record({key: value})

    def set_attributes(self, attributes: Mapping[str, object]) -> None:
        """Set attributes of your own, as an OpenTelemetry span does."""
        self.record(attributes)

    def add_event(
        self,
        name: str,
        attributes: Mapping[str, object] | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Add an event of your own, as an OpenTelemetry span does."""
        if self._writable() and self._recording and self._span is not None:
            found = _compose.extra(attributes or {})
            self._span.add_event(_compose.clean_name(name), found, timestamp)

    def set_status(
        self, status: Status | StatusCode, description: str | None = None
    ) -> None:
        """Set the status; its text is recorded only where the policy allows."""
        if self._writable() and self._recording and self._span is not None:
            _compose.set_status(self, status, description)


class Activation:
    """Attach a started span's context for a block, without ending it."""

    __slots__ = ("_span",)

    def __init__(self, span: GenAISpan) -> None:
        self._span = span

    def __enter__(self) -> GenAISpan:
        span = self._span
        if span._state == _OPEN and not span._idle and span._token is None:  # noqa: SLF001 - one class in two
            span._attach()  # noqa: SLF001 - one class in two
        return span

    def __exit__(self, *_: object) -> None:
        self._span._detach()  # noqa: SLF001 - one class in two

"""One GenAI operation as a span: its life from start to end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ParamSpec, TypeVar, overload

from lazycore.telemetry import _compose, _runtime
from lazycore.telemetry._attributes import own_attributes
from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._record import ENDED, IDLE, NEW, OPEN, SpanRecord

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterable,
        Callable,
        Iterable,
        Mapping,
    )
    from types import TracebackType
    from typing import Self

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext
    from opentelemetry.trace.status import Status, StatusCode

    from lazycore.telemetry._stream import AsyncSpanStream, SpanStream

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

__all__ = ["GenAISpan"]


class GenAISpan(SpanRecord):
    """A span of one GenAI operation; made by `genai_span` and its siblings.

    Use it in a `with` or `async with` block, as a decorator, or by `start()` and
    `end()` where the operation outlives a block (streams). Request attributes are
    written when the span starts, so that samplers see them; what the response says
    is kept and written once, when it ends: small attributes first, content last.

    Entering attaches the span to the current context, so never `yield` inside the
    block: wrap the iterable in `stream()` instead.

    Example:
        >>> from lazycore.telemetry import genai_span
        >>> with genai_span("chat", provider="openai", model="m") as span:
        ...     _ = span.set_response(id="r-1", finish_reasons=("stop",))
        ...     _ = span.set_usage(input=12, output=3)
    """

    __slots__ = ()

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
        self._state = OPEN
        runtime = self._runtime = _runtime.current()
        if self._plain and runtime.live:
            tracer = runtime.tracer
            context = runtime.get_context()
        else:
            tracer = self._options.get("tracer") or runtime.tracer  # type: ignore[assignment] # checked by the caller
            if runtime.idle(tracer):
                self._state = IDLE
                return self
            context = self._options.get("context") or runtime.get_context()  # type: ignore[assignment] # checked by the caller
        self._context: Context = context
        if context and runtime.suppressed(context):
            # Never the parent: findings and metrics would be written to it.
            self._span = runtime.nothing
            self._state = IDLE
            return self
        self._last_chunk: float | None = None
        self._chunked: float | None = None
        span = self._span = _compose.start(runtime, tracer, self, context)
        self._recording = span.is_recording()
        self._metered = runtime.metered
        self._began = time.perf_counter()
        return self

    def end(self, error: BaseException | str | None = None) -> None:
        """End the span; ending it again does nothing.

        Args:
            error: The exception, or a provider's error code, that ended the
                operation. `GeneratorExit` is no error: a consumer may stop early.
        """
        state = self._state
        if state == NEW:
            raise TelemetryUsageError("this span was never started")
        self._state = ENDED
        if state != OPEN:
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
        self._managed = True
        self.start()
        if self._recording:
            runtime = self._runtime
            context = self._context = runtime.set_span(self._span, self._context)  # type: ignore[arg-type] # recording, so there
            self._token = runtime.attach(context)
        elif self._state == OPEN:
            self._attach()
        return self

    def _attach(self) -> None:
        span = self._span
        # An unsampled span of an SDK must be current too, or children would be
        # roots; without an SDK there is nothing to attach.
        if span is not None and (self._recording or span.get_span_context().is_valid):
            runtime = self._runtime
            context = self._context = runtime.set_span(span, self._context)
            self._token = runtime.attach(context)

    def _detach(self) -> None:
        token = self._token
        if token is not None:
            self._token = None
            # In a foreign context (a generator closed elsewhere) the token can't be
            # used; the API would log an error and the context is not ours anyway.
            if self._runtime.get_context() is self._context:
                self._runtime.detach(token)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        token = self._token
        if token is not None:
            self._token = None
            runtime = self._runtime
            # See _detach: written out, since every span passes here.
            if runtime.get_context() is self._context:
                runtime.detach(token)
        state = self._state
        self._state = ENDED
        if state != OPEN:
            return
        if error is not None and self._problem is None:
            self._problem = error
        _compose.finish(self)

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
        return GenAISpan(
            self._operation,
            self._provider,
            self._model,
            self._options,
            self._plain,
        )

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

        if self._state == NEW:
            raise TelemetryUsageError("start the span before its stream")
        if end is None:
            end = not getattr(self, "_managed", False)
        return wrap(self, chunks, end)

    def fail(self, error: BaseException | str) -> Self:
        """Say that the operation failed although no exception leaves the block.

        Args:
            error: The exception, or the provider's error code.
        """
        if self._writable() or self._state == OPEN:
            self._problem = error
        return self

    def chunk_arrived(self) -> None:
        """Note that a chunk of a stream has arrived; `stream` calls it."""
        if self._state != OPEN or not (self._recording or self._metered):
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
        """Return the context of this span, by which exemplars find it."""
        if self._span is None:
            return None
        return self._runtime.set_span(self._span, self._context)

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
            if self._state != NEW:
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
            self._span.set_attributes(own_attributes(attributes))
        return self

    def is_recording(self) -> bool:
        """Tell whether attributes lead anywhere."""
        return self._state == OPEN and self._recording

    @property
    def response_id(self) -> object:
        """Identifier of the response, as far as it was set."""
        return None if self._final is None else self._final.get("gen_ai.response.id")

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
            found = own_attributes(attributes or {})
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
        if span._state == OPEN and span._token is None:
            span._attach()
        return span

    def __exit__(self, *_: object) -> None:
        self._span._detach()

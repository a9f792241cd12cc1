"""One GenAI operation as a span: its life from start to end."""

from __future__ import annotations

import contextlib
from operator import is_
from time import perf_counter
from typing import TYPE_CHECKING, ParamSpec, TypeVar, overload

from lazycore.telemetry import _compose, _runtime
from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._opentelemetry import OpenTelemetrySpan
from lazycore.telemetry._record import ENDED, IDLE, NEW, OPEN

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterable,
        Callable,
        Iterable,
    )
    from types import TracebackType
    from typing import NoReturn, Self

    from opentelemetry.context import Context

    from lazycore.telemetry._stream import AsyncSpanStream, SpanStream

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

__all__ = ["GenAISpan"]


class GenAISpan(OpenTelemetrySpan):
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
            self._refuse_start()
        self._open()
        return self

    def _refuse_start(self) -> NoReturn:
        raise TelemetryUsageError(
            "this span has been started already: make a new one for each call"
        )

    def _open(self) -> None:
        """Start the OpenTelemetry span, where one leads anywhere."""
        runtime = self._runtime = _runtime.current()
        tracer = runtime.tracer
        if not (runtime.live and self._shape.plain):
            tracer = self._options.get("tracer") or tracer  # type: ignore[assignment] # checked by the caller
            if runtime.idle(tracer):
                self._state = IDLE
                return
        context: Context | None = self._options.get("context")  # type: ignore[assignment] # checked by the caller
        if context is None:  # an empty one asks for a root
            context = runtime.get_context()
        self._context = context
        if context and runtime.suppressed(context):
            # Never the parent: findings and metrics would be written to it.
            self._span = runtime.nothing
            self._state = IDLE
            return
        if self._shape.operation.family == "agent" and runtime.counts_calls:
            from lazycore.telemetry._measure import with_counters

            self._context = with_counters(context)
        self._chunked = self._last_chunk = None
        try:
            span = self._span = _compose.start(runtime, tracer, self, context)
        except Exception as error:  # noqa: BLE001 - a sampler or a processor
            self._lose(error)
            return
        self._state = OPEN
        self._recording = span.is_recording()
        self._began = perf_counter()

    @property
    def started(self) -> bool:
        """Whether the span has been started; it may have ended since."""
        return self._state != NEW

    def _lose(self, error: Exception) -> None:
        """Go on without a span: what the caller does matters more."""
        self._span = self._runtime.nothing
        self._state = IDLE
        _compose.lost("start", error)

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
        runtime = _runtime.present or _runtime.current()
        if self._state or not runtime.live:
            return self._enter_slowly()
        # A call seen before on a tracer that records: written out, since nearly
        # every span passes here. _open says the same for any call.
        context = runtime.get_context()
        try:
            known = runtime.openings.get((self._shape, self._provider, self._model))
        except Exception:  # noqa: BLE001 - a name that can't be hashed
            known = None
        if (
            known is None
            or (context and runtime.suppressed(context))
            or not all(map(is_, known.values, self._options.values()))
        ):
            return self._enter_slowly()
        self._runtime = runtime
        self._chunked = self._last_chunk = None
        try:
            span = self._span = runtime.tracer.start_span(
                known.name, context, runtime.client, known.attributes.copy()
            )
        except Exception as error:  # noqa: BLE001 - a sampler or a processor
            self._lose(error)
            return self
        self._state = OPEN
        self._began = perf_counter()
        if span.is_recording():
            self._recording = True
            context = self._context = runtime.set_span(span, context)
            self._token = runtime.attach(context)
        else:
            self._context = context
            self._attach()
        return self

    def _enter_slowly(self) -> Self:
        if self._state:
            self._refuse_start()
        self._open()
        if self._state == OPEN:
            self._attach()
        return self

    def _attach(self) -> None:
        span = self._span
        # An unsampled span of an SDK must be current too, or children would be
        # roots; without an SDK there is nothing to attach.
        if span is not None and (
            self._recording
            or span.get_span_context().is_valid
            or self._runtime.counts_calls
        ):
            runtime = self._runtime
            context = self._context = runtime.set_span(span, self._context)
            self._token = runtime.attach(context)

    def _detach(self) -> None:
        token = self._token
        if token is not None:
            self._token = None
            # In a foreign context (a generator closed elsewhere, a task that took a
            # copy) the token can't be used, and the context is not ours anyway.
            if self._runtime.get_context() is self._context:
                with contextlib.suppress(ValueError):
                    self._runtime.detach(token)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        token = self._token
        if token is not None:
            # See _detach: written out, since every span passes here.
            self._token = None
            runtime = self._runtime
            if runtime.get_context() is self._context:
                try:  # noqa: SIM105 - a context manager is dearer than the span's own
                    runtime.detach(token)
                except ValueError:
                    pass
        if self._state == OPEN:
            self._state = ENDED
            if error is not None and self._problem is None:
                self._problem = error
            _compose.finish(self)
        else:
            self._state = ENDED

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
        return GenAISpan(self._shape, self._provider, self._model, self._options)

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
        if self._state != OPEN:
            return
        metered = self._runtime.metered
        if not (self._recording or metered):
            return
        now = perf_counter()
        last = self._last_chunk
        if self._chunked is None:
            self._chunked = now - self._began
        self._last_chunk = now
        if metered:
            from lazycore.telemetry._measure import metric_attributes

            try:
                self._runtime.instruments.chunk(
                    now - (self._began if last is None else last),
                    metric_attributes(self, None),
                    self._measured_context(),
                    first=last is None,
                )
            except Exception as error:  # noqa: BLE001 - the chunk is the caller's
                _compose.lost("measure", error)

    def _measured_context(self) -> Context | None:
        """Return the context of this span, by which exemplars find it."""
        if self._span is None:
            return None
        return self._runtime.set_span(self._span, self._context)


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

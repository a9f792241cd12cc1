"""Watch a streamed response without holding a context across a yield."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from lazycore.telemetry._span import GenAISpan

__all__ = ["AsyncSpanStream", "SpanStream", "wrap"]

T = TypeVar("T")


class _Watched:
    """The part that synchronous and asynchronous streams share."""

    __slots__ = ("_closed", "_end", "_source", "_span")

    def __init__(self, span: GenAISpan, source: object, *, end: bool) -> None:
        self._span = span
        self._source = source
        self._end = end
        self._closed = False

    def _finish(self, error: BaseException | None = None) -> None:
        if self._closed:
            return
        self._closed = True
        if self._end and self._span.started:
            self._span.end(error)

    def __getattr__(self, name: str) -> object:
        # Providers put helpers on their streams: `response`, `text_stream`, ...
        if name in _Watched.__slots__:
            raise AttributeError(name)
        return getattr(self._source, name)

    def __del__(self) -> None:
        # A stream that was dropped half-way must not leave its span open.
        with contextlib.suppress(Exception):  # interpreter shutdown
            self._finish()


class SpanStream(_Watched, Iterator[T], Generic[T]):
    """Iterator over the chunks of a response that reports to its span."""

    __slots__ = ("_iterator",)

    def __init__(self, span: GenAISpan, source: Iterable[T], *, end: bool) -> None:
        super().__init__(span, source, end=end)
        self._iterator = iter(source)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return self._step(next, self._iterator)

    def send(self, value: object) -> T:
        """Send a value into a generator, as its own `send` does."""
        return self._step(self._iterator.send, value)  # type: ignore[attr-defined] # or AttributeError

    def _step(self, step: Callable[..., T], given: object) -> T:
        if not self._span.started:  # a decorated generator, at its first step
            self._span.start()
        try:
            with self._span.activate():
                chunk = step(given)
        except StopIteration:
            self._finish()
            raise
        except BaseException as error:
            self._finish(error)
            raise
        self._span.chunk_arrived()
        return chunk

    def close(self) -> None:
        """Stop reading: closes the source and, where it owns it, ends the span."""
        try:
            close = getattr(self._source, "close", None)
            if callable(close):
                close()
        finally:
            self._finish()

    def __enter__(self) -> Self:
        enter = getattr(self._source, "__enter__", None)
        if callable(enter):
            enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leave = getattr(self._source, "__exit__", None)
        try:
            if callable(leave):
                leave(kind, error, trace)
        finally:
            self._finish(error)


class AsyncSpanStream(_Watched, AsyncIterator[T], Generic[T]):
    """Asynchronous iterator over the chunks of a response."""

    __slots__ = ("_iterator",)

    def __init__(self, span: GenAISpan, source: AsyncIterable[T], *, end: bool) -> None:
        super().__init__(span, source, end=end)
        self._iterator = aiter(source)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await self._step(anext, self._iterator)

    async def asend(self, value: object) -> T:
        """Send a value into a generator, as its own `asend` does."""
        return await self._step(self._iterator.asend, value)  # type: ignore[attr-defined] # or AttributeError

    async def _step(self, step: Callable[..., Awaitable[T]], given: object) -> T:
        if not self._span.started:  # a decorated generator, at its first step
            self._span.start()
        try:
            with self._span.activate():
                chunk = await step(given)
        except StopAsyncIteration:
            self._finish()
            raise
        except BaseException as error:
            self._finish(error)
            raise
        self._span.chunk_arrived()
        return chunk

    async def aclose(self) -> None:
        """Stop reading: closes the source and, where it owns it, ends the span."""
        try:
            close = getattr(self._source, "aclose", None) or getattr(
                self._source, "close", None
            )
            if callable(close):
                done = close()
                if hasattr(done, "__await__"):
                    await done
        finally:
            self._finish()

    async def __aenter__(self) -> Self:
        enter = getattr(self._source, "__aenter__", None)
        if callable(enter):
            await enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leave = getattr(self._source, "__aexit__", None)
        try:
            if callable(leave):
                await leave(kind, error, trace)
        finally:
            self._finish(error)


def wrap(
    span: GenAISpan,
    source: object,
    end: bool,  # noqa: FBT001 - one caller
) -> SpanStream[T] | AsyncSpanStream[T]:
    """Return the stream for a source, by what the source is."""
    if isinstance(source, AsyncIterable):
        return AsyncSpanStream(span, source, end=end)
    return SpanStream(span, source, end=end)  # type: ignore[arg-type] # iter() decides

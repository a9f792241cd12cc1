"""Streams: first chunk, interruption, early stop, foreign contexts."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from lazycore import telemetry as t
from lazycore.telemetry import genai_span

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator


def chat(**options: Any) -> Any:
    return genai_span("chat", provider="openai", model="m", **options)


class Response:
    """A provider's stream with helpers of its own."""

    request_id = "req-1"

    def __init__(self, *chunks: Any) -> None:
        self.chunks = iter(chunks)
        self.closed = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        chunk = next(self.chunks)
        if isinstance(chunk, BaseException):
            raise chunk
        return chunk

    def close(self) -> None:
        self.closed = True


def test_a_stream_tells_its_first_chunk_and_ends_its_span(recorded: Any) -> None:
    stream = chat().start().stream(Response("a", "b", "c"))
    assert stream.request_id == "req-1"
    assert list(stream) == ["a", "b", "c"]
    found = recorded.span.attributes
    assert found["gen_ai.request.stream"] is True
    assert found["gen_ai.response.time_to_first_chunk"] > 0
    points = recorded.metrics()
    assert points["gen_ai.client.operation.time_to_first_chunk"][0].count == 1
    assert points["gen_ai.client.operation.time_per_output_chunk"][0].count == 2


def test_a_stream_in_a_block_leaves_the_end_to_the_block(recorded: Any) -> None:
    with chat() as span:
        for _ in span.stream(["a"]):
            pass
        span.set_usage(input=1, output=2)
    assert recorded.span.attributes["gen_ai.usage.output_tokens"] == 2


def test_an_interrupted_stream_knows_no_usage_and_says_error(recorded: Any) -> None:
    stream = chat().start().stream(Response("a", TimeoutError("x")))
    with pytest.raises(TimeoutError):
        list(stream)
    found = recorded.span.attributes
    assert found["error.type"] == "TimeoutError"
    assert found["gen_ai.response.finish_reasons"] == ("error",)
    assert not [name for name in found if ".usage." in name]
    assert "gen_ai.client.token.usage" not in recorded.metrics()


def test_each_unfinished_choice_counts(recorded: Any) -> None:
    stream = chat(choice_count=3).start().stream(Response("a", TimeoutError()))
    with pytest.raises(TimeoutError):
        list(stream)
    assert recorded.span.attributes["gen_ai.response.finish_reasons"] == ("error",) * 3


def test_a_stream_closed_early_is_no_error_and_closes_its_source(
    recorded: Any,
) -> None:
    source = Response("a", "b")
    stream = chat().start().stream(source)
    next(stream)
    stream.close()
    stream.close()
    assert source.closed
    assert recorded.span.status.status_code.name == "UNSET"


def test_a_dropped_stream_ends_its_span(recorded: Any) -> None:
    stream = chat().start().stream(Response("a", "b"))
    next(stream)
    del stream
    gc.collect()
    assert recorded.span.name == "chat m"


def test_a_stream_may_be_read_in_another_thread_and_context(
    recorded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stream = chat().start().stream(Response("a", "b"))
    seen: list[Any] = []
    with caplog.at_level(logging.WARNING):
        thread = threading.Thread(target=lambda: seen.extend(stream))
        thread.start()
        thread.join()
    assert seen == ["a", "b"]
    assert caplog.records == []
    assert recorded.span.status.status_code.name == "UNSET"


def test_a_block_left_in_another_context_logs_nothing_and_ends(
    recorded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    span = chat()
    contextvars.copy_context().run(span.__enter__)
    with caplog.at_level(logging.DEBUG):
        span.__exit__(None, None, None)
    assert caplog.records == []
    assert recorded.span.name == "chat m"


def test_what_runs_between_two_chunks_is_no_child_of_the_stream(
    recorded: Any,
) -> None:
    for _ in chat().start().stream(Response("a", "b")):
        with genai_span("app.render"):
            pass
    parents = {s.name: s.parent for s in recorded.spans}
    assert parents["app.render"] is None


def test_what_the_source_does_is_a_child_of_the_stream(recorded: Any) -> None:
    def source() -> Iterator[int]:
        with genai_span("http.read"):
            pass
        yield 1

    list(chat().start().stream(source()))
    child, parent = recorded.spans
    assert child.parent.span_id == parent.context.span_id


async def chunks(*items: Any) -> AsyncIterator[Any]:
    for item in items:
        await asyncio.sleep(0)
        if isinstance(item, BaseException):
            raise item
        yield item


def test_an_asynchronous_stream_ends_its_span(recorded: Any) -> None:
    async def main() -> list[Any]:
        return [c async for c in chat().start().stream(chunks("a", "b"))]

    assert asyncio.run(main()) == ["a", "b"]
    assert recorded.span.attributes["gen_ai.response.time_to_first_chunk"] > 0


def test_a_cancelled_asynchronous_stream_is_an_error(recorded: Any) -> None:
    async def endless() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(60)

    async def main() -> None:
        async def read() -> None:
            async for _ in chat().start().stream(endless()):
                pass

        task = asyncio.create_task(read())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    found = recorded.span.attributes
    assert found["error.type"] == "asyncio.exceptions.CancelledError"
    assert found["gen_ai.response.finish_reasons"] == ("error",)


def test_an_asynchronous_stream_closed_early_is_no_error(recorded: Any) -> None:
    async def main() -> None:
        stream = chat().start().stream(chunks("a", "b"))
        async with stream:
            assert await anext(stream) == "a"
        await stream.aclose()

    asyncio.run(main())
    assert recorded.span.status.status_code.name == "UNSET"


def test_a_stream_without_an_sdk_passes_everything_through() -> None:
    assert list(chat().start().stream(Response(1, 2))) == [1, 2]


@pytest.mark.parametrize("sampled", [True, False, None])
def test_a_stream_in_a_block_never_ends_the_span_early(
    sampled: bool | None,  # noqa: FBT001
    request: pytest.FixtureRequest,
) -> None:
    if sampled is not None:
        request.getfixturevalue("make_recorded")(sampled=sampled)
    with chat() as span:
        assert list(span.stream(["a"])) == ["a"]
        span.set_usage(input=1)
    with pytest.raises(ValueError, match="has ended"):
        span.set_usage(input=1)


def test_a_decorated_generator_has_a_span_from_its_first_step_on(recorded: Any) -> None:
    @t.tool_span("count")
    def count() -> Generator[str, str | None, None]:
        said = yield "first"
        yield f"{said}!"

    count()  # never read: nothing happened
    stream = count()
    stream.close()
    assert not recorded.spans
    stream = count()
    assert next(stream) == "first"
    assert stream.send("heard") == "heard!"
    with pytest.raises(StopIteration):
        stream.send(None)
    assert recorded.span.name == "execute_tool count"
    assert recorded.span.status.status_code.name == "UNSET"


def test_a_decorated_asynchronous_generator_takes_what_is_sent(recorded: Any) -> None:
    @t.tool_span("count")
    async def count() -> AsyncGenerator[str, str]:
        said = yield "first"
        yield f"{said}!"

    async def read() -> list[str]:
        stream: Any = count()
        return [await anext(stream), await stream.asend("heard")] + [
            chunk async for chunk in stream
        ]

    assert asyncio.run(read()) == ["first", "heard!"]
    assert recorded.span.name == "execute_tool count"


def test_a_stream_of_a_provider_that_takes_nothing_says_so(recorded: Any) -> None:
    del recorded
    span = t.genai_span("chat", provider="openai").start()
    with pytest.raises(AttributeError):
        span.stream(iter("ab")).send(1)
    span.end()

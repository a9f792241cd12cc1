"""An SDK whose own parts fail takes nothing from the caller but the telemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lazycore import telemetry as t

if TYPE_CHECKING:
    from collections.abc import Callable

sdk = pytest.importorskip(
    "opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed"
)


class BrokenError(RuntimeError):
    def __init__(self) -> None:
        super().__init__("secret of a processor")


def provider(*, start: bool = False, end: bool = False, sample: bool = False) -> Any:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider, sampling

    class Processor(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            del span, parent_context
            if start:
                raise BrokenError

        def on_end(self, span: Any) -> None:
            del span
            if end:
                raise BrokenError

    class Sampler(sampling.Sampler):
        def should_sample(self, *args: Any, **kwargs: Any) -> Any:
            if sample:
                raise BrokenError
            return sampling.ALWAYS_ON.should_sample(*args, **kwargs)

        def get_description(self) -> str:
            return "broken"

    found = TracerProvider(sampler=Sampler())
    found.add_span_processor(Processor())
    return found


BROKEN: dict[str, Callable[[], dict[str, Any]]] = {
    "on_start": lambda: {"tracer_provider": provider(start=True)},
    "on_end": lambda: {"tracer_provider": provider(end=True)},
    "sampler": lambda: {"tracer_provider": provider(sample=True)},
    "logs": lambda: {
        "tracer_provider": provider(),
        "logger_provider": logs(),
        "details": True,
    },
    "metrics": lambda: {
        "tracer_provider": provider(),
        "meter_provider": metrics(),
    },
}


def logs() -> Any:
    from opentelemetry._logs import Logger, LoggerProvider

    class BrokenLogger(Logger):
        def enabled(self, *args: Any, **kwargs: Any) -> bool:
            del args, kwargs
            return True

        def emit(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            raise BrokenError

    class Provider(LoggerProvider):
        def get_logger(self, name: str, *args: Any, **kwargs: Any) -> Logger:
            del args, kwargs
            return BrokenLogger(name)

    return Provider()


def metrics() -> Any:
    from opentelemetry.metrics import Histogram, NoOpMeter, NoOpMeterProvider

    class BrokenHistogram(Histogram):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs

        def record(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            raise BrokenError

    class Meter(NoOpMeter):
        def create_histogram(self, name: str, *args: Any, **kwargs: Any) -> Histogram:
            del args, kwargs
            return BrokenHistogram(name)

    class Provider(NoOpMeterProvider):
        def get_meter(self, name: str, *args: Any, **kwargs: Any) -> Any:
            del args, kwargs
            return Meter(name)

    return Provider()


def use_everything() -> list[object]:
    """Return what came of a run that uses each part once."""
    found: list[object] = []
    with t.workflow_span("w"), t.agent_span("a"):
        for _ in range(2):
            with t.genai_span("chat", provider="openai", model="m") as span:
                span.add_input("user", "hello")
                found.extend(span.stream(iter("ab")))
                span.set_usage(1, 2)
                t.add_transcript_event(span, "user", "hello")
                t.set_security_finding(span, "low")
                t.set_ml_metric(span, "accuracy", 0.5)
        t.add_evaluation_result(span, "relevance", score=1)
    opened = t.genai_span("chat", provider="openai", model="m").start()
    found.extend(opened.stream(iter("c")))
    opened.end()
    t.add_evaluation_result(opened, "relevance", score=1)
    with pytest.raises(KeyError), t.tool_span("search"):
        raise KeyError("k")
    return found


@pytest.mark.parametrize("part", BROKEN)
def test_a_part_that_raises_never_reaches_the_caller(
    part: str, caplog: pytest.LogCaptureFixture
) -> None:
    from opentelemetry.trace import get_current_span

    t.configure(**BROKEN[part]())
    assert use_everything() == ["a", "b", "a", "b", "c"]
    assert not get_current_span().get_span_context().is_valid, "a context was left"
    assert "raised" in caplog.text
    assert "BrokenError" in caplog.text
    assert "secret" not in caplog.text


def test_an_interrupt_inside_the_sdk_is_the_callers() -> None:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    class Processor(SpanProcessor):
        def on_end(self, span: Any) -> None:
            del span
            raise KeyboardInterrupt

    found = TracerProvider()
    found.add_span_processor(Processor())
    t.configure(tracer_provider=found)
    with pytest.raises(KeyboardInterrupt), t.tool_span("search"):
        pass

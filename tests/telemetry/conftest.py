"""An SDK of its own for each test, and a process without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lazycore.telemetry import _runtime, configure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@pytest.fixture(autouse=True)
def fresh_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no test see another's choices, nor the developer's environment."""
    for name in (
        "LAZYCORE_TELEMETRY_SEMCONV",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT",
        "TRACEPARENT",
    ):
        monkeypatch.delenv(name, raising=False)
    _runtime.reset()
    yield
    _runtime.reset()


class Recorded:
    """All three signals of an SDK, in memory."""

    def __init__(self, *, sampled: bool = True) -> None:
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import (
            InMemoryLogRecordExporter,
            SimpleLogRecordProcessor,
        )
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider, sampling
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
            InMemorySpanExporter,
        )

        self.exporter = InMemorySpanExporter()
        sampler = sampling.ALWAYS_ON if sampled else sampling.ALWAYS_OFF
        self.tracer_provider = TracerProvider(sampler=sampler)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._logs = InMemoryLogRecordExporter()
        self.logger_provider = LoggerProvider()
        self.logger_provider.add_log_record_processor(
            SimpleLogRecordProcessor(self._logs)
        )
        self._reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider(metric_readers=[self._reader])

    def use(self, **settings: Any) -> Recorded:
        configure(
            tracer_provider=self.tracer_provider,
            logger_provider=self.logger_provider,
            meter_provider=self.meter_provider,
            **settings,
        )
        return self

    @property
    def spans(self) -> Sequence[Any]:
        return self.exporter.get_finished_spans()

    @property
    def span(self) -> Any:
        (found,) = self.spans
        return found

    @property
    def logs(self) -> list[Any]:
        return [data.log_record for data in self._logs.get_finished_logs()]

    def metrics(self) -> dict[str, list[Any]]:
        """Return metric name -> data points."""
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def shutdown(self) -> None:
        self.tracer_provider.shutdown()
        self.logger_provider.shutdown()
        self.meter_provider.shutdown()


@pytest.fixture
def make_recorded() -> Iterator[Callable[..., Recorded]]:
    """Make SDKs in memory; they are shut down after the test."""
    pytest.importorskip(
        "opentelemetry.sdk", reason="opentelemetry-sdk is not installed"
    )
    made: list[Recorded] = []

    def make(*, sampled: bool = True, **settings: Any) -> Recorded:
        made.append(Recorded(sampled=sampled).use(**settings))
        return made[-1]

    yield make
    for recorded in made:
        recorded.shutdown()


@pytest.fixture
def recorded(make_recorded: Callable[..., Recorded]) -> Recorded:
    """Return an SDK in memory under default settings."""
    return make_recorded()

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
        from opentelemetry.sdk._logs import LoggerProvider, export
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
        # The exporter had another name before 1.39.
        name = "InMemoryLogRecordExporter"
        if not hasattr(export, name):
            name = "InMemoryLogExporter"
        self._logs: Any = getattr(export, name)()
        self.logger_provider = LoggerProvider()
        self.logger_provider.add_log_record_processor(
            export.SimpleLogRecordProcessor(self._logs)
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


class _Resists:
    """Raises for whatever is asked of it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class _BadText(str):
    """A string whose methods lie and raise."""

    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def isascii(self) -> bool:
        return True

    def __str__(self) -> str:
        raise RuntimeError("no text")


class _BadMapping(dict[str, Any]):
    """A mapping that can't be walked."""

    def items(self) -> Any:
        raise RuntimeError("no items")

    def __iter__(self) -> Any:
        raise RuntimeError("no iteration")

    def get(self, *_: Any) -> Any:
        raise RuntimeError("no get")


class _BadIterable:
    def __iter__(self) -> Any:
        yield "one"
        raise RuntimeError("no second")


class _BadNumber:
    def __float__(self) -> float:
        raise OverflowError("no number")

    def __index__(self) -> int:
        raise RuntimeError("no index")

    def item(self) -> Any:
        raise RuntimeError("no item")


class _Endless:
    """A tree without end."""

    def __init__(self) -> None:
        self.shape = None

    @property
    def tolist(self) -> Any:
        return lambda: [_Endless()]

    def model_dump(self) -> dict[str, Any]:
        return {"again": _Endless(), "and": _Endless()}


def hostile_values() -> dict[str, Any]:
    """Return values that break serialisers, by what is wrong with them."""
    import datetime as dt
    import decimal
    import enum
    import fractions
    import pathlib
    import uuid

    cycle: list[Any] = [1]
    cycle.append(cycle)
    deep: Any = "bottom"
    for _ in range(5000):
        deep = [deep]
    wide: Any = "x"
    for _ in range(40):
        wide = [wide, wide]

    class Colour(enum.Enum):
        RED = object()

    return {
        "none": None,
        "lone surrogate": "a\ud800b",
        "reversed pair": "\udc00\ud83d",
        "split pair": "\ud83d\ude00",
        "nul": "a\0b",
        "bom": "\ufeff\u202e",
        "empty": "",
        "nan": float("nan"),
        "infinity": float("inf"),
        "minus infinity": float("-inf"),
        "huge int": 10**5000,
        "int65": 1 << 64,
        "negative": -1,
        "true": True,
        "bytes": b"\xff\xfe\0",
        "bytearray": bytearray(b"\x80"),
        "memoryview": memoryview(b"abc"),
        "complex": 1 + 2j,
        "cycle": cycle,
        "deep": deep,
        "exponential": wide,
        "set": {1, "a", (2, 3)},
        "frozenset": frozenset({b"x"}),
        "date": dt.date(2026, 10, 1),
        "datetime": dt.datetime(2026, 10, 1, tzinfo=dt.UTC),
        "timedelta": dt.timedelta(1),
        "decimal": decimal.Decimal("NaN"),
        "fraction": fractions.Fraction(1, 3),
        "path": pathlib.Path("/x"),
        "uuid": uuid.UUID(int=0),
        "enum": Colour.RED,
        "type": dict,
        "function": len,
        "generator": (x for x in [1, "\ud800"]),
        "resists": _Resists(),
        "bad text": _BadText("secret\ud800"),
        "bad mapping": _BadMapping(a=1),
        "bad iterable": _BadIterable(),
        "bad number": _BadNumber(),
        "endless": _Endless(),
        "odd keys": {None: 1, ("a",): 2, "\ud800": 3, b"k": 4, 5: {6: 7}},
        "tuple": ("a", 1, None),
        "mixed list": [1, "a", 2.5, None, True],
        "exception": ValueError("a\ud800b"),
    }


@pytest.fixture(scope="session")
def hostile() -> Callable[[], dict[str, Any]]:
    """Return a maker of hostile values: some can be walked only once."""
    return hostile_values

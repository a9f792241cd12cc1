"""What spans need of OpenTelemetry, found once and kept.

`opentelemetry.trace` costs more to import than a program without telemetry wants to
pay, so nothing here is imported before the first span.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from lazycore.telemetry import _settings
from lazycore.telemetry._names import SCHEMA_URL, SCOPE

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

    from opentelemetry._logs import Logger, LoggerProvider
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from lazycore.telemetry._compose import Opening
    from lazycore.telemetry._instruments import Instruments
    from lazycore.telemetry._policy import ContentPolicy
    from lazycore.telemetry._settings import Events, Semconv, Settings

__all__ = ["Runtime", "configure", "current", "get_tracer"]


class Probe(Protocol):
    """What tells whether an instrument leads anywhere."""

    _real_instrument: object


class _Probe:
    __slots__ = ("_real_instrument",)

    def __init__(self, real: object) -> None:
        self._real_instrument = real


class Runtime:
    """Tracer, logger, instruments and functions under the present settings."""

    __slots__ = (
        "_idle_logger",
        "_quiet",
        "attach",
        "bare",
        "client",
        "detach",
        "dup",
        "failed",
        "get_context",
        "idle_tracer",
        "instruments",
        "kinds",
        "live",
        "logger",
        "nothing",
        "openings",
        "probe",
        "set_span",
        "settings",
        "tracer",
    )

    def __init__(self, settings: Settings) -> None:
        from opentelemetry import _logs, context, metrics, trace
        from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext

        from lazycore.telemetry._instruments import Instruments

        self.settings = settings
        self.dup = settings.semconv == "dup"
        # Nothing is written at the end but what the response says.
        self.bare = not self.dup and not settings.details
        # Once the tracer leads somewhere it always will.
        self.live = False
        self.tracer: Tracer = trace.get_tracer(
            SCOPE, _version(), settings.tracer_provider, SCHEMA_URL
        )
        self.logger: Logger = _logs.get_logger(
            SCOPE, _version(), settings.logger_provider, SCHEMA_URL
        )
        meter = metrics.get_meter(
            SCOPE, _version(), settings.meter_provider, SCHEMA_URL
        )
        self.instruments: Instruments = Instruments(meter, settings.semconv)
        # A proxy that leads nowhere yet has no instrument behind it. The attribute
        # is the API's own detail; without it every call counts as measured.
        self.probe: Probe = _Probe(settings.metrics or None)
        if settings.metrics and hasattr(self.instruments.probe, "_real_instrument"):
            self.probe = self.instruments.probe
        self.idle_tracer: type[Tracer] = trace.NoOpTracer
        self.attach: Callable[[Context], Token[Context]] = context.attach
        self.detach: Callable[[Token[Context]], None] = context.detach
        self.get_context: Callable[[], Context] = context.get_current
        if (
            type(getattr(context, "_RUNTIME_CONTEXT", None))
            is ContextVarsRuntimeContext
        ):
            # What the API's functions call, two frames further down.
            token = context.attach(context.get_current())
            self.attach = token.var.set
            self.detach = token.var.reset
            self.get_context = token.var.get
            context.detach(token)
        self.nothing: Span = trace.INVALID_SPAN
        self.set_span: Callable[[Span, Context | None], Context] = (
            trace.set_span_in_context
        )
        from opentelemetry.trace.status import Status, StatusCode

        self.failed = Status(StatusCode.ERROR)
        self._idle_logger: type[Logger] = _logs.NoOpLogger
        self.kinds: Final = trace.SpanKind.__members__
        self.client = trace.SpanKind.CLIENT
        self.openings: dict[tuple[object, ...], Opening] = {}
        key = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", None)
        self._quiet = ("suppress_instrumentation", *([] if key is None else [key]))

    def suppressed(self, context: Context) -> bool:
        """Tell whether the application asked instrumentations to keep quiet."""
        for key in self._quiet:  # noqa: SIM110 - any() is dearer, and each child asks
            if context.get(key):
                return True
        return False

    def idle(self, tracer: Tracer) -> bool:
        """Tell whether neither spans nor metrics lead anywhere."""
        if type(getattr(tracer, "_tracer", tracer)) is self.idle_tracer:
            return not self.metered
        if tracer is self.tracer:
            self.live = True
        return False

    @property
    def logging(self) -> bool:
        """Whether log events may lead somewhere."""
        logger = self.logger
        return not isinstance(getattr(logger, "_logger", logger), self._idle_logger)

    @property
    def counts_calls(self) -> bool:
        """Whether agents count the calls below them."""
        return self.metered and self.instruments.counts_calls

    @property
    def metered(self) -> bool:
        """Whether metrics may lead somewhere."""
        return self.probe._real_instrument is not None


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    global _known_version  # noqa: PLW0603 - looked up once
    if _known_version is None:
        try:
            _known_version = version("lazycore-telemetry")
        except PackageNotFoundError:
            _known_version = "0"
    return _known_version


_known_version: str | None = None
present: Runtime | None = None
_chosen: Settings | None = None


def current() -> Runtime:
    """Return the runtime, made on first use."""
    global present, _chosen  # noqa: PLW0603 - one per process by design
    found = present
    if found is None:
        if _chosen is None:
            _chosen = _settings.from_environment()
        found = present = Runtime(_chosen)
    return found


def reset() -> None:
    """Forget every choice, so that the environment is read again."""
    global present, _chosen  # noqa: PLW0603 - one per process by design
    present = _chosen = None


def configure(
    *,
    policy: ContentPolicy | None = None,
    semconv: Semconv | None = None,
    events: Events | None = None,
    metrics: bool | None = None,
    details: bool | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    logger_provider: LoggerProvider | None = None,
) -> None:
    """Choose what this process records; what is not given stays as it is.

    Without a call the environment decides: `LAZYCORE_TELEMETRY_SEMCONV`,
    `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` and
    `OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT`, read before the first span.

    Args:
        policy: What of the content is recorded.
        semconv: `"2026-10"`, `"next"` or `"dup"` (both).
        events: Where events go: the Logs API, the span, both while the span is
            recording (default), or nowhere.
        metrics: Whether durations and token counts are recorded.
        details: Whether each inference emits
            `gen_ai.client.inference.operation.details`; follows the policy's mode.
        tracer_provider: Used instead of the global provider.
        meter_provider: Used instead of the global provider.
        logger_provider: Used instead of the global provider.

    Raises:
        TelemetryUsageError: If a value is unknown.

    Example:
        >>> from lazycore.telemetry import ContentMode, ContentPolicy, configure
        >>> configure(policy=ContentPolicy(mode=ContentMode.NO_CONTENT))
    """
    global present, _chosen  # noqa: PLW0603 - one per process by design
    old = _chosen if _chosen is not None else _settings.from_environment()
    _chosen = _settings.updated(
        old,
        {
            "policy": policy,
            "semconv": semconv,
            "events": events,
            "metrics": metrics,
            "details": details,
            "tracer_provider": tracer_provider,
            "meter_provider": meter_provider,
            "logger_provider": logger_provider,
        },
    )
    present = None


def get_tracer(
    name: str | None = None,
    version: str | None = None,
    *,
    tracer_provider: TracerProvider | None = None,
) -> Tracer:
    """Return a tracer whose scope names the convention's schema.

    Without an SDK it makes no-op spans; one that is set up later takes effect on
    the same tracer.

    Args:
        name: Instrumentation scope, `lazycore.telemetry` by default.
        version: Version of that scope.
        tracer_provider: Used instead of the configured or global provider.

    Example:
        >>> with get_tracer("my.audit").start_as_current_span("probe") as span:
        ...     span.is_recording()
        False
    """
    if name is None and version is None and tracer_provider is None:
        return current().tracer
    from opentelemetry import trace

    provider = tracer_provider or current().settings.tracer_provider
    return trace.get_tracer(name or SCOPE, version, provider, SCHEMA_URL)

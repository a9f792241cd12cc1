"""The choices of one process: content, profile of names, events, metrics, providers."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._policy import ContentMode, ContentPolicy

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["Events", "Semconv", "Settings", "from_environment", "updated"]

Semconv: TypeAlias = Literal["2026-10", "next", "dup"]
Events: TypeAlias = Literal["both", "logs", "span", "none"]

ENV_SEMCONV: Final = "LAZYCORE_TELEMETRY_SEMCONV"
ENV_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ENV_DETAILS: Final = "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"
SEMCONVS: Final = ("2026-10", "next", "dup")
EVENTS: Final = ("both", "logs", "span", "none")

_log = logging.getLogger("lazycore.telemetry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every choice, with the defaults that say least."""

    policy: ContentPolicy = ContentPolicy()  # noqa: RUF009 - frozen
    semconv: Semconv = "2026-10"
    events: Events = "both"
    metrics: bool = True
    details: bool = False
    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
    logger_provider: LoggerProvider | None = None


def from_environment() -> Settings:
    """Read the environment; a value that is not understood gives the default.

    The default of content is none: a typing mistake can't start a leak.
    """
    found = Settings()
    semconv = os.environ.get(ENV_SEMCONV, "").strip()
    for name in SEMCONVS:
        if semconv == name:
            found = replace(found, semconv=name)
    if semconv and semconv not in SEMCONVS:
        _log.warning(
            "%s is none of %s: using %s",
            ENV_SEMCONV,
            ", ".join(SEMCONVS),
            found.semconv,
        )
    mode = os.environ.get(ENV_CONTENT, "").strip().upper()
    if mode in ContentMode.__members__:
        found = replace(found, policy=ContentPolicy(mode=ContentMode[mode]))
    elif mode:
        _log.warning(
            "%s is none of %s: recording no content",
            ENV_CONTENT,
            ", ".join(ContentMode.__members__),
        )
    details = os.environ.get(ENV_DETAILS, "").strip().lower()
    if details not in {"", "true", "false"}:
        _log.warning("%s is neither true nor false: ignored", ENV_DETAILS)
    on = details == "true" or (details != "false" and found.policy.mode.on_event)
    return replace(found, details=on)


def updated(old: Settings, changes: dict[str, object]) -> Settings:
    """Return settings with the given changes, each checked."""
    policy = changes.get("policy")
    if policy is not None and not isinstance(policy, ContentPolicy):
        raise TelemetryUsageError(f"policy is a ContentPolicy, not {policy!r}")
    for name, known in (("semconv", SEMCONVS), ("events", EVENTS)):
        value = changes.get(name)
        if value is not None and value not in known:
            raise TelemetryUsageError(
                f"unknown {name} {value!r}: give one of {', '.join(known)}"
            )
    for name in ("metrics", "details"):
        value = changes.get(name)
        if value is not None and not isinstance(value, bool):
            raise TelemetryUsageError(f"{name} is True or False, not {value!r}")
    given = {name: value for name, value in changes.items() if value is not None}
    if isinstance(policy, ContentPolicy) and "details" not in given:
        given["details"] = policy.mode.on_event
    return replace(old, **given)  # type: ignore[arg-type] # checked above

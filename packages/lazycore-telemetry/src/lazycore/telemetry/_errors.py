"""Exceptions of the telemetry slice: they speak of the caller's code, never of data."""

from __future__ import annotations

__all__ = ["TelemetryError", "TelemetryUsageError"]


class TelemetryError(Exception):
    """Root of every exception that this slice raises.

    Example:
        >>> issubclass(TelemetryUsageError, TelemetryError)
        True
    """


class TelemetryUsageError(TelemetryError, ValueError):
    """Report a mistake in the calling code: a misspelt name, a missing requirement.

    Raised with and without an SDK, so a mistake can't hide until production. Values
    that a program handles (messages, numbers, identifiers) never raise.

    Example:
        >>> from lazycore.telemetry import genai_span
        >>> genai_span("chatt", provider="openai")
        Traceback (most recent call last):
        ...
        lazycore.telemetry._errors.TelemetryUsageError: unknown operation 'chatt': ...
    """

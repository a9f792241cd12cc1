"""Accept every form in which a caller holds a span."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._span import GenAISpan

if TYPE_CHECKING:
    from opentelemetry.trace import Span

__all__ = ["target_span"]


def target_span(value: object) -> Span | None:
    """Return the OpenTelemetry span; None where there is none to speak of.

    Raises:
        TelemetryUsageError: If the value is no span.
    """
    if isinstance(value, GenAISpan):
        return value.span
    if callable(getattr(value, "get_span_context", None)) and callable(
        getattr(value, "set_attribute", None)
    ):
        return value  # type: ignore[return-value] # a span by its methods
    raise TelemetryUsageError(
        f"expected an OpenTelemetry span or a GenAISpan, found {type(value).__name__}"
    )

"""Be an OpenTelemetry span to who expects one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.telemetry import _compose
from lazycore.telemetry._attributes import own_attributes
from lazycore.telemetry._content_record import ContentRecord
from lazycore.telemetry._record import NEW, OPEN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from opentelemetry.trace import Span, SpanContext
    from opentelemetry.trace.status import Status, StatusCode

__all__ = ["OpenTelemetrySpan"]


class OpenTelemetrySpan(ContentRecord):
    """The methods of an OpenTelemetry span, each safe for any value."""

    __slots__ = ()

    @property
    def span(self) -> Span:
        """The OpenTelemetry span, for what this class does not say."""
        found = self._span
        if found is None:
            from opentelemetry.trace import NonRecordingSpan, get_current_span

            parent = get_current_span()
            # Never the parent itself: writing to it would change another span.
            found = NonRecordingSpan(parent.get_span_context())
            if self._state != NEW:
                self._span = found
        return found

    @property
    def context(self) -> SpanContext:
        """Identity of the span; invalid without an SDK and without a parent."""
        return self.span.get_span_context()

    @property
    def traceparent(self) -> str | None:
        """W3C `traceparent` of the span, None where there is none."""
        found = self.context
        if not found.is_valid:
            return None
        flags = int(found.trace_flags) & 0xFF
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{flags:02x}"

    def record(self, attributes: Mapping[str, object]) -> Self:
        """Set attributes of your own now; their names are not checked.

        Values are made safe: text is cleaned, what is no scalar becomes JSON. The
        content policy does not apply to them.
        """
        if self._writable() and self._recording and self._span is not None:
            self._span.set_attributes(own_attributes(attributes))
        return self

    def is_recording(self) -> bool:
        """Tell whether attributes lead anywhere."""
        return self._state == OPEN and self._recording

    @property
    def response_id(self) -> object:
        """Identifier of the response, as far as it was set."""
        return self._final.get("gen_ai.response.id")

    def get_span_context(self) -> SpanContext:
        """Return the identity of the span, as an OpenTelemetry span does."""
        return self.context

    def set_attribute(self, key: str, value: object) -> None:
        """Set one attribute of your own, as an OpenTelemetry span does."""
        self.record({key: value})

    def set_attributes(self, attributes: Mapping[str, object]) -> None:
        """Set attributes of your own, as an OpenTelemetry span does."""
        self.record(attributes)

    def add_event(
        self,
        name: str,
        attributes: Mapping[str, object] | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Add an event of your own, as an OpenTelemetry span does."""
        if self._writable() and self._recording and self._span is not None:
            found = own_attributes(attributes or {})
            self._span.add_event(_compose.clean_name(name), found, timestamp)

    def set_status(
        self, status: Status | StatusCode, description: str | None = None
    ) -> None:
        """Set the status; its text is recorded only where the policy allows."""
        if self._writable() and self._recording and self._span is not None:
            _compose.set_status(self, status, description)

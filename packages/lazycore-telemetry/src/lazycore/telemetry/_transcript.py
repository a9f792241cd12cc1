"""Record the turns of a conversation as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.telemetry import _events, _runtime
from lazycore.telemetry._attributes import own_attributes
from lazycore.telemetry._names import (
    ATTR_GENAI_EVENT_CONTENT,
    ATTR_GENAI_EVENT_ROLE,
    EVENT_TRANSCRIPT,
)
from lazycore.telemetry._policy import measure
from lazycore.telemetry._target import target_span
from lazycore.telemetry._text import metadata

if TYPE_CHECKING:
    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._span import GenAISpan
    from lazycore.telemetry._values import JSON

__all__ = ["add_transcript_event"]


def add_transcript_event(
    span: Span | GenAISpan,
    role: str,
    content: object,
    *,
    name: str | None = None,
    tool_call_id: str | None = None,
    timestamp: int | None = None,
    **attributes: object,
) -> None:
    """Record one turn of a conversation as a `gen_ai.content` event on a span.

    The content is recorded where the content policy allows it: on the span's event,
    on the log event, or on neither. Its length always is, and its keyed hash where
    the policy has a key.

    Args:
        span: The span that the turn belongs to.
        role: `system`, `user`, `assistant`, `tool`, or another.
        content: The text, or anything; what is no text becomes JSON.
        name: Name of the agent that speaks.
        tool_call_id: Identifier of the tool call that this turn answers.
        timestamp: When it was said, in nanoseconds since the epoch; now by default.
        **attributes: Attributes of your own.

    Example:
        >>> from lazycore.telemetry import genai_span
        >>> with genai_span("audit.dialogue") as span:
        ...     add_transcript_event(span, "user", "hello")
    """
    target = target_span(span)
    runtime = _runtime.current()
    if target is None or not (
        target.is_recording() or target.get_span_context().is_valid
    ):
        return
    policy = runtime.settings.policy
    found = own_attributes(attributes)
    found[ATTR_GENAI_EVENT_ROLE] = metadata(role)
    found[f"{ATTR_GENAI_EVENT_CONTENT}.length"] = measure((content,))
    if name is not None:
        found["gen_ai.agent.name"] = metadata(name)
    if tool_call_id is not None:
        found["gen_ai.tool.call.id"] = metadata(tool_call_id)
    digest = policy.digest(content)
    if digest is not None:
        found[f"{ATTR_GENAI_EVENT_CONTENT}.hmac_sha256"] = digest
    on_span: dict[str, AttributeValue] = found
    on_log: dict[str, JSON] = dict(found)  # type: ignore[arg-type] # scalars and lists
    if policy.captures:
        text = policy.text(found_role(found), content)
        if text is not None:
            if policy.mode.on_span:
                on_span = {**found, ATTR_GENAI_EVENT_CONTENT: text}
            if policy.mode.on_event:
                on_log[ATTR_GENAI_EVENT_CONTENT] = text
    _events.emit(
        runtime,
        target,
        EVENT_TRANSCRIPT,
        on_span,
        structured=on_log,
        timestamp=timestamp,
    )


def found_role(attributes: dict[str, AttributeValue]) -> str:
    """Return the role as the redaction hook sees it."""
    return str(attributes[ATTR_GENAI_EVENT_ROLE])

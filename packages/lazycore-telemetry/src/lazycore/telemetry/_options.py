"""What a call may say, as type checkers see it; never imported when a program runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind, Tracer

__all__ = ["AgentOptions", "SpanControls", "SpanOptions"]


class SpanControls(TypedDict, total=False):
    """How a span is made: its name, kind, parent, links, tracer, own attributes."""

    name: str | None
    kind: SpanKind | None
    context: Context | None
    links: Sequence[Link] | None
    tracer: Tracer | None
    extra: Mapping[str, object] | None
    attributes: Mapping[str, object] | None


class AgentOptions(SpanControls, total=False):
    """What a request says, but for the agent's name."""

    agent_description: str | None
    agent_id: str | None
    agent_version: str | None
    choice_count: int | None
    compacted: bool | None
    conversation_id: str | None
    data_source: str | None
    dimensions: int | None
    encoding_formats: Iterable[str] | None
    frequency_penalty: float | None
    max_tokens: int | None
    memory_record: str | None
    memory_store: str | None
    output_type: str | None
    presence_penalty: float | None
    previous_response_id: str | None
    prompt_name: str | None
    prompt_version: str | None
    reasoning_level: str | None
    record_count: int | None
    request: Mapping[str, object] | None
    response_id: str | None
    seed: int | None
    server_address: str | None
    server_port: int | None
    stop_sequences: Iterable[str] | None
    stream: bool | None
    stream_cursor: str | None
    temperature: float | None
    tool: str | None
    tool_call_id: str | None
    tool_description: str | None
    tool_type: str | None
    top_k: int | None
    top_p: float | None
    workflow: str | None


class SpanOptions(AgentOptions, total=False):
    """What a request says; each operation takes those that the conventions give it."""

    agent: str | None

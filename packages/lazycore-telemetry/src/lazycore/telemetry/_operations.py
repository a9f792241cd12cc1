"""Which operations exist, what each may carry, and how its span is named."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

from lazycore.telemetry._errors import TelemetryUsageError

__all__ = ["OPERATIONS", "Operation", "find_operation"]

# Option of the call -> (attribute, type). Types: s string, i int64, f double,
# b boolean, l string list. The dated table holds the same names; a test compares.
OPTIONS: Final = {
    "agent": ("gen_ai.agent.name", "s"),
    "agent_description": ("gen_ai.agent.description", "s"),
    "agent_id": ("gen_ai.agent.id", "s"),
    "agent_version": ("gen_ai.agent.version", "s"),
    "choice_count": ("gen_ai.request.choice.count", "i"),
    "compacted": ("gen_ai.conversation.compacted", "b"),
    "conversation_id": ("gen_ai.conversation.id", "s"),
    "data_source": ("gen_ai.data_source.id", "s"),
    "dimensions": ("gen_ai.embeddings.dimension.count", "i"),
    "encoding_formats": ("gen_ai.request.encoding_formats", "l"),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", "f"),
    "max_tokens": ("gen_ai.request.max_tokens", "i"),
    "memory_record": ("gen_ai.memory.record.id", "s"),
    "memory_store": ("gen_ai.memory.store.id", "s"),
    "output_type": ("gen_ai.output.type", "s"),
    "presence_penalty": ("gen_ai.request.presence_penalty", "f"),
    "previous_response_id": ("gen_ai.request.previous_response.id", "s"),
    "prompt_name": ("gen_ai.prompt.name", "s"),
    "prompt_version": ("gen_ai.prompt.version", "s"),
    "reasoning_level": ("gen_ai.request.reasoning.level", "s"),
    "record_count": ("gen_ai.memory.record.count", "i"),
    "response_id": ("gen_ai.response.id", "s"),
    "seed": ("gen_ai.request.seed", "i"),
    "server_address": ("server.address", "s"),
    "server_port": ("server.port", "i"),
    "stop_sequences": ("gen_ai.request.stop_sequences", "l"),
    "stream": ("gen_ai.request.stream", "b"),
    "stream_cursor": ("gen_ai.request.stream_cursor", "s"),
    "temperature": ("gen_ai.request.temperature", "f"),
    "tool": ("gen_ai.tool.name", "s"),
    "tool_call_id": ("gen_ai.tool.call.id", "s"),
    "tool_description": ("gen_ai.tool.description", "s"),
    "tool_type": ("gen_ai.tool.type", "s"),
    "top_k": ("gen_ai.request.top_k", "i"),
    "top_p": ("gen_ai.request.top_p", "f"),
    "workflow": ("gen_ai.workflow.name", "s"),
}
RETRIEVAL_OPTIONS: Final = {**OPTIONS, "top_k": ("gen_ai.retrieval.top_k", "i")}

# How a span is made rather than what it says.
CONTROLS: Final = frozenset(
    {"attributes", "context", "extra", "kind", "links", "name", "request", "tracer"}
)

_SERVER = {"server_address", "server_port"}
_SAMPLING = {
    "choice_count",
    "frequency_penalty",
    "max_tokens",
    "presence_penalty",
    "seed",
    "stop_sequences",
    "temperature",
    "top_k",
    "top_p",
}
_INFERENCE = _SERVER | _SAMPLING
_INFERENCE |= {"compacted", "conversation_id", "output_type", "previous_response_id"}
_INFERENCE |= {"prompt_name", "prompt_version", "reasoning_level", "stream"}
_AGENT = {"agent", "agent_description", "conversation_id", "data_source"}
_AGENT |= {"output_type"} | _SAMPLING - {"top_k"}
_MEMORY = {"memory_record", "memory_store", "record_count"} | _SERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the conventions.

    Attributes:
        name: Value of `gen_ai.operation.name`; empty for a span of a free name.
        kind: Name of the default `SpanKind`.
        target: Option whose value follows the operation in the span's name.
        needs: Options that the conventions require.
        allows: Options and controls that the call may give.
        options: Option -> (attribute, type).
        family: Which metrics it counts for.
        needs_provider: Whether the conventions require a provider.
        takes: Which of `provider` and `model` make sense.
        responds: What `set_response` may say.
        usage: What `set_usage` may say.
        answers: Whether it may say all that an inference does.
    """

    name: str
    kind: str
    target: str
    needs: frozenset[str]
    allows: frozenset[str]
    options: dict[str, tuple[str, str]]
    family: str
    needs_provider: bool
    takes: frozenset[str]
    responds: frozenset[str]
    usage: frozenset[str]
    answers: bool


_RESPONSE = frozenset({"finish_reasons", "id", "model"})
_USAGE = frozenset(
    {"cache_read", "cache_write", "input", "modality", "output", "reasoning"}
)
_NONE: frozenset[str] = frozenset()


def _make(
    name: str,
    kind: str,
    target: str,
    options: set[str],
    *,
    family: str = "client",
    needs: frozenset[str] = frozenset(),
    provider: bool = False,
    takes: frozenset[str] = frozenset({"model", "provider"}),
    responds: frozenset[str] = _NONE,
    usage: frozenset[str] = _NONE,
) -> Operation:
    return Operation(
        name=name,
        kind=kind,
        target=target,
        needs=needs,
        allows=frozenset(options) | needs | CONTROLS,
        options=RETRIEVAL_OPTIONS if name == "retrieval" else OPTIONS,
        family=family,
        needs_provider=provider,
        takes=takes,
        responds=responds,
        usage=usage,
        answers=responds is _RESPONSE and usage is _USAGE,
    )


def _inference(name: str) -> Operation:
    return _make(
        name,
        "CLIENT",
        "model",
        _INFERENCE,
        family="inference",
        provider=True,
        responds=_RESPONSE,
        usage=_USAGE,
    )


def _memory(name: str) -> Operation:
    return _make(name, "CLIENT", "", _MEMORY, takes=_PROVIDER)


_PROVIDER = frozenset({"provider"})

_ALL = (
    _inference("chat"),
    _inference("generate_content"),
    _inference("text_completion"),
    _make(
        "embeddings",
        "CLIENT",
        "model",
        {"dimensions", "encoding_formats"} | _SERVER,
        family="embeddings",
        provider=True,
        responds=frozenset({"model"}),
        usage=frozenset({"input"}),
    ),
    _make("retrieval", "CLIENT", "data_source", {"data_source", "top_k"} | _SERVER),
    _make(
        "fetch_response",
        "CLIENT",
        "",
        {"stream", "stream_cursor"} | _SERVER,
        needs=frozenset({"response_id"}),
        provider=True,
        takes=_PROVIDER,
        responds=frozenset({"finish_reasons", "model", "status"}),
    ),
    _memory("search_memory"),
    _memory("create_memory"),
    _memory("update_memory"),
    _memory("upsert_memory"),
    _memory("delete_memory"),
    _memory("create_memory_store"),
    _memory("delete_memory_store"),
    _make(
        "create_agent",
        "CLIENT",
        "agent",
        {"agent", "agent_description", "agent_id", "agent_version"} | _SERVER,
        provider=True,
    ),
    _make(
        "invoke_agent",
        "INTERNAL",
        "agent",
        _AGENT,
        family="agent",
        takes=frozenset({"model"}),
        responds=frozenset({"finish_reasons"}),
        usage=frozenset({"input", "output"}),
    ),
    _make(
        "invoke_workflow",
        "INTERNAL",
        "workflow",
        {"conversation_id", "workflow"},
        family="workflow",
        takes=_NONE,
    ),
    _make(
        "execute_tool",
        "INTERNAL",
        "tool",
        {"agent", "conversation_id", "tool_call_id", "tool_description", "tool_type"},
        family="tool",
        needs=frozenset({"tool"}),
        takes=_NONE,
    ),
    _make(
        "plan",
        "INTERNAL",
        "agent",
        {"agent", "conversation_id"},
        family="",
        takes=_NONE,
    ),
)
OPERATIONS: Final = {operation.name: operation for operation in _ALL}
REMOTE_AGENT: Final = _make(
    "invoke_agent",
    "CLIENT",
    "agent",
    _AGENT | _SERVER | {"agent_id", "agent_version", "top_k", "stream"},
    provider=True,
    responds=_RESPONSE,
    usage=_USAGE,
)
# A span under a name of the caller's own: no operation, no requirements.
FREE: Final = _make(
    "", "INTERNAL", "", set(OPTIONS), family="", responds=_RESPONSE, usage=_USAGE
)


def find_operation(name: object, *, remote: bool = False) -> Operation:
    """Return the operation of that name; a dotted name makes a free span.

    Raises:
        TelemetryUsageError: If the name is neither; the message names the nearest.
    """
    if isinstance(name, str):
        found = OPERATIONS.get(name)
        if found is not None:
            return REMOTE_AGENT if remote and name == "invoke_agent" else found
        if "." in name.strip("."):
            return FREE
    near = difflib.get_close_matches(str(name), OPERATIONS, n=1, cutoff=0)[0]
    raise TelemetryUsageError(
        f"unknown operation {name!r}: the nearest is {near!r}; known are "
        f"{', '.join(sorted(OPERATIONS))}; a span of your own takes a dotted name, "
        "like 'audit.probe'"
    )

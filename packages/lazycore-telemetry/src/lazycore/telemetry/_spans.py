"""One function per kind of span: they check the call and make a `GenAISpan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.telemetry._calls import SHAPES, read_call
from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._span import GenAISpan

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from lazycore.telemetry._options import AgentOptions, SpanControls, SpanOptions

__all__ = [
    "agent_span",
    "embeddings_span",
    "genai_span",
    "memory_span",
    "plan_span",
    "retrieval_span",
    "tool_span",
    "workflow_span",
]


def genai_span(
    operation: str = "chat",
    *,
    provider: str | None = None,
    model: str | None = None,
    **options: Unpack[SpanOptions],
) -> GenAISpan:
    """Make the span of one operation on a model, an agent, a tool or a memory.

    Args:
        operation: A value of `gen_ai.operation.name`, such as `chat`,
            `generate_content`, `text_completion`, `embeddings`, `retrieval`,
            `fetch_response`, `invoke_agent`, `execute_tool`, `search_memory`. A
            dotted name (`"audit.probe"`) makes an internal span under that name.
        provider: `openai`, `anthropic`, ..., or a name of your own; required where
            the conventions require it. `invoke_agent` with a provider is a call to
            a remote agent.
        model: Requested model.
        **options: Request options by their convention's name (`temperature`,
            `max_tokens`, `conversation_id`, ...), or all at once as
            `request={...}`; and `name`, `kind`, `context`, `links`, `tracer`,
            `extra` (attributes of your own; `attributes` means the same).

    Returns:
        A span that is not started yet: enter it, decorate with it, or `start()` it.

    Raises:
        TelemetryUsageError: If the operation or an option is unknown, or a required
            one is missing; with and without an SDK.

    Example:
        >>> with genai_span("chat", provider="openai", model="m", top_p=0.9) as span:
        ...     _ = span.set_usage(input=3, output=1)
    """
    given: dict[str, object] = options  # type: ignore[assignment] # a plain dict
    try:
        shape = SHAPES.get((operation, provider is None, model is None, *given))
    except TypeError:  # an operation that can't be hashed
        shape = None
    if shape is None or (shape.needs and shape.lacks(given)):
        shape, given = read_call(operation, provider, model, given)
    return GenAISpan(shape, provider, model, given)


def tool_span(
    tool: str,
    *,
    call_id: str | None = None,
    type: str = "function",  # noqa: A002 - the convention's own word
    description: str | None = None,
    arguments: object = None,
    agent: str | None = None,
    conversation_id: str | None = None,
    **controls: Unpack[SpanControls],
) -> GenAISpan:
    """Make the span of one tool execution.

    Args:
        tool: Name of the tool.
        call_id: Identifier that the model gave to the call.
        type: `function`, `extension` or `datastore`.
        description: What the tool does.
        arguments: What it was called with; recorded as the content policy allows.
        agent: Name of the agent that called it.
        conversation_id: The application's own; never invent one.
        **controls: `name`, `kind`, `context`, `links`, `tracer`, `extra`.

    Example:
        >>> with tool_span("search", call_id="c-1", arguments={"q": "x"}) as span:
        ...     _ = span.set_result(["a", "b"])
    """
    found = _make(
        "execute_tool",
        controls,
        tool=tool,
        tool_call_id=call_id,
        tool_type=type,
        tool_description=description,
        agent=agent,
        conversation_id=conversation_id,
    )
    return found if arguments is None else found.set_arguments(arguments)


def agent_span(
    agent: str | None = None,
    *,
    remote: bool = False,
    provider: str | None = None,
    model: str | None = None,
    **options: Unpack[AgentOptions],
) -> GenAISpan:
    """Make the span of one agent invocation.

    Args:
        agent: Name of the agent.
        remote: The agent runs elsewhere: a client span, which needs `provider`.
        provider: Who runs a remote agent.
        model: Requested model, where the agent has exactly one.
        **options: As for `genai_span`.

    Example:
        >>> with agent_span("planner") as agent, tool_span("search", agent="planner"):
        ...     pass
    """
    if remote and provider is None:
        raise TelemetryUsageError("a remote agent needs provider=...")
    if provider is not None and not remote:
        raise TelemetryUsageError(
            "an agent in this process has no provider: leave it out, or say remote=True"
        )
    given: SpanOptions = {**options, "agent": agent}
    return genai_span("invoke_agent", provider=provider, model=model, **given)


def workflow_span(
    workflow: str | None = None,
    *,
    conversation_id: str | None = None,
    **controls: Unpack[SpanControls],
) -> GenAISpan:
    """Make the span of a workflow: agents and steps under one name.

    Args:
        workflow: One of few names, never a generated one.
        conversation_id: The application's own; never invent one.
        **controls: `name`, `kind`, `context`, `links`, `tracer`, `extra`.

    Example:
        >>> with workflow_span("nightly-audit"):
        ...     pass
    """
    return _make(
        "invoke_workflow", controls, workflow=workflow, conversation_id=conversation_id
    )


def embeddings_span(
    provider: str,
    model: str | None = None,
    *,
    dimensions: int | None = None,
    encoding_formats: Iterable[str] | None = None,
    server_address: str | None = None,
    server_port: int | None = None,
    **controls: Unpack[SpanControls],
) -> GenAISpan:
    """Make the span of an embeddings call.

    Args:
        provider: Who computes the embeddings.
        model: Requested model.
        dimensions: Length of the vectors.
        encoding_formats: Such as `float` or `base64`.
        server_address: Host that is called.
        server_port: Its port.
        **controls: `name`, `kind`, `context`, `links`, `tracer`, `extra`.

    Example:
        >>> with embeddings_span("openai", "m", dimensions=256) as span:
        ...     _ = span.set_usage(input=8)
    """
    return genai_span(
        "embeddings",
        provider=provider,
        model=model,
        **_given(
            controls,
            dimensions=dimensions,
            encoding_formats=encoding_formats,
            server_address=server_address,
            server_port=server_port,
        ),
    )


def retrieval_span(
    data_source: str | None = None,
    *,
    query: str | None = None,
    top_k: int | None = None,
    provider: str | None = None,
    model: str | None = None,
    **controls: Unpack[SpanControls],
) -> GenAISpan:
    """Make the span of a retrieval from a data source.

    Args:
        data_source: Identifier of the index, collection or knowledge base.
        query: What was asked; recorded as the content policy allows.
        top_k: How many documents were asked for.
        provider: Who runs the data source.
        model: Model that takes part, such as a re-ranker.
        **controls: `name`, `kind`, `context`, `links`, `tracer`, `extra`.

    Example:
        >>> with retrieval_span("kb", query="rain", top_k=2) as span:
        ...     _ = span.set_documents([{"id": "d1", "score": 0.9}])
    """
    found = genai_span(
        "retrieval",
        provider=provider,
        model=model,
        **_given(controls, data_source=data_source, top_k=top_k),
    )
    return found if query is None else found.set_query(query)


def memory_span(
    operation: str,
    *,
    store: str | None = None,
    record: str | None = None,
    count: int | None = None,
    query: str | None = None,
    provider: str | None = None,
    **controls: Unpack[SpanControls],
) -> GenAISpan:
    """Make the span of an operation on an agent's memory.

    Args:
        operation: `search`, `create`, `update`, `upsert`, `delete`, `create_store`
            or `delete_store`.
        store: Identifier of the store.
        record: Identifier of the record.
        count: How many records are concerned.
        query: What was searched; recorded as the content policy allows.
        provider: Who runs the store.
        **controls: `name`, `kind`, `context`, `links`, `tracer`, `extra`.

    Raises:
        TelemetryUsageError: If the operation is unknown.

    Example:
        >>> with memory_span("search", store="episodes", query="rain"):
        ...     pass
    """
    name = _MEMORY.get(operation)
    if name is None:
        raise TelemetryUsageError(
            f"unknown memory operation {operation!r}: give one of {', '.join(_MEMORY)}"
        )
    found = genai_span(
        name,
        provider=provider,
        **_given(
            controls, memory_store=store, memory_record=record, record_count=count
        ),
    )
    return found if query is None else found.set_query(query)


_MEMORY = {
    "search": "search_memory",
    "create": "create_memory",
    "update": "update_memory",
    "upsert": "upsert_memory",
    "delete": "delete_memory",
    "create_store": "create_memory_store",
    "delete_store": "delete_memory_store",
}


def plan_span(
    agent: str | None = None,
    *,
    conversation_id: str | None = None,
    **controls: Unpack[SpanControls],
) -> GenAISpan:
    """Make the span of an agent's planning.

    Args:
        agent: Name of the agent.
        conversation_id: The application's own; never invent one.
        **controls: `name`, `kind`, `context`, `links`, `tracer`, `extra`.

    Example:
        >>> with plan_span("planner"):
        ...     pass
    """
    return _make("plan", controls, agent=agent, conversation_id=conversation_id)


def _make(operation: str, controls: SpanControls, **options: object) -> GenAISpan:
    return genai_span(operation, **_given(controls, **options))


def _given(controls: SpanControls, **options: object) -> SpanOptions:
    found = {name: value for name, value in options.items() if value is not None}
    return {**controls, **found}  # type: ignore[typeddict-item] # names checked later

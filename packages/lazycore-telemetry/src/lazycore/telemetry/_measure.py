"""Record the metrics of an ended span, under the few attributes that they carry."""

from __future__ import annotations

import itertools
from time import perf_counter
from typing import TYPE_CHECKING, Final

from lazycore.telemetry._text import metadata
from lazycore.telemetry._values import as_int

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._span import GenAISpan

__all__ = ["measure", "metric_attributes", "with_counters"]


def measure(span: GenAISpan, error: str | None) -> None:
    """Record how long an operation took and what it used."""
    family = span._operation.family
    if not family:
        return
    seconds = perf_counter() - span._began
    attributes = metric_attributes(span, error)
    context = span._measured_context()
    instruments = span._runtime.instruments
    instruments.duration(family, seconds, attributes, context)
    if instruments.counts_calls:
        _count_calls(span, family, attributes, context)
    refused = error is not None and span._chunked is None
    if span._final or refused:
        usage = span._final
        instruments.tokens(family, usage, attributes, context, refused=refused)


# Where an agent's context holds the counters of what is called below it.
CALLS: Final = "lazycore.telemetry.calls"


def with_counters(context: Context) -> Context:
    """Return an agent's context; what is called below counts for this agent alone.

    The counters live in the context, so they see coroutines, and threads that run in
    a copy of it; not what got the context as text (`run_in_context`, `carrier`).
    """
    from opentelemetry.context import set_value

    counters = {"inference": itertools.count(), "tool": itertools.count()}
    return set_value(CALLS, counters, context)


def _count_calls(
    span: GenAISpan,
    family: str,
    attributes: dict[str, AttributeValue],
    context: Context | None,
) -> None:
    counters = span._context.get(CALLS)
    if not isinstance(counters, dict):
        return
    if family in counters:
        next(counters[family])  # in one step: an agent's tools may run in threads
    elif family == "agent":
        labels = {k: v for k, v in attributes.items() if k == "gen_ai.agent.name"}
        counts = {name: next(counter) for name, counter in counters.items()}
        span._runtime.instruments.calls(counts, labels, context)


def metric_attributes(span: GenAISpan, error: str | None) -> dict[str, AttributeValue]:
    """Return the few attributes that metrics carry."""
    family = span._operation.family
    if family in _OWN_LABELS:
        given = span._options
        found: dict[str, AttributeValue] = {
            attribute: metadata(given[key])
            for key, attribute in _OWN_LABELS[family]
            if given.get(key) is not None
        }
        if family == "agent" and span._model is not None:
            found["gen_ai.request.model"] = metadata(span._model)
    else:
        found = _client_labels(span)
    if error is not None:
        found["error.type"] = error
    return found


def _client_labels(span: GenAISpan) -> dict[str, AttributeValue]:
    given, final = span._options, span._final
    found: dict[str, AttributeValue] = {"gen_ai.operation.name": span._operation.name}
    if span._provider is not None:
        found["gen_ai.provider.name"] = metadata(span._provider)
    if span._model is not None:
        found["gen_ai.request.model"] = metadata(span._model)
    if "gen_ai.response.model" in final:
        found["gen_ai.response.model"] = final["gen_ai.response.model"]
    address = given.get("server_address")
    if address is not None:
        found["server.address"] = metadata(address)
        port = as_int(given.get("server_port"))
        if port is not None:
            found["server.port"] = port
    return found


_OWN_LABELS: Final = {
    "tool": (
        ("tool", "gen_ai.tool.name"),
        ("tool_type", "gen_ai.tool.type"),
        ("agent", "gen_ai.agent.name"),
    ),
    "agent": (("agent", "gen_ai.agent.name"),),
    "workflow": (("workflow", "gen_ai.workflow.name"),),
}

"""The coming conventions count what an agent calls; today's do not."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Any

from lazycore import telemetry as t

if TYPE_CHECKING:
    from collections.abc import Callable

INFERENCE = "gen_ai.invoke_agent.inference_calls"
TOOL = "gen_ai.invoke_agent.tool_calls"


def chat() -> None:
    with t.genai_span("chat", provider="openai", model="m"):
        pass


def tool() -> None:
    with t.tool_span("search"):
        pass


def counts(recorded: Any, name: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for point in recorded.metrics().get(name, ()):
        agent = point.attributes["gen_ai.agent.name"]
        found[agent] = [point.count, point.sum]
    return found


def test_an_agent_counts_its_calls_and_none_of_the_agents_below(
    make_recorded: Callable[..., Any],
) -> None:
    recorded = make_recorded(semconv="next")
    chat()
    with t.agent_span("outer"):
        chat()
        chat()
        with t.agent_span("inner"):
            tool()
        chat()
    with t.agent_span("idle"):
        pass
    assert counts(recorded, INFERENCE) == {
        "inner": [1, 0],
        "outer": [1, 3],
        "idle": [1, 0],
    }
    assert counts(recorded, TOOL) == {
        "inner": [1, 1],
        "outer": [1, 0],
        "idle": [1, 0],
    }


def test_tools_in_threads_are_all_counted(make_recorded: Callable[..., Any]) -> None:
    recorded = make_recorded(semconv="dup")

    def work() -> None:
        for _ in range(200):
            tool()

    with t.agent_span("busy"):
        contexts = [contextvars.copy_context() for _ in range(4)]
        threads = [threading.Thread(target=c.run, args=(work,)) for c in contexts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts(recorded, TOOL) == {"busy": [1, 800]}


def test_calls_are_counted_without_any_tracing(
    make_recorded: Callable[..., Any],
) -> None:
    from opentelemetry.trace import NoOpTracerProvider

    recorded = make_recorded(semconv="next")
    t.configure(tracer_provider=NoOpTracerProvider())
    with t.agent_span("a"):
        chat()
        tool()
    assert counts(recorded, INFERENCE) == {"a": [1, 1]}


def test_the_released_conventions_count_no_calls(
    make_recorded: Callable[..., Any],
) -> None:
    recorded = make_recorded(semconv="2026-10")
    with t.agent_span("a"):
        chat()
    assert not {INFERENCE, TOOL} & set(recorded.metrics())

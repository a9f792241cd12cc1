"""Trace an agent that streams an answer, calls a tool and is judged afterwards.

Prints the trajectory. With opentelemetry-sdk and an OTLP exporter installed and
OTEL_EXPORTER_OTLP_ENDPOINT set, the spans go to that receiver as well.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lazycore.telemetry import (
    add_evaluation_result,
    agent_span,
    genai_span,
    retrieval_span,
    tool_span,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def connect() -> object | None:
    """Send spans to the receiver of the environment; None where there is none."""
    if "OTEL_EXPORTER_OTLP_ENDPOINT" not in os.environ:
        return None
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider


def model(prompt: str) -> Iterator[str]:
    """Stand for a provider that streams."""
    yield from ("It will ", "rain in ", prompt.rpartition(" ")[2])


@tool_span("weather", description="Weather of a city", agent="forecaster")
def weather(city: str) -> dict[str, str]:
    """Return the weather; each call is a span."""
    return {"city": city, "sky": "rain"}


def main() -> None:
    """Answer one question."""
    provider = connect()
    with agent_span("forecaster", conversation_id="c-17"):
        with retrieval_span("city-names", query="Oslo", top_k=1) as retrieval:
            retrieval.set_documents([{"id": "oslo", "score": 0.99}])
        sky = weather("Oslo")
        with genai_span(
            "chat", provider="openai", model="gpt-x", conversation_id="c-17"
        ) as chat:
            chat.add_input("user", f"The sky is {sky['sky']}. Forecast for Oslo")
            answer = "".join(chat.stream(model("Forecast for Oslo")))
            chat.add_output("assistant", answer)
            chat.set_response(id="resp-1", model="gpt-x-1", finish_reasons=("stop",))
            chat.set_usage(input=21, output=6)
    add_evaluation_result(chat, "relevance", score=0.9, label="relevant")
    print(f"answer: {answer}")
    print(f"recorded: {'yes' if provider is not None else 'no, there is no SDK'}")
    if provider is not None:
        provider.shutdown()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()

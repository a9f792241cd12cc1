"""Peers of the telemetry benchmark, each in an environment and a process of its own.

`benchmarks/telemetry.py --peers FOLDER` looks for `FOLDER/<name>/bin/python` and asks
that interpreter for one turn after the other, between the turns of everybody else.
An environment that is not there is reported, not skipped in silence.

    uv venv FOLDER/mlflow && uv pip install -p FOLDER/mlflow mlflow-tracing
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-x",
    "gen_ai.request.temperature": 0.2,
    "gen_ai.request.max_tokens": 256,
}
RESPONSE = {
    "gen_ai.response.model": "gpt-x-1",
    "gen_ai.response.id": "resp_1",
    "gen_ai.response.finish_reasons": ("stop",),
    "gen_ai.usage.input_tokens": 120,
    "gen_ai.usage.output_tokens": 34,
}
NAME = "chat gpt-x"
# Folder -> (what it is called in the table, requirement).
PEERS = {
    "mlflow": ("MLflow tracing", "mlflow-tracing"),
    "langfuse": ("Langfuse", "langfuse"),
    "logfire": ("Logfire", "logfire"),
    "openlit": ("OpenLIT", "openlit"),
}
# Scenario -> whether the peer's SDK records. Others are not the peers' to choose.
RECORDS = {"no SDK": False, "SDK recording": True}


def nothing() -> None:
    """Tidy up after a turn where nothing is kept."""


def memory() -> Any:
    """Return an exporter that keeps spans until they are cleared."""
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    return InMemorySpanExporter()


def mlflow(*, records: bool) -> tuple[Callable[[], None], Callable[[], None], int]:
    """A trace of one span; recording, MLflow writes it to a local file store."""
    import tempfile

    os.environ["MLFLOW_TRACKING_URI"] = Path(tempfile.mkdtemp()).as_uri()
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    import mlflow as library

    if not records:
        library.tracing.disable()

    def call() -> None:
        with library.start_span(NAME, "CHAT_MODEL", REQUEST) as span:
            span.set_attributes(RESPONSE)

    return call, nothing, 10


def langfuse(*, records: bool) -> tuple[Callable[[], None], Callable[[], None], int]:
    """A generation to a batch processor whose exporter is in memory."""
    from langfuse import Langfuse

    kept = memory()
    client = Langfuse(
        public_key="pk-lf-x",
        secret_key="sk-lf-x",
        base_url="http://127.0.0.1:9",
        span_exporter=kept,
        tracing_enabled=records,
    )

    def call() -> None:
        with client.start_as_current_observation(
            name=NAME,
            as_type="generation",
            model="gpt-x",
            model_parameters={"temperature": 0.2, "max_tokens": 256},
        ) as span:
            span.update(
                usage_details={"input": 120, "output": 34},
                metadata={"id": "resp_1", "finish": "stop", "model": "gpt-x-1"},
            )

    return call, kept.clear, 4


def logfire(*, records: bool) -> tuple[Callable[[], None], Callable[[], None], int]:
    """A span to an exporter in memory, or without any configuration."""
    os.environ["LOGFIRE_IGNORE_NO_CONFIG"] = "1"
    import logfire as library

    kept = memory()
    if records:
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor

        library.configure(
            send_to_logfire=False,
            console=False,
            metrics=False,
            additional_span_processors=[SimpleSpanProcessor(kept)],
        )

    def call() -> None:
        with library.span("chat {model}", model="gpt-x", **REQUEST) as span:
            span.set_attributes(dict(RESPONSE))

    return call, kept.clear, 4


def openlit(*, records: bool) -> tuple[Callable[[], None], Callable[[], None], int]:
    """Its manual interface on the global provider."""
    import openlit as library

    if records:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        trace.set_tracer_provider(TracerProvider())

    def call() -> None:
        with library.start_trace(NAME) as span:
            span.set_metadata(REQUEST)
            span.set_metadata(RESPONSE)

    return call, nothing, 2


MAKERS = {
    "mlflow": mlflow,
    "langfuse": langfuse,
    "logfire": logfire,
    "openlit": openlit,
}


class Peer:
    """One peer in its own process, asked for a turn at a time."""

    def __init__(self, python: Path, name: str, scenario: str) -> None:
        self._process = subprocess.Popen(
            [str(python), __file__, name, scenario],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.problem = self._ask("0").get("problem")

    def _ask(self, line: str) -> dict[str, Any]:
        asked: IO[str] = self._process.stdin  # type: ignore[assignment] # piped
        told: IO[str] = self._process.stdout  # type: ignore[assignment] # piped
        try:
            asked.write(line + "\n")
            asked.flush()
            found: dict[str, Any] = json.loads(told.readline())
        except (OSError, ValueError):
            found = {"problem": f"ended with {self._process.wait(60)}"}
        return found

    def turn(self, count: int) -> float:
        """Return the microseconds of processor time per call of one turn."""
        return float(self._ask(str(count))["us"])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def serve(name: str, scenario: str) -> None:
    """Answer the turns that standard input asks for."""
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is no answer
    try:
        call, tidy, slower = MAKERS[name](records=RECORDS[scenario])
        call()
        problem = None
    except Exception as error:  # noqa: BLE001 - any version of any library
        problem = f"failed: {type(error).__name__}: {error}"[:80]
    for line in sys.stdin:
        count = int(line) // slower if problem is None else 0
        found: dict[str, Any] = {"problem": problem}
        if count:
            gc.collect()
            gc.disable()
            begun = time.thread_time_ns()
            for _ in range(count):
                call()
            found["us"] = (time.thread_time_ns() - begun) / count / 1000
            gc.enable()
            tidy()
        told.write(json.dumps(found) + "\n")
        told.flush()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])

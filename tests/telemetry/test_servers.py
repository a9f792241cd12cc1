"""What Phoenix and MLflow, started here, recognise of an agent run.

Each server lives in an environment of its own (hundreds of megabytes). Name their
`bin` folders in LAZYCORE_TEST_PHOENIX and LAZYCORE_TEST_MLFLOW to run these tests.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lazycore import telemetry as t
from lazycore.telemetry import ContentMode, ContentPolicy, configure

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

PATIENCE_S = 240


def folder(variable: str) -> Path:
    pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.http",
        reason="opentelemetry-exporter-otlp-proto-http is not installed",
    )
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"{variable} names no environment of the server")
    return Path(found)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=20) as answer:
        body = answer.read()
    try:
        return json.loads(body)
    except json.JSONDecodeError:
        return body.decode()


def serve(command: list[str], environment: dict[str, str], ready: str) -> Any:
    server = subprocess.Popen(
        command,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if server.poll() is not None:
            pytest.fail(f"{command[0]} ended with {server.returncode}")
        try:
            get(ready)
        except OSError:
            time.sleep(0.5)
        else:
            return server
    server.kill()
    server.wait()
    return pytest.fail(f"{command[0]} was not ready in {PATIENCE_S} s")


def stop(server: Any) -> None:
    server.terminate()
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def send(endpoint: str, headers: dict[str, str]) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {"service.name": "test", "openinference.project.name": "lazycore"}
    provider = TracerProvider(resource=Resource.create(named))
    exporter = OTLPSpanExporter(endpoint, headers=headers, timeout=60)
    provider.add_span_processor(
        BatchSpanProcessor(exporter, export_timeout_millis=90_000)
    )
    configure(
        tracer_provider=provider, policy=ContentPolicy(mode=ContentMode.SPAN_ONLY)
    )
    with (
        t.workflow_span("trip", conversation_id="c-17"),
        t.agent_span("planner", conversation_id="c-17") as agent,
    ):
        agent.add_input("user", "Plan a trip to Oslo")
        with t.retrieval_span("kb", query="Oslo") as retrieval:
            retrieval.set_documents([{"id": "d1", "score": 0.9}])
        with t.embeddings_span("openai", "e-model") as embeddings:
            embeddings.set_usage(input=4)
        with t.genai_span(
            "chat", provider="openai", model="c-model", conversation_id="c-17"
        ) as chat:
            chat.add_input("user", "Plan a trip \ud800")
            chat.add_output("assistant", "Take the train.")
            chat.set_response(id="r-1", model="c-model-1", finish_reasons=["stop"])
            chat.set_usage(12, 5, cache_read=4)
            t.set_ml_metric(chat, "accuracy", 0.5)
            t.set_ml_metric(chat, "loss", float("nan"))
            t.set_security_finding(chat, "high", "LLM01", title="injection")
            t.add_evaluation_result(chat, "relevance", score=0.9)
        with t.tool_span("search", call_id="c1", arguments={"q": "train"}) as tool:
            tool.set_result(["14:02"])
    assert provider.force_flush(90_000)
    provider.shutdown()


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Start Phoenix, send the run, and return its spans by name."""
    command = str(folder("LAZYCORE_TEST_PHOENIX") / "phoenix")
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    environment = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_WORKING_DIR": str(tmp_path_factory.mktemp("phoenix")),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    server = serve([command, "serve"], environment, f"{base}/healthz")
    try:
        send(f"{base}/v1/traces", {})
        spans: list[Any] = []
        until = time.monotonic() + 60
        while len(spans) < 6 and time.monotonic() < until:
            time.sleep(0.5)
            try:
                spans = get(f"{base}/v1/projects/lazycore/spans?limit=50")["data"]
            except urllib.error.HTTPError:
                continue
        yield {span["name"]: span for span in spans}
    finally:
        stop(server)


def test_phoenix_recognises_each_kind_of_span(phoenix: dict[str, Any]) -> None:
    assert {name: span["span_kind"] for name, span in phoenix.items()} == {
        "chat c-model": "LLM",
        "embeddings e-model": "EMBEDDING",
        "execute_tool search": "TOOL",
        "invoke_agent planner": "AGENT",
        "retrieval kb": "RETRIEVER",
        # Phoenix has no kind for workflows.
        "invoke_workflow trip": "UNKNOWN",
    }


def test_phoenix_shows_messages_tokens_and_our_own_names(
    phoenix: dict[str, Any],
) -> None:
    found = phoenix["chat c-model"]["attributes"]
    assert found["llm.input_messages.0.message.content"] == "Plan a trip \ufffd"
    assert found["llm.output_messages.0.message.content"] == "Take the train."
    assert found["llm.token_count.prompt"] == 12
    assert found["llm.token_count.prompt_details.cache_read"] == 4
    assert found["session.id"] == "c-17"
    assert found["security.severity"] == "high"
    assert found["owasp.mapping"] == ["LLM01:2025"]
    assert found["ml.metric.accuracy"] == 0.5
    assert found["ml.metric.loss.nonfinite"] == "nan"
    names = {event["name"] for event in phoenix["chat c-model"]["events"]}
    assert names == {"security.finding", "gen_ai.evaluation.result"}


READ_MLFLOW = """
import json, sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
(trace,) = mlflow.search_traces(locations=["0"], return_type="list")
print(json.dumps({
    "usage": trace.info.token_usage,
    "spans": {
        s.name: [s.span_type, s.inputs, s.outputs, s.attributes]
        for s in trace.data.spans
    },
}, default=str))
"""


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Start MLflow, send the run, and return what its own client reads back."""
    place = folder("LAZYCORE_TEST_MLFLOW")
    data = tmp_path_factory.mktemp("mlflow")
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    command = [str(place / "mlflow"), "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{data}/store.db"]
    command += ["--default-artifact-root", str(data / "artifacts")]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true"}
    server = serve(command, quiet, f"{base}/health")
    try:
        send(f"{base}/v1/traces", {"x-mlflow-experiment-id": "0"})
        done = subprocess.run(
            [str(place / "python"), "-c", READ_MLFLOW, base],
            env=os.environ | quiet,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        yield json.loads(done.stdout.splitlines()[-1])
    finally:
        stop(server)


def test_mlflow_recognises_what_it_has_types_for(mlflow: dict[str, Any]) -> None:
    assert {name: span[0] for name, span in mlflow["spans"].items()} == {
        "chat c-model": "CHAT_MODEL",
        "embeddings e-model": "EMBEDDING",
        "execute_tool search": "TOOL",
        "invoke_agent planner": "AGENT",
        # MLflow maps neither retrievals nor workflows.
        "retrieval kb": None,
        "invoke_workflow trip": None,
    }


def test_mlflow_counts_tokens_once_and_reads_messages(mlflow: dict[str, Any]) -> None:
    assert mlflow["usage"]["input_tokens"] == 16
    assert mlflow["usage"]["output_tokens"] == 5
    kind, inputs, outputs, attributes = mlflow["spans"]["chat c-model"]
    assert kind == "CHAT_MODEL"
    assert "Plan a trip \ufffd" in json.dumps(inputs, ensure_ascii=False)
    assert "Take the train." in json.dumps(outputs)
    assert attributes["owasp.mapping"] == ["LLM01:2025"]
    assert attributes["ml.metric.accuracy"] == 0.5

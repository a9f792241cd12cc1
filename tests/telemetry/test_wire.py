"""Real OTLP exporters to real receivers on the loopback."""

from __future__ import annotations

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from lazycore import telemetry as t
from lazycore.telemetry import ContentMode, ContentPolicy, configure

if TYPE_CHECKING:
    from collections.abc import Iterator

SDK = "opentelemetry-sdk is not installed"
HTTP = "opentelemetry-exporter-otlp-proto-http is not installed"
GRPC = "opentelemetry-exporter-otlp-proto-grpc is not installed"

# The exporters and the protocol, not Python.
pytestmark = pytest.mark.once


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Pipelines:
    """SDK pipelines of all three signals with the given exporters."""

    def __init__(self, spans: Any, logs: Any, metrics: Any) -> None:
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self.tracers = TracerProvider()
        self.tracers.add_span_processor(BatchSpanProcessor(spans))
        self.loggers = LoggerProvider()
        self.loggers.add_log_record_processor(SimpleLogRecordProcessor(logs))
        reader = PeriodicExportingMetricReader(
            metrics, export_interval_millis=3_600_000
        )
        self.meters = MeterProvider(metric_readers=[reader])

    def use(self) -> None:
        configure(
            tracer_provider=self.tracers,
            logger_provider=self.loggers,
            meter_provider=self.meters,
            policy=ContentPolicy(mode=ContentMode.SPAN_AND_EVENT),
        )

    def shutdown(self) -> None:
        self.tracers.shutdown()
        self.loggers.shutdown()
        self.meters.shutdown()


def agent_run() -> t.GenAISpan:
    """Send what an agent does, with text that other helpers lose batches over."""
    with t.agent_span("planner") as agent:
        agent.add_input("user", "plan \ud800 a trip")
        with t.genai_span("chat", provider="openai", model="m\ud800") as chat:
            chat.add_input("user", "hello")
            chat.add_output("assistant", "world")
            chat.set_response(id="r-1", model="m-1", finish_reasons=["stop"])
            chat.set_usage(input=12, output=3)
        with t.tool_span("search", arguments={"q": "x"}) as tool:
            tool.set_result(["y"])
        with t.genai_span("audit.probe") as probe:
            t.set_security_finding(probe, "high", "LLM01", evidence="quoted \0")
            t.set_ml_metric(probe, "accuracy", 0.5)
    t.add_evaluation_result(chat, "relevance", score=0.9)
    return chat


NAMES = {"invoke_agent planner", "chat m\ufffd", "execute_tool search", "audit.probe"}


def read(value: Any) -> Any:
    """Return the Python value of an OTLP AnyValue."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [read(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: read(pair.value) for pair in value.kvlist_value.values}
    return getattr(value, kind) if kind else None


def attributes(holder: Any) -> dict[str, Any]:
    return {pair.key: read(pair.value) for pair in holder.attributes}


def check(spans: list[Any], logs: list[Any], metrics: list[Any], chat: Any) -> None:
    by_name = {span.name: span for span in spans}
    assert set(by_name) == NAMES
    found = attributes(by_name["chat m\ufffd"])
    assert found["gen_ai.usage.input_tokens"] == 12
    (message,) = json.loads(found["gen_ai.input.messages"])
    assert message["parts"] == [{"type": "text", "content": "hello"}]
    assert attributes(by_name["audit.probe"])["owasp.mapping"] == ["LLM01:2025"]
    events = {record.event_name: record for record in logs}
    result = events["gen_ai.evaluation.result"]
    assert result.span_id == chat.context.span_id.to_bytes(8, "big")
    assert result.trace_id == chat.context.trace_id.to_bytes(16, "big")
    details = attributes(events["gen_ai.client.inference.operation.details"])
    (structured,) = details["gen_ai.output.messages"]
    assert structured["role"] == "assistant"
    assert {metric.name for metric in metrics} == {
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "gen_ai.execute_tool.duration",
        "gen_ai.invoke_agent.duration",
    }


def test_http_exporters_reach_a_foreign_receiver() -> None:
    pytest.importorskip("opentelemetry.sdk", reason=SDK)
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason=HTTP)
    oteltap = pytest.importorskip("oteltap", reason="oteltap is not installed")
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
        OTLPMetricExporter,
    )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    port = free_port()
    base = f"http://127.0.0.1:{port}/v1"

    def send() -> t.GenAISpan:
        pipelines = Pipelines(
            OTLPSpanExporter(f"{base}/traces"),
            OTLPLogExporter(f"{base}/logs"),
            OTLPMetricExporter(f"{base}/metrics"),
        )
        pipelines.use()
        try:
            return agent_run()
        finally:
            pipelines.shutdown()

    async def collect(stream: Any, into: list[Any]) -> None:
        async for item in stream:
            into.append(item)  # noqa: PERF401 - read while it fills

    async def main() -> tuple[Any, list[Any], list[Any], list[Any]]:
        settings = oteltap.OtelTapHttpProtobufReceiverSettings(http_port=port)
        spans: list[Any] = []
        logs: list[Any] = []
        metrics: list[Any] = []
        async with oteltap.OtelTapHttpProtobufReceiver(settings) as receiver:
            readers = [
                asyncio.create_task(collect(receiver.stream_traces(), spans)),
                asyncio.create_task(collect(receiver.stream_logs(), logs)),
                asyncio.create_task(collect(receiver.stream_metrics(), metrics)),
            ]
            await asyncio.sleep(0)
            chat = await asyncio.to_thread(send)
            for _ in range(200):
                if len(spans) >= 4 and len(logs) >= 3 and len(metrics) >= 4:
                    break
                await asyncio.sleep(0.05)
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        return chat, spans, logs, metrics

    chat, spans, logs, metrics = asyncio.run(main())
    check(spans, logs, metrics, chat)


@pytest.fixture
def grpc_receiver() -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """Run a gRPC server that speaks OTLP and keeps what it is sent."""
    grpc = pytest.importorskip("grpc", reason=GRPC)
    pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc", reason=GRPC)
    from opentelemetry.proto.collector.logs.v1 import (
        logs_service_pb2 as logs_pb,
    )
    from opentelemetry.proto.collector.logs.v1 import (
        logs_service_pb2_grpc as logs_rpc,
    )
    from opentelemetry.proto.collector.metrics.v1 import (
        metrics_service_pb2 as metrics_pb,
    )
    from opentelemetry.proto.collector.metrics.v1 import (
        metrics_service_pb2_grpc as metrics_rpc,
    )
    from opentelemetry.proto.collector.trace.v1 import (
        trace_service_pb2 as trace_pb,
    )
    from opentelemetry.proto.collector.trace.v1 import (
        trace_service_pb2_grpc as trace_rpc,
    )

    kept: dict[str, list[Any]] = {"spans": [], "logs": [], "metrics": []}

    class Traces(trace_rpc.TraceServiceServicer):
        def Export(self, request: Any, _: Any) -> Any:  # noqa: N802 - the protocol's
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    kept["spans"].extend(scope.spans)
            return trace_pb.ExportTraceServiceResponse()

    class Logs(logs_rpc.LogsServiceServicer):
        def Export(self, request: Any, _: Any) -> Any:  # noqa: N802 - the protocol's
            for resource in request.resource_logs:
                for scope in resource.scope_logs:
                    kept["logs"].extend(scope.log_records)
            return logs_pb.ExportLogsServiceResponse()

    class Metrics(metrics_rpc.MetricsServiceServicer):
        def Export(self, request: Any, _: Any) -> Any:  # noqa: N802 - the protocol's
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    kept["metrics"].extend(scope.metrics)
            return metrics_pb.ExportMetricsServiceResponse()

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        trace_rpc.add_TraceServiceServicer_to_server(Traces(), server)  # type: ignore[no-untyped-call]
        logs_rpc.add_LogsServiceServicer_to_server(Logs(), server)  # type: ignore[no-untyped-call]
        metrics_rpc.add_MetricsServiceServicer_to_server(Metrics(), server)  # type: ignore[no-untyped-call]
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}", kept
        server.stop(None).wait(5)


def test_grpc_exporters_reach_a_receiver(
    grpc_receiver: tuple[str, dict[str, list[Any]]],
) -> None:
    pytest.importorskip("opentelemetry.sdk", reason=SDK)
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
        OTLPMetricExporter,
    )
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    endpoint, kept = grpc_receiver
    pipelines = Pipelines(
        OTLPSpanExporter(endpoint, insecure=True),
        OTLPLogExporter(endpoint, insecure=True),
        OTLPMetricExporter(endpoint, insecure=True),
    )
    pipelines.use()
    try:
        chat = agent_run()
    finally:
        pipelines.shutdown()
    check(kept["spans"], kept["logs"], kept["metrics"], chat)


def test_a_receiver_that_is_gone_never_reaches_the_caller() -> None:
    pytest.importorskip("opentelemetry.sdk", reason=SDK)
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason=HTTP)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    exporter = OTLPSpanExporter(f"http://127.0.0.1:{free_port()}/v1/traces", timeout=1)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    configure(tracer_provider=provider)
    with t.genai_span("chat", provider="openai") as span:
        span.set_usage(input=1)
    provider.shutdown()

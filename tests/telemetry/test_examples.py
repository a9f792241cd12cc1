"""The examples run without an SDK, and send to a local receiver with one."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SENT = {
    "telemetry_red_team": {
        "invoke_workflow red-team-audit",
        "audit.leak-system-prompt",
        "audit.run-any-command",
        "audit.ask-politely",
    },
    "telemetry_agent": {
        "invoke_agent forecaster",
        "retrieval city-names",
        "execute_tool weather",
        "chat gpt-x",
        "evaluation relevance",
    },
    "telemetry_leaderboard": {"suite", "leaderboard.entry"},
}

pytestmark = pytest.mark.skipif(
    not EXAMPLES.is_dir(), reason="the examples do not lie beside these tests"
)


def run(name: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", SENT)
def test_an_example_runs_without_an_sdk(name: str) -> None:
    done = run(name, {})
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SENT)
def test_an_example_sends_to_a_local_receiver(name: str) -> None:
    oteltap = pytest.importorskip("oteltap", reason="oteltap is not installed")
    pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.http",
        reason="opentelemetry-exporter-otlp-proto-http is not installed",
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]

    async def main() -> tuple[subprocess.CompletedProcess[str], set[str]]:
        settings = oteltap.OtelTapHttpProtobufReceiverSettings(http_port=port)
        names: set[str] = set()

        async def collect(receiver: Any) -> None:
            async for span in receiver.stream_traces():
                names.add(span.name)

        async with oteltap.OtelTapHttpProtobufReceiver(settings) as receiver:
            reader = asyncio.create_task(collect(receiver))
            await asyncio.sleep(0)
            endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
            done = await asyncio.to_thread(run, name, endpoint)
            for _ in range(100):
                if names >= SENT[name]:
                    break
                await asyncio.sleep(0.05)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        return done, names

    done, names = asyncio.run(main())
    assert done.returncode == 0, done.stderr
    assert names == SENT[name]

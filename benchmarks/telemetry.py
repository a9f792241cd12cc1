"""Measure spans of this slice beside the raw API and other helpers.

    python benchmarks/telemetry.py            # the peers that are installed
    python benchmarks/telemetry.py --quick    # fewer repetitions, for a check
    python benchmarks/telemetry.py --json OUT
    python benchmarks/telemetry.py --peers FOLDER   # and those with environments there

One chat span with the same ten attributes, as each library's own manual interface
writes it. All contenders of a scenario take turns within one run; the figure is the
least processor time of the calling thread over all turns, in microseconds. Ratios
travel between machines, microseconds do not. Each scenario runs in a process of its
own, because a provider can be set once per process.

Optional peers in this environment: opentelemetry-util-genai,
openinference-instrumentation, argus-obs-semconv; in environments of their own: MLflow,
Langfuse, Logfire, OpenLIT (see telemetry_peers.py). The scenarios with an SDK need
opentelemetry-sdk. What is not installed is listed at the end.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))  # where -P or -I leaves it out

import telemetry_peers

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST, RESPONSE = telemetry_peers.REQUEST, telemetry_peers.RESPONSE
PROMPT, ANSWER = "hello " * 20, "world " * 20
OURS = "lazycore.telemetry"
RAW = "raw API"
RATIO = "median ratio"
# Scenario -> largest ratio to its yardstick, or largest microseconds.
TARGETS = {
    "no SDK": "<= 2.0 us",
    "no SDK, content on": "<= 2.5 us",
    "SDK recording": "<= 1.05 x raw",
    "SDK recording, raising body": "<= 30 us",
}
SCENARIOS = (
    "no SDK",
    "no SDK, content on",
    "SDK not sampling",
    "SDK recording",
    "SDK recording, metrics",
    "SDK recording, content on",
    "SDK recording, raising body",
)


def installed(module: str) -> bool:
    """Tell whether a peer can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def provide(scenario: str) -> None:
    """Set up the SDK that a scenario asks for."""
    if scenario.startswith("no SDK"):
        return
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.trace import TracerProvider, sampling

    sampler = sampling.ALWAYS_OFF if "not sampling" in scenario else sampling.ALWAYS_ON
    trace.set_tracer_provider(TracerProvider(sampler=sampler))
    if "metrics" in scenario:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader

        metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))


def contenders(scenario: str) -> dict[str, Callable[[], None]]:
    """Return what takes part in a scenario."""
    content = "content on" in scenario
    raising = "raising" in scenario
    made = {RAW: raw_api(raising=raising, content=content)}
    made[OURS] = ours(raising=raising, content=content)
    if installed("opentelemetry.util.genai"):
        made["util-genai"] = util_genai(raising=raising, content=content)
    if installed("openinference.instrumentation") and "no SDK" not in scenario:
        made["OpenInference"] = openinference(raising=raising)
    if installed("argus_semconv"):
        made["argus-semconv"] = argus(raising=raising)
    return made


def raw_api(*, raising: bool, content: bool) -> Callable[[], None]:
    """Write the span by the API alone."""
    from opentelemetry import trace

    tracer = trace.get_tracer("bench")
    client = trace.SpanKind.CLIENT

    def call() -> None:
        with tracer.start_as_current_span(
            "chat gpt-x", kind=client, attributes=REQUEST
        ) as span:
            if raising:
                raise ValueError
            span.set_attributes(RESPONSE)
            if content:
                for name, role, text in (
                    ("gen_ai.input.messages", "user", PROMPT),
                    ("gen_ai.output.messages", "assistant", ANSWER),
                ):
                    part = {"type": "text", "content": text}
                    messages = [{"role": role, "parts": [part]}]
                    span.set_attribute(name, json.dumps(messages))

    return call


def ours(*, raising: bool, content: bool) -> Callable[[], None]:
    """Write the span by this slice."""
    from lazycore import telemetry

    mode = telemetry.ContentMode["SPAN_ONLY" if content else "NO_CONTENT"]
    telemetry.configure(policy=telemetry.ContentPolicy(mode=mode))

    def call() -> None:
        with telemetry.genai_span(
            "chat", provider="openai", model="gpt-x", temperature=0.2, max_tokens=256
        ) as span:
            if raising:
                raise ValueError
            if content:
                span.add_input("user", PROMPT)
                span.add_output("assistant", ANSWER)
            span.set_response(model="gpt-x-1", id="resp_1", finish_reasons=["stop"])
            span.set_usage(120, 34)

    return call


def util_genai(*, raising: bool, content: bool) -> Callable[[], None]:
    """Write the span by the helper of OpenTelemetry itself."""
    if content:
        name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
        os.environ[name] = "SPAN_ONLY"
    from opentelemetry.util.genai.handler import TelemetryHandler
    from opentelemetry.util.genai.types import InputMessage, OutputMessage, Text

    handler = TelemetryHandler()

    def call() -> None:
        with handler.inference("openai", request_model="gpt-x") as span:
            if raising:
                raise ValueError
            span.temperature, span.max_tokens = 0.2, 256
            span.response_model_name, span.response_id = "gpt-x-1", "resp_1"
            span.finish_reasons = ["stop"]
            span.input_tokens, span.output_tokens = 120, 34
            if content:
                span.input_messages = [InputMessage("user", [Text(PROMPT)])]
                span.output_messages = [
                    OutputMessage("assistant", [Text(ANSWER)], finish_reason="stop")
                ]

    return call


def openinference(*, raising: bool) -> Callable[[], None]:
    """Write the span by OpenInference."""
    from openinference.instrumentation import (
        OITracer,
        TraceConfig,
        get_llm_attributes,
    )
    from opentelemetry import trace

    tracer = OITracer(trace.get_tracer("bench"), config=TraceConfig())

    def call() -> None:
        asked = get_llm_attributes(
            provider="openai",
            model_name="gpt-x",
            invocation_parameters={"temperature": 0.2, "max_tokens": 256},
        )
        with tracer.start_as_current_span(
            "chat gpt-x", openinference_span_kind="llm", attributes=asked
        ) as span:
            if raising:
                raise ValueError
            counts = {"prompt": 120, "completion": 34, "total": 154}
            span.set_attributes(get_llm_attributes(token_count=counts))
            span.set_attribute("gen_ai.response.id", "resp_1")

    return call


def argus(*, raising: bool) -> Callable[[], None]:
    """Write the span by argus-semconv."""
    from argus_semconv.genai import genai

    def call() -> None:
        with genai("chat", provider="openai", request_model="gpt-x") as span:
            if raising:
                raise ValueError
            span.request_params(temperature=0.2, max_tokens=256)
            span.response(
                model="gpt-x-1", response_id="resp_1", finish_reasons=["stop"]
            )
            span.usage(input_tokens=120, output_tokens=34)

    return call


def turn(call: Callable[[], None], count: int) -> float:
    """Return the microseconds of processor time per call, over one turn."""
    gc.collect()
    gc.disable()
    try:
        begun = time.thread_time_ns()
        for _ in range(count):
            try:  # noqa: SIM105 - the same frame for every contender
                call()
            except ValueError:
                pass
        return (time.thread_time_ns() - begun) / count / 1000
    finally:
        gc.enable()


def measure(
    scenario: str, *, quick: bool, peers: Path | None
) -> dict[str, float | str]:
    """Let the contenders of one scenario take turns."""
    provide(scenario)
    turns, count = (3, 100) if quick else (15, 1000)
    found: dict[str, float | str] = {}
    ready: dict[str, Callable[[int], float]] = {}
    for name, call in contenders(scenario).items():
        try:
            turn(call, 2)
            ready[name] = functools.partial(turn, call)
        except Exception as error:  # noqa: BLE001 - a peer of another version
            found[name] = f"failed: {type(error).__name__}"
    others = foreign(scenario, peers)
    for name, peer in others.items():
        if peer.problem is None:
            ready[name] = peer.turn
        else:
            found[name] = peer.problem
    taken: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(turns):
        for name, take in ready.items():
            taken[name].append(take(count))
    for peer in others.values():
        peer.close()
    return (
        found
        | {name: round(min(values), 2) for name, values in taken.items()}
        | {
            RATIO: round(
                statistics.median(
                    mine / raw
                    for mine, raw in zip(taken[OURS], taken[RAW], strict=True)
                ),
                3,
            )
        }
    )


def foreign(scenario: str, peers: Path | None) -> dict[str, telemetry_peers.Peer]:
    """Start the peers that have an environment of their own."""
    if peers is None or scenario not in telemetry_peers.RECORDS:
        return {}
    return {
        title: telemetry_peers.Peer(python, name, scenario)
        for name, (title, _) in telemetry_peers.PEERS.items()
        if (python := peers / name / "bin" / "python").exists()
    }


def absent(peers: Path | None) -> list[str]:
    """Return what could have taken part, had it been installed."""
    found = [
        requirement for module, requirement in HERE.items() if not installed(module)
    ]
    return found + [
        requirement
        for name, (_, requirement) in telemetry_peers.PEERS.items()
        if peers is None or not (peers / name / "bin" / "python").exists()
    ]


HERE = {
    "opentelemetry.util.genai": "opentelemetry-util-genai",
    "openinference.instrumentation": "openinference-instrumentation",
    "argus_semconv": "argus-obs-semconv",
}


def footprint() -> dict[str, Any]:
    """Return distributions, bytes and import cost of this slice alone."""
    names, todo = set(), ["lazycore-telemetry"]
    size = 0
    while todo:
        name = todo.pop()
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if found.metadata["Name"] in names:
            continue
        names.add(found.metadata["Name"])
        paths = [Path(str(found.locate_file(file))) for file in found.files or ()]
        if name == "lazycore-telemetry" and not any(p.suffix == ".py" for p in paths):
            # An editable install lists a link to the sources instead of them.
            source = importlib.util.find_spec("lazycore.telemetry")
            assert source is not None
            assert source.origin is not None
            paths += Path(source.origin).parent.rglob("*")
        for path in paths:
            if path.suffix != ".pyc" and path.is_file():
                size += path.stat().st_size
        todo += [
            "".join(c for c in r.split(";")[0] if c.isalnum() or c in "-_<>=")
            .split("<")[0]
            .split(">")[0]
            .split("=")[0]
            for r in found.requires or ()
            if "extra ==" not in r
        ]
    return {
        "distributions": len(names),
        "megabytes": round(size / 1e6, 2),
        "import_ms": import_cost("import lazycore.telemetry"),
        "first_span_ms": import_cost(
            "from lazycore.telemetry import genai_span\n"
            "with genai_span('chat', provider='x'): pass"
        ),
    }


def import_cost(code: str) -> float:
    """Return the least processor time that code takes in fresh interpreters."""
    program = (
        "import time; begun = time.process_time_ns()\n"
        f"{code}\n"
        "print((time.process_time_ns() - begun) / 1e6)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-I", "-c", program],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(5)
    ]
    return round(min(map(float, runs)), 2)


def report(results: dict[str, dict[str, float | str]]) -> None:
    """Print one line per scenario and contender."""
    print(f"{'scenario':<30}{'contender':<20}{'us':>9}{'x raw':>8}  target")
    for scenario, found in results.items():
        yardstick = found.get(RAW)
        typical = found.pop(RATIO, "")
        for name, value in found.items():
            goal = TARGETS.get(scenario, "") if name == OURS else ""
            if isinstance(value, str) or not isinstance(yardstick, float):
                print(f"{scenario:<30}{name:<20}{value!s:>9}")
                continue
            ratio = value / yardstick
            middle = f"  (median of turns {typical})" if name == OURS else ""
            print(f"{scenario:<30}{name:<20}{value:>9.2f}{ratio:>8.2f}  {goal}{middle}")


def main() -> None:
    """Measure all scenarios, each in its own process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peers", metavar="FOLDER", type=Path)
    parser.add_argument("--json", metavar="OUT", help="also write the figures")
    parser.add_argument("--scenario", choices=SCENARIOS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.scenario:
        found = measure(given.scenario, quick=given.quick, peers=given.peers)
        print(json.dumps(found))
        return
    results: dict[str, dict[str, float | str]] = {}
    for scenario in SCENARIOS:
        if not scenario.startswith("no SDK") and not installed("opentelemetry.sdk"):
            print(f"{scenario}: opentelemetry-sdk is not installed", file=sys.stderr)
            continue
        command = [sys.executable, __file__, "--scenario", scenario]
        command += ["--quick"] if given.quick else []
        command += ["--peers", str(given.peers)] if given.peers else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{scenario}: {done.stderr[-300:]}", file=sys.stderr)
            continue
        results[scenario] = json.loads(done.stdout.splitlines()[-1])
    report(results)
    size = footprint()
    print(
        f"footprint: {size['distributions']} distributions, {size['megabytes']} MB, "
        f"import {size['import_ms']} ms, first span {size['first_span_ms']} ms"
    )
    print(f"not installed: {', '.join(absent(given.peers)) or 'nothing'}")
    if given.json:
        text = json.dumps({"speed": results, "footprint": size}, indent=1)
        Path(given.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

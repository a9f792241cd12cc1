"""The context reaches threads, executors, process pools and child programs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from lazycore.telemetry import (
    attach_carrier,
    carrier,
    genai_span,
    run_in_context,
    workflow_span,
)

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def present() -> dict[str, str]:
    return carrier()


def test_a_carrier_without_a_span_is_empty() -> None:
    assert carrier() == {}
    assert carrier(environment=True, baggage=True) == {}


def test_a_thread_of_an_executor_continues_the_context(recorded: Any) -> None:
    def work() -> None:
        with genai_span("app.work"):
            pass

    with workflow_span("w") as outer, ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
        pool.submit(run_in_context(work)).result()
    lost, kept, _ = recorded.spans
    assert lost.parent is None
    assert kept.parent.span_id == outer.context.span_id


@pytest.mark.usefixtures("recorded")
def test_a_process_of_a_pool_continues_the_context() -> None:
    import multiprocessing

    fork = multiprocessing.get_context("spawn")
    with workflow_span("w") as outer, ProcessPoolExecutor(1, mp_context=fork) as pool:
        bound = run_in_context(os.getenv)
        assert pickle.loads(pickle.dumps(bound)).args[1] == carrier(baggage=True)
        found = pool.submit(run_in_context(carrier)).result(timeout=60)
    assert found["traceparent"] == outer.traceparent


@pytest.mark.usefixtures("recorded")
def test_a_child_program_continues_the_context_of_its_environment() -> None:
    code = """
from lazycore.telemetry import attach_carrier, carrier
with attach_carrier():
    print(carrier()["traceparent"])
"""
    with workflow_span("w") as outer:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PATH": os.environ["PATH"]} | carrier(environment=True),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert done.stdout.strip() == outer.traceparent


@pytest.mark.usefixtures("recorded")
def test_baggage_travels_only_when_asked() -> None:
    from opentelemetry import baggage, context

    token = context.attach(baggage.set_baggage("tenant", "a"))
    try:
        with workflow_span("w"):
            assert "baggage" not in carrier()
            held = carrier(baggage=True)
    finally:
        context.detach(token)
    with attach_carrier(held):
        assert baggage.get_baggage("tenant") == "a"
    assert baggage.get_baggage("tenant") is None


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"traceparent": ""},
        {"traceparent": "00-zz"},
        {"traceparent": "\ud800"},
        {"traceparent": PARENT[:-1]},
        {"traceparent": 7},
        {7: PARENT},
        {"traceparent": "0" * 100_000},
        {"tracestate": "a=1", "baggage": "%%%=;;,"},
    ],
    ids=lambda values: repr(values)[:40],
)
def test_a_carrier_that_makes_no_sense_is_ignored(values: Any) -> None:
    with attach_carrier(values):
        assert carrier() == {}


def test_a_carrier_is_put_back_even_if_the_block_raises() -> None:
    with pytest.raises(KeyError), attach_carrier({"traceparent": PARENT}):  # noqa: PT012 - the whole block
        assert carrier()["traceparent"] == PARENT
        raise KeyError
    assert carrier() == {}


def test_a_span_without_an_sdk_passes_a_parent_on_and_never_writes_to_it() -> None:
    with (
        attach_carrier({"traceparent": PARENT}),
        genai_span("chat", provider="openai") as span,
    ):
        assert span.traceparent == PARENT
        assert carrier()["traceparent"] == PARENT


def test_an_idle_span_never_writes_to_a_recording_parent(recorded: Any) -> None:
    from opentelemetry.trace import NoOpTracer

    with genai_span("app.outer"):
        inner = genai_span("app.inner", tracer=NoOpTracer())
        with inner as span:
            span.set_attribute("a", 1)
            span.span.set_attribute("b", 2)
    assert dict(recorded.span.attributes) == {}


def test_a_carrier_left_in_a_copied_context_is_no_error(recorded: Any) -> None:
    del recorded
    import contextvars

    def leave_in_a_copy() -> None:
        attached = attach_carrier({"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"})
        attached.__enter__()
        contextvars.copy_context().run(attached.__exit__, None, None, None)

    contextvars.copy_context().run(leave_in_a_copy)

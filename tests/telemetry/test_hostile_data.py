"""Data never raises, and what is recorded of it is valid wherever it goes."""

from __future__ import annotations

import importlib.util
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from lazycore import telemetry as t
from lazycore.telemetry import ContentMode, ContentPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

JSON_ATTRIBUTES = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.retrieval.documents",
    "gen_ai.memory.records",
)
LIMIT = 16_000


def scalars(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from scalars(item)
    elif hasattr(value, "items"):
        for key, item in value.items():
            yield key
            yield from scalars(item)
    else:
        yield value


def check_wire(value: Any) -> None:
    """Assert that an OTLP exporter can carry a value."""
    for item in scalars(value):
        if isinstance(item, str):
            item.encode()
            assert "\0" not in item
            assert len(item.encode()) <= LIMIT + 64
        elif isinstance(item, int):
            assert -(1 << 63) <= item < 1 << 63
        elif isinstance(item, float):
            assert item - item == 0, "not finite"
        else:
            assert item is None or isinstance(item, (bool, bytes))


def check_recorded(recorded: Any) -> None:
    for span in recorded.spans:
        check_wire(span.name)
        check_wire(span.status.description)
        check_wire(span.attributes)
        for event in span.events:
            check_wire(event.name)
            check_wire(event.attributes)
        total = 0
        for name in JSON_ATTRIBUTES:
            text = span.attributes.get(name)
            if text is not None:
                json.loads(text)
                total += len(text.encode())
        assert total <= LIMIT
    for record in recorded.logs:
        check_wire(record.event_name)
        check_wire(record.attributes)


def put_everywhere(value: Any) -> None:
    """Hand one value to every place that takes data."""
    with t.workflow_span(value), t.agent_span(value, model=value):
        pass
    span = t.genai_span(
        "chat",
        provider=value if value is not None else "openai",
        model=value,
        temperature=value,
        max_tokens=value,
        seed=value,
        stop_sequences=value,
        stream=value,
        conversation_id=value,
        choice_count=value,
        extra={"own": value, "mine": [value]},
    )
    with span:
        span.set_response(id=value, model=value, finish_reasons=value)
        span.set_usage(value, value, cache_read=value, reasoning=value)
        span.add_input(value, value, {"type": "text", "content": value}, name=value)
        span.add_output("assistant", value)
        span.set_system(value)
        span.set_tools(value)
        span.set_prompt_variables({"city": value})
        span.set_prompt_variables(value)
        span.record({"late": value})
        t.add_transcript_event(span, value, value, name=value, tool_call_id=value)
        t.add_evaluation_result(
            span, "relevance", score=value, label=value, explanation=value
        )
        t.set_ml_metric(span, "accuracy", value, split=value, step=value)
        t.set_security_finding(
            span, "low", title=value, evidence=value, target=value, rule_id=value
        ).to_sarif_result(evidence=True)
    with t.tool_span("search", call_id=value, arguments=value) as tool:
        tool.set_result(value)
    with t.retrieval_span(value, query=value, top_k=value) as retrieval:
        retrieval.set_documents(value)
    with t.memory_span("search", query=value, count=value) as memory:
        memory.set_records(value)
    with t.embeddings_span("openai", value, dimensions=value) as embeddings:
        embeddings.set_usage(input=value)


# Structures without end: their cost is that of the walk, whatever becomes of it.
BOMBS = {"exponential", "endless"}


def policies() -> dict[str, dict[str, Any]]:
    def refuse(role: str, _: dict[str, Any]) -> Any:
        raise RuntimeError(role)

    def nonsense(_: str, part: dict[str, Any]) -> Any:
        return len(part)

    both = ContentMode.SPAN_AND_EVENT
    size: dict[str, Any] = {"max_total_bytes": LIMIT, "max_part_chars": 2000}
    return {
        "off": {"policy": ContentPolicy()},
        "off, hashed": {"policy": ContentPolicy(hash_key=b"k" * 16)},
        "on": {"policy": ContentPolicy(mode=both, **size)},
        "hook keeps": {
            "policy": ContentPolicy(mode=both, redact=lambda _, p: p, **size)
        },
        "hook drops": {
            "policy": ContentPolicy(mode=both, redact=lambda *_: None, **size)
        },
        "hook raises": {"policy": ContentPolicy(mode=both, redact=refuse, **size)},
        "hook answers nonsense": {
            "policy": ContentPolicy(mode=both, redact=nonsense, **size)
        },
        "both names": {
            "policy": ContentPolicy(mode=both, **size),
            "semconv": "dup",
        },
    }


@pytest.mark.parametrize(
    "setting",
    [
        name if name in {"off", "on"} else pytest.param(name, marks=pytest.mark.once)
        for name in policies()
    ],
)
def test_every_hostile_value_passes_everywhere(
    setting: str,
    make_recorded: Callable[..., Any],
    hostile: Callable[[], dict[str, Any]],
) -> None:
    recorded = make_recorded(**policies()[setting])
    for name, value in hostile().items():
        if name in BOMBS and setting not in {"off", "on"}:
            continue
        put_everywhere(value)
        check_recorded(recorded)
        recorded.exporter.clear()


def test_hostile_values_pass_without_an_sdk(
    hostile: Callable[[], dict[str, Any]],
) -> None:
    t.configure(policy=ContentPolicy(mode=ContentMode.SPAN_AND_EVENT))
    for value in hostile().values():
        put_everywhere(value)


def test_a_ten_megabyte_text_is_cut_and_says_so(
    make_recorded: Callable[..., Any],
) -> None:
    size: dict[str, Any] = {"max_total_bytes": LIMIT, "max_part_chars": 2000}
    recorded = make_recorded(policy=ContentPolicy(mode=ContentMode.SPAN_ONLY, **size))
    put_everywhere("😀x" * 5_000_000)
    check_recorded(recorded)
    chat = next(s for s in recorded.spans if "gen_ai.output.messages" in s.attributes)
    (message,) = json.loads(chat.attributes["gen_ai.output.messages"])
    assert message["parts"][0]["truncated"] == 10_000_000


def test_numpy_scalars_are_numbers(recorded: Any) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    with t.genai_span(
        "chat", provider="openai", temperature=numpy.float32(0.5), seed=numpy.int64(7)
    ) as span:
        span.set_usage(input=numpy.int32(3))
        t.set_ml_metric(span, "a", numpy.float64(0.25))
        t.set_ml_metric(span, "b", numpy.array(3))
        t.set_ml_metric(span, "c", numpy.array([1, 2]))
        t.set_ml_metric(span, "d", numpy.bool_(True))
    found = recorded.span.attributes
    assert found["gen_ai.request.temperature"] == 0.5
    assert found["gen_ai.request.seed"] == 7
    assert found["gen_ai.usage.input_tokens"] == 3
    assert found["ml.metric.a"] == 0.25
    assert found["ml.metric.b"] == 3.0
    assert found["ml.metric.c.invalid"] == "ndarray"
    assert found["ml.metric.d.invalid"].startswith("bool")


def torch_values() -> dict[str, Any]:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return {
        "scalar": torch.tensor(0.25),
        "int scalar": torch.tensor(3),
        "half": torch.tensor(0.5, dtype=torch.bfloat16),
        "nan": torch.tensor(float("nan")),
        "truth": torch.tensor(True),
        "complex": torch.tensor(1 + 2j),
        "with gradient": torch.tensor(0.5, requires_grad=True),
        "vector": torch.tensor([1.0, float("inf")]),
        "matrix": torch.zeros(3, 3),
        "wide": torch.zeros(5_000),
        "empty": torch.zeros(0),
        "without storage": torch.zeros(2, device="meta"),
        "scalar without storage": torch.zeros((), device="meta"),
        "sparse": torch.zeros(2, 2).to_sparse(),
        "dtype": torch.float32,
        "device": torch.device("cpu"),
        "size": torch.Size([2, 3]),
    }


def test_torch_scalars_are_numbers(recorded: Any) -> None:
    values = torch_values()
    with t.genai_span(
        "chat", provider="openai", temperature=values["half"], seed=values["int scalar"]
    ) as span:
        span.set_usage(input=values["int scalar"])
        t.set_ml_metric(span, "a", values["scalar"])
        t.set_ml_metric(span, "b", values["with gradient"])
        t.set_ml_metric(span, "c", values["nan"])
        t.set_ml_metric(span, "d", values["vector"])
    found = recorded.span.attributes
    assert found["gen_ai.request.temperature"] == 0.5
    assert found["gen_ai.request.seed"] == 3
    assert found["gen_ai.usage.input_tokens"] == 3
    assert found["ml.metric.a"] == 0.25
    assert found["ml.metric.b"] == 0.5
    assert found["ml.metric.c.nonfinite"] == "nan"
    assert found["ml.metric.d.invalid"] == "Tensor"


def test_every_torch_value_passes_everywhere(make_recorded: Callable[..., Any]) -> None:
    recorded = make_recorded(**policies()["on"])
    for value in torch_values().values():
        put_everywhere(value)
        check_recorded(recorded)
        recorded.exporter.clear()


def random_value(rng: random.Random, pool: list[Any], depth: int = 0) -> Any:
    pick = rng.random()
    if pick < 0.25:
        size = rng.choice((0, 1, 3, 20, 5000))
        # Surrogates, NUL and controls far more often than in life.
        return "".join(
            chr(
                rng.choice((0, 9, 65, 0xD800, 0xDFFF, 0x1F600, rng.randrange(0x110000)))
            )
            for _ in range(min(size, 50))
        ) * (1 + size // 50)
    if pick < 0.35:
        return rng.choice((rng.getrandbits(70) - (1 << 69), rng.uniform(-1e308, 1e308)))
    if pick < 0.4:
        return rng.randbytes(rng.randrange(100))
    if pick < 0.7 or depth > 3:
        return rng.choice(pool)
    items = [random_value(rng, pool, depth + 1) for _ in range(rng.randrange(5))]
    if pick < 0.8:
        return items
    if pick < 0.85:
        return tuple(items)
    keys = [rng.choice(("type", "content", "role", "\ud800", 7, None)) for _ in items]
    return dict(zip(keys, items, strict=True))


def fuzz(count: int, recorded: Any, pool: list[Any], seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        value = random_value(rng, pool)
        with t.genai_span("chat", provider="openai", model=value, top_p=value) as span:
            span.set_response(id=value, finish_reasons=value)
            span.set_usage(value, value)
            span.add_input(value, value)
            span.add_output("assistant", {"type": "text", "content": value})
            span.set_tools(value)
            t.set_ml_metric(span, "m", value)
            t.add_transcript_event(span, "user", value)
        check_recorded(recorded)
        recorded.exporter.clear()


def fuzzed(make_recorded: Callable[..., Any], count: int, pool: list[Any]) -> None:
    size: dict[str, Any] = {"max_total_bytes": LIMIT, "max_part_chars": 500}
    recorded = make_recorded(
        policy=ContentPolicy(mode=ContentMode.SPAN_ONLY, **size), events="span"
    )
    fuzz(count, recorded, pool, seed=20261001)


def test_seeded_random_values_never_raise(
    make_recorded: Callable[..., Any], hostile: Callable[[], dict[str, Any]]
) -> None:
    slow_ones = {"deep", "exponential", "endless"}
    pool = [v for name, v in hostile().items() if name not in slow_ones]
    fuzzed(make_recorded, 300, pool)


@pytest.mark.slow
def test_a_hundred_thousand_random_values_never_raise(
    make_recorded: Callable[..., Any], hostile: Callable[[], dict[str, Any]]
) -> None:
    slow_ones = {"deep", "exponential", "endless"}
    pool = [v for name, v in hostile().items() if name not in slow_ones]
    if importlib.util.find_spec("torch") is not None:
        pool += torch_values().values()
    fuzzed(make_recorded, 100_000, pool)

"""Show in a demo what its neighbours do: the licence gate, and the spans of the run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lazycore.experiments._licence_gate import gate_models
from lazycore.experiments._numbers import joined, plural
from lazycore.experiments._study import ModelSlot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazycore.experiments._study import Study

__all__ = ["SpanTally", "licence_lines", "watch_spans"]

# A checkpoint whose licence asks for something: the gate must know its terms offline.
_RESTRICTED, _TAG = "meta-llama/Llama-3.1-8B-Instruct", "llama3.1"
_SCORE, _NAME = "gen_ai.evaluation.score.value", "gen_ai.evaluation.name"


def licence_lines(study: Study) -> Iterator[str]:
    """Yield what lazycore.licensing says of each slot, and of one it must stop."""
    yield "licence gate (lazycore.licensing)"
    refused = gate_models(study, accept_restricted_licenses=False)
    for model in study.models:
        terms = f"{model.checkpoint}, {model.license}, tier {model.tier}"
        stopped = any(f"model slot {model.slot}:" in b.message for b in refused)
        yield f"  {model.slot}: {terms}: {'blocked' if stopped else 'admitted'}"
    if not study.models:
        yield "  this study names no model"
    restricted = replace(study, models=(_restricted_slot(),))
    (blocker,) = gate_models(restricted, accept_restricted_licenses=False)
    yield f"  a slot with {_RESTRICTED} would be blocked:"
    yield f"    {blocker.message}"
    yield f"    {blocker.fix}"
    if not gate_models(restricted, accept_restricted_licenses=True):
        yield "    accepted that way, it runs, and the journal says so"


def _restricted_slot() -> ModelSlot:
    from lazycore.licensing import hub_licenses

    terms = hub_licenses()[_TAG]
    assert terms.default_tier is not None
    return ModelSlot(
        slot="example",
        checkpoint=_RESTRICTED,
        license=terms.expression,
        tier=terms.default_tier,
        conditions=terms.conditions,
    )


@dataclass(slots=True)
class SpanTally:
    """Counts the spans of a run by kind, and keeps the first evaluation.

    Attributes:
        provider: Give it to `run_study`; None where no SDK is installed.
        kinds: How many spans ended, by the first word of their name.
        evaluations: How many ``gen_ai.evaluation.result`` were recorded.
        first: The first of them in words.
    """

    provider: Any = None  # a TracerProvider of the optional SDK
    kinds: Counter[str] = field(default_factory=Counter)
    evaluations: int = 0
    first: str = ""

    def add(self, span: Any) -> None:  # a ReadableSpan of the optional SDK
        """Count a span that ended, and the evaluations on it."""
        self.kinds[span.name.split()[0]] += 1
        for event in span.events:
            found = event.attributes or {}
            if _SCORE in found:
                self.evaluations += 1
                name, score = found.get(_NAME), found[_SCORE]
                self.first = self.first or f"{name} {score:.3f} of {span.name}"

    def lines(self) -> Iterator[str]:
        """Yield what was counted, or how to see it."""
        yield "spans (lazycore.telemetry)"
        if self.provider is None:
            yield (
                "  none: without an SDK nothing is made; pip install opentelemetry-sdk "
                "to see them here"
            )
        elif not self.kinds:
            yield "  none: the run was finished before"
        else:
            order = ("experiment", "cell", "arm")
            kinds = [plural(self.kinds[kind], kind) for kind in order]
            yield f"  {joined(kinds)}, each within the one before"
            yield (
                f"  {self.evaluations:,} gen_ai.evaluation.result, the first: "
                f"{self.first}"
            )


def watch_spans() -> SpanTally:
    """Return a tally with a tracer provider of its own, where the SDK is installed."""
    tally = SpanTally()
    try:
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    except ImportError:
        return tally

    class Tallying(SpanProcessor):
        def on_end(self, span: Any) -> None:
            tally.add(span)

    tally.provider = TracerProvider()
    tally.provider.add_span_processor(Tallying())
    return tally

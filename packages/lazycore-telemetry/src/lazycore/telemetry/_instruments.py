"""Metric instruments of both live generations of the conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lazycore.telemetry._usage import USAGE, USAGE_BY_MODALITY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, Meter
    from opentelemetry.util.types import AttributeValue

__all__ = ["Instruments"]

_SECONDS: Final = tuple(round(0.01 * 2**step, 2) for step in range(14))
_TOKENS: Final = tuple(4**step for step in range(14))
_AGENT: Final = tuple(round(0.1 * 2**step, 1) for step in range(13))
_CALLS: Final = tuple(2**step for step in range(8))
_WORKFLOW: Final = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)


class Instruments:
    """Durations and token counts, recorded under the names of one profile."""

    __slots__ = (
        "_calls",
        "_first",
        "_meter",
        "_next",
        "_now",
        "_per",
        "_totals",
        "_usage",
        "durations",
        "probe",
    )

    def __init__(self, meter: Meter, semconv: str) -> None:
        self._meter = meter
        self._now = semconv in {"2026-10", "dup"}
        self._next = semconv in {"next", "dup"}
        client = self._histogram("gen_ai.client.operation.duration", "s", _SECONDS)
        self.probe: Histogram = client
        self.durations: dict[str, tuple[Histogram, ...]] = {
            "client": (client,),
            "tool": (self._histogram("gen_ai.execute_tool.duration", "s", _SECONDS),),
            "agent": (self._histogram("gen_ai.invoke_agent.duration", "s", _AGENT),),
            "workflow": (
                self._histogram("gen_ai.invoke_workflow.duration", "s", _WORKFLOW),
            ),
        }
        for family in ("inference", "embeddings"):
            found = [client] if self._now else []
            if self._next:
                name = f"gen_ai.client.{family}.duration"
                found.append(self._histogram(name, "s", _SECONDS))
            self.durations[family] = tuple(found)
        self._usage = (
            self._histogram("gen_ai.client.token.usage", "{token}", _TOKENS)
            if self._now
            else None
        )
        self._first = self._chunks("time_to_first_chunk")
        self._per = self._chunks("time_per_output_chunk")
        self._totals: dict[str, tuple[Counter, Histogram | None]] = {}
        self._calls: dict[str, Histogram] = {}
        if self._next:
            for family, what in (
                ("inference", "inference_call"),
                ("tool", "tool_call"),
            ):
                name = f"gen_ai.invoke_agent.{what}s"
                self._calls[family] = self._histogram(name, f"{{{what}}}", _CALLS)
            self._totals = {side: self._total(side) for side in USAGE}

    def _histogram(self, name: str, unit: str, buckets: tuple[float, ...]) -> Histogram:
        return self._meter.create_histogram(
            name, unit=unit, explicit_bucket_boundaries_advisory=buckets
        )

    def _chunks(self, what: str) -> tuple[Histogram, ...]:
        scopes = ["operation"] if self._now else []
        scopes += ["inference"] if self._next else []
        return tuple(
            self._histogram(f"gen_ai.client.{scope}.{what}", "s", _SECONDS)
            for scope in scopes
        )

    def _total(self, side: str) -> tuple[Counter, Histogram | None]:
        counter = self._meter.create_counter(
            f"gen_ai.client.inference.usage.{USAGE[side].removeprefix('gen_ai.usage.')}",
            unit="{token}",
        )
        if side not in {"input", "output"}:
            return counter, None
        name = f"gen_ai.client.inference.operation.{side}_tokens"
        return counter, self._histogram(name, "{token}", _TOKENS)

    @property
    def counts_calls(self) -> bool:
        """Whether agents count what they call; the coming conventions do."""
        return bool(self._calls)

    def calls(
        self,
        counts: Mapping[str, int],
        attributes: Mapping[str, AttributeValue],
        context: Context | None,
    ) -> None:
        """Record how many calls an agent made, by family; none is zero."""
        for family, histogram in self._calls.items():
            histogram.record(counts[family], attributes, context)

    def duration(
        self,
        family: str,
        seconds: float,
        attributes: Mapping[str, AttributeValue],
        context: Context | None,
    ) -> None:
        """Record how long an operation took."""
        for histogram in self.durations.get(family, ()):
            histogram.record(seconds, attributes, context)

    def chunk(
        self,
        seconds: float,
        attributes: Mapping[str, AttributeValue],
        context: Context | None,
        *,
        first: bool,
    ) -> None:
        """Record the wait for a chunk of a stream."""
        for histogram in self._first if first else self._per:
            histogram.record(seconds, attributes, context)

    def tokens(
        self,
        family: str,
        usage: Mapping[str, object],
        attributes: Mapping[str, AttributeValue],
        context: Context | None,
        *,
        refused: bool,
    ) -> None:
        """Record token counts; unknown ones are left out, not counted as zero.

        Args:
            family: `inference` or `embeddings`; others count nothing.
            usage: What is known, by attribute name.
            attributes: Attributes of the operation.
            context: For exemplars.
            refused: The call failed before any answer: the coming conventions
                record zero tokens for it.
        """
        if family not in {"inference", "embeddings"}:
            return
        if self._usage is not None:
            for side in ("input", "output"):
                count = usage.get(USAGE[side])
                if isinstance(count, int):
                    labels = {**attributes, "gen_ai.token.type": side}
                    self._usage.record(count, labels, context)
        if self._next and family == "inference":
            for side, (counter, histogram) in self._totals.items():
                for modality, count in _split(side, usage):
                    labels = {**attributes, "gen_ai.token.modality": modality}
                    counter.add(count, labels, context)
                total = usage.get(USAGE[side], 0 if refused else None)
                if histogram is not None and isinstance(total, int):
                    histogram.record(total, attributes, context)


def _split(side: str, usage: Mapping[str, object]) -> list[tuple[str, int]]:
    """Return a side's count by modality; what no modality explains is unknown."""
    found: list[tuple[str, int]] = []
    for modality, names in USAGE_BY_MODALITY.items():
        count = usage.get(names.get(side, ""))
        if isinstance(count, int):
            found.append((modality, count))
    total = usage.get(USAGE[side])
    if isinstance(total, int):
        rest = total - sum(count for _, count in found)
        if rest > 0 or not found:
            found.append(("unknown", max(rest, 0)))
    return found

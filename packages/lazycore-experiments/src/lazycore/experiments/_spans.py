"""Spans of a run, its cells and their arms, and an evaluation result per metric.

Everything is emitted by the coordinator when a cell is in the journal, with the
times at which it ran. Without an SDK nothing is computed.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from lazycore.telemetry import add_evaluation_result, get_tracer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Span, TracerProvider

    from lazycore.experiments._attempt import CellOutcome
    from lazycore.experiments._study import Study

__all__ = ["RunSpans"]

_PREFIX = "lazycore.experiment"


class RunSpans:
    """The span of one session of a run, and what hangs below it.

    Args:
        study: The study.
        lock_digest: SHA-256 of its lock.
        session: Facts of the session that the run span states.
        tracer_provider: Where spans go; the application's own when None.
    """

    def __init__(
        self,
        study: Study,
        lock_digest: str,
        session: Mapping[str, Any],
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self._study = study
        self._tracer = get_tracer(
            "lazycore.experiments", tracer_provider=tracer_provider
        )
        self._run: Span = self._tracer.start_span(
            f"experiment {study.id}",
            attributes={
                "test.suite.name": study.id,
                f"{_PREFIX}.lock": lock_digest,
                f"{_PREFIX}.mode": study.mode,
                f"{_PREFIX}.backend": str(session["backend"]),
                f"{_PREFIX}.engine": str(session["engine"]),
                f"{_PREFIX}.slots": int(session["slots"]),
            },
        )
        self._recording = self._run.is_recording()

    def cell(self, outcome: CellOutcome, body: Mapping[str, Any]) -> None:
        """Emit a finished cell: one span for it, one per arm, results per metric."""
        if not self._recording:
            return
        from opentelemetry.trace import set_span_in_context

        cell = outcome.cell
        units = cell.units[0] if len(cell.units) == 1 else f"{len(cell.units)} units"
        arms = outcome.arms.values()
        span = self._tracer.start_span(
            f"cell {cell.benchmark}",
            context=set_span_in_context(self._run),
            start_time=min(arm.started_ns for arm in arms),
            attributes={
                "test.suite.name": self._study.id,
                "test.case.name": f"{cell.benchmark}/{units}",
                "test.case.result.status": (
                    "pass" if body["status"] == "succeeded" else "fail"
                ),
                f"{_PREFIX}.cell": cell.id,
                f"{_PREFIX}.benchmark": cell.benchmark,
                f"{_PREFIX}.seed": cell.seed,
                f"{_PREFIX}.order": list(cell.order),
            },
        )
        for name in cell.order:
            self._arm(outcome, name, body["arms"][name], span)
        span.end(max(arm.ended_ns for arm in arms))

    def end(self, *, reason: str, results: str, failed: int) -> None:
        """End the run span with how the session ended."""
        if self._recording:
            status = "success" if reason == "complete" and not failed else "failure"
            self._run.set_attributes(
                {
                    "test.suite.run.status": (
                        "aborted" if reason == "interrupted" else status
                    ),
                    f"{_PREFIX}.results": results,
                    f"{_PREFIX}.failed_cells": failed,
                }
            )
        self._run.end()

    def _arm(
        self, outcome: CellOutcome, name: str, record: Mapping[str, Any], cell: Span
    ) -> None:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        arm = outcome.arms[name]
        used = record["resources"]
        figures = {
            f"{_PREFIX}.{key}": used[key]
            for key in ("wall_s", "cpu_s", "max_rss_bytes")
            if used[key] is not None
        }
        span = self._tracer.start_span(
            f"arm {name}",
            context=set_span_in_context(cell),
            start_time=arm.started_ns,
            attributes={
                f"{_PREFIX}.arm": name,
                f"{_PREFIX}.attempts": record["attempt"],
                f"{_PREFIX}.request": arm.request,
                **figures,
            },
        )
        if record["class"] is not None:
            span.set_attribute("error.type", str(record["class"]))
            span.set_status(Status(StatusCode.ERROR))
        for metric in self._study.metrics:
            values = [
                row["metrics"][metric.name]
                for row in record["units"].values()
                if row["class"] is None
            ]
            # A block answers for many units: their mean is what one event can say.
            if values:
                add_evaluation_result(span, metric.name, score=fmean(values))
        span.end(arm.ended_ns)

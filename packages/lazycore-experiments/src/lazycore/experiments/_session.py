"""One session of a run: cells to the engine, outcomes to the journal."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from lazycore.experiments._errors import ArtifactError
from lazycore.experiments._interrupt import interruptible
from lazycore.experiments._launch import worker_policies
from lazycore.experiments._order_check import check_order
from lazycore.experiments._outcome import (
    attempt_body,
    cell_body,
    failure_rows,
    leaf_digest,
    result_rows,
)
from lazycore.experiments._plan import Cell, plan_cells
from lazycore.experiments._spans import RunSpans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from threading import Event

    from opentelemetry.trace import TracerProvider

    from lazycore.experiments._attempt import CellOutcome
    from lazycore.experiments._blobs import BlobStore
    from lazycore.experiments._digests import ResultsDigest
    from lazycore.experiments._engine import Engine
    from lazycore.experiments._journal import Journal, Record
    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._observer import RunObserver
    from lazycore.experiments._results import FailureRow
    from lazycore.experiments._snapshot import Snapshot

__all__ = ["JOURNAL_FORMAT", "Progress", "Session"]

JOURNAL_FORMAT = "lazycore-experiments/journal/1"
_STAMP_CHECK_EVERY_S = 2.0


@dataclass(slots=True)
class Progress:
    """What the coordinator knows about the run so far."""

    planned: int
    total: ResultsDigest
    failed: int = 0
    reason: str = "complete"
    tried: dict[str, dict[str, int]] = field(default_factory=dict)
    order_checked: bool = False

    def read(self, record: Record) -> None:
        """Take in a record that is in the journal already."""
        body = record.body
        if record.type == "attempt":
            self.tried.setdefault(body["cell"], {})[body["arm"]] = body["attempt"]
        elif record.type == "order":
            self.order_checked = True
        elif record.type == "cell":
            self.total.add(body["cell"], leaf_digest(body))
            self.failed += body["status"] == "failed"
            self.tried.pop(body["cell"], None)


@dataclass(slots=True)
class Session:
    """One start or continuation of a run."""

    lock: StudyLock
    snapshot: Snapshot
    journal: Journal
    blobs: BlobStore
    progress: Progress
    observer: RunObserver
    engine: Engine
    tracer_provider: TracerProvider | None = None

    def run(self, environment: Mapping[str, str]) -> None:
        """Drive the engine over what is left of the plan, and journal how it ended."""
        try:
            work = self.engine.start(self.lock, self.snapshot.root, environment)
            provenance = self._provenance(environment)
            self.journal.append("session", provenance)
            spans = RunSpans(
                self.lock.study, self.lock.digest, provenance, self.tracer_provider
            )
            self.observer.started(
                study=self.lock.study,
                planned=self.progress.planned,
                finished=len(self.progress.total),
                slots=self.engine.count,
            )
            try:
                with interruptible() as interrupted:
                    self._drive(work, spans, interrupted)
            finally:
                spans.end(
                    reason=self.progress.reason,
                    results=self.progress.total.value(),
                    failed=self.progress.failed,
                )
                self.observer.closed()
                self.journal.sync()
        finally:
            self.engine.close()

    def _drive(
        self,
        work: Callable[[Cell], CellOutcome],
        spans: RunSpans,
        interrupted: Event,
    ) -> None:
        started = checked = time.monotonic()
        outcomes = self.engine.run(self._todo(), work)
        try:
            for outcome in outcomes:
                now = time.monotonic()
                if outcome is None:
                    self.journal.sync()
                else:
                    body = self._record(outcome, now - started)
                    spans.cell(outcome, body)
                if now - checked >= _STAMP_CHECK_EVERY_S:
                    checked = now
                    self._refuse_drift()
                if interrupted.is_set():
                    self.progress.reason = "interrupted"
                    break
                if self._failed_too_often():
                    self.progress.reason = "max-failed"
                    break
        except BaseException:
            self.progress.reason = "error"
            raise
        finally:
            # What is in flight is dropped at once; it runs again next time.
            if self.progress.reason != "complete":
                self.engine.abandon()
            outcomes.close()
        if self.progress.reason == "complete":
            self._check_order(work, interrupted, started)
            self._refuse_drift()
        self.journal.append(
            "end",
            {
                "reason": self.progress.reason,
                "finished": len(self.progress.total),
                "failed": self.progress.failed,
                "planned": self.progress.planned,
                "results": self.progress.total.value(),
                "elapsed_s": time.monotonic() - started,
            },
        )

    def _check_order(
        self,
        work: Callable[[Cell], CellOutcome],
        interrupted: Event,
        started: float,
    ) -> None:
        if self.lock.study.mode != "session":
            return
        total = self.progress.total
        check = check_order(self.lock, total, self.engine, work, interrupted)
        if check is None:
            self.progress.reason = "interrupted"
        else:
            elapsed_s = time.monotonic() - started
            self.journal.append("order", {**check, "elapsed_s": elapsed_s})

    def _todo(self) -> Iterator[Cell]:
        for cell in plan_cells(self.lock.study, self.lock.digest):
            if cell.id not in self.progress.total:
                tried = self.progress.tried.get(cell.id)
                yield replace(cell, tried=tried) if tried else cell

    def _record(self, outcome: CellOutcome, elapsed_s: float) -> dict[str, Any]:
        study = self.lock.study
        failures: tuple[FailureRow, ...] = ()
        for arm, result in outcome.arms.items():
            for attempt in result.attempts[:-1]:
                body = attempt_body(outcome.cell, arm, attempt)
                self.journal.append("attempt", {**body, "elapsed_s": elapsed_s})
                failures += failure_rows(study, body, final=False)
        body = cell_body(outcome.cell, outcome.arms)
        self.blobs.move_out(body)
        self.journal.append("cell", {**body, "elapsed_s": elapsed_s})
        self.progress.total.add(outcome.cell.id, leaf_digest(body))
        self.progress.failed += body["status"] == "failed"
        self.observer.cell_finished(
            rows=result_rows(study, body),
            failures=failures + failure_rows(study, body, final=True),
            finished=len(self.progress.total),
            planned=self.progress.planned,
        )
        return body

    def _failed_too_often(self) -> bool:
        limit = self.lock.study.retries.max_failed
        return limit is not None and self.progress.failed >= limit

    def _refuse_drift(self) -> None:
        changed = self.snapshot.changed()
        if changed:
            raise ArtifactError(
                f"{self.snapshot.root / changed[0]}: the snapshot was touched while "
                "the study ran; remove the run folder and start again"
            )

    def _provenance(self, environment: Mapping[str, str]) -> dict[str, Any]:
        from lazycore.sandbox import required_guarantees

        policies = worker_policies(self.lock, self.snapshot.root, environment)
        # The executor refuses to run without these, so each was enforced.
        guarantees = {
            str(item) for policy in policies for item in required_guarantees(policy)
        }
        return {
            "format": JOURNAL_FORMAT,
            "lock": self.lock.digest,
            "started_unix_s": int(time.time()),
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            "platform": platform.platform(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "engine": self.engine.name,
            "slots": self.engine.count,
            "mode": self.lock.study.mode,
            "backend": self.engine.backend,
            "guarantees": sorted(guarantees),
            "degraded": [],
            "snapshot_sha256": self.snapshot.tree.sha256,
            "git_tree": self.snapshot.tree.git_tree,
            "versions": _versions(),
            "models": [
                {
                    "slot": m.slot,
                    "checkpoint": m.checkpoint,
                    "license": m.license,
                    "tier": m.tier,
                    "accepted": m.tier > 1,
                }
                for m in self.lock.study.models
            ],
        }


def _versions() -> dict[str, str]:
    slices = ("data", "experiments", "licensing", "sandbox", "telemetry")
    return {f"lazycore-{name}": metadata.version(f"lazycore-{name}") for name in slices}

"""Run a locked study to its end, or continue one that was interrupted.

The coordinator alone writes the journal. A cell counts as finished when its record
is there; whatever was in flight when a process died runs again.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lazycore.experiments._arrow import has_arrow, write_parquet
from lazycore.experiments._attempt import CellOutcome, Workers
from lazycore.experiments._blockers import Blocker
from lazycore.experiments._digests import ResultsDigest
from lazycore.experiments._engine import Slots
from lazycore.experiments._errors import ArtifactError, BlockedError
from lazycore.experiments._interrupt import interruptible
from lazycore.experiments._journal import Journal, Record
from lazycore.experiments._licence_gate import gate_models
from lazycore.experiments._lock import StudyLock, write_atomically
from lazycore.experiments._outcome import (
    attempt_body,
    cell_body,
    failure_rows,
    leaf_digest,
    result_rows,
)
from lazycore.experiments._plan import Cell, plan_cells
from lazycore.experiments._reader import RunRecord, load_run
from lazycore.experiments._receipts import RECEIPTS, Signer, sign_run
from lazycore.experiments._seal import seal_run
from lazycore.experiments._snapshot import Snapshot, take_snapshot
from lazycore.experiments._spans import RunSpans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from threading import Event

    from lazycore.experiments._results import FailureRow, ResultRow
    from lazycore.experiments._study import Study
    from lazycore.sandbox import BaseSandboxExecutor, SandboxPolicy

__all__ = ["JOURNAL_FORMAT", "RunObserver", "preflight", "run_study"]

JOURNAL_FORMAT = "lazycore-experiments/journal/1"
_STAMP_CHECK_EVERY_S = 2.0
_KNOWN_ENTRIES = {"journal.jsonl", "lock.json", "run.lock", "study"}


class RunObserver(Protocol):
    """What follows a run; called from the coordinator's thread only."""

    def started(self, *, study: Study, planned: int, finished: int, slots: int) -> None:
        """A session begins."""

    def cell_finished(
        self,
        *,
        rows: tuple[ResultRow, ...],
        failures: tuple[FailureRow, ...],
        finished: int,
        planned: int,
    ) -> None:
        """A cell is in the journal."""

    def closed(self) -> None:
        """The session is over, for whatever reason."""


class _Silent:
    def started(
        self, *, study: Study, planned: int, finished: int, slots: int
    ) -> None: ...

    def cell_finished(
        self,
        *,
        rows: tuple[ResultRow, ...],
        failures: tuple[FailureRow, ...],
        finished: int,
        planned: int,
    ) -> None: ...

    def closed(self) -> None: ...


@dataclass(slots=True)
class _Progress:
    """What the coordinator knows about the run so far."""

    planned: int
    total: ResultsDigest
    failed: int = 0
    reason: str = "complete"


def preflight(
    lock: StudyLock,
    *,
    environment: Mapping[str, str] | None = None,
    accept_restricted_licenses: bool = False,
) -> tuple[Blocker, ...]:
    """Return every blocker of a locked study on this host; empty when it may run.

    Args:
        lock: The locked study.
        environment: Where passed variables get their values; `os.environ` if None.
        accept_restricted_licenses: Accept the conditions of every tier 2 model.
    """
    found = lock.missing_variables(os.environ if environment is None else environment)
    models = gate_models(
        lock.study, accept_restricted_licenses=accept_restricted_licenses
    )
    return found + models + _sandbox_blockers(lock)


def run_study(
    lock: StudyLock,
    output: str | Path,
    *,
    slots: int | None = None,
    environment: Mapping[str, str] | None = None,
    accept_restricted_licenses: bool = False,
    observer: RunObserver | None = None,
    signer: Signer | None = None,
) -> RunRecord:
    """Run a locked study in a folder, or continue it there.

    Args:
        lock: The study as `lock_study` made it now, on this host.
        output: The run folder; made when absent.
        slots: How many cells run at once; the host's cores when None.
        environment: Where passed variables get their values; `os.environ` if None.
        accept_restricted_licenses: Accept the conditions of every tier 2 model.
        observer: Follows the run.
        signer: Signs a receipt per cell and for the run.

    Returns:
        The run as its journal tells it. After SIGINT or SIGTERM in the main thread,
        or ``max_failed``, it is returned with ``complete`` False and its
        ``reason``, and can be continued.

    Raises:
        BlockedError: Something stands in the way; carries every blocker.
        RunBusyError: Another process runs in that folder.
        ArtifactError: The folder holds something else, or an input drifted.

    Examples:
        >>> run_study(lock, "runs/first").complete  # doctest: +SKIP
        True
    """
    source = dict(os.environ if environment is None else environment)
    folder = _open_folder(Path(output))
    progress = _Progress(planned=lock.document["plan"]["cells"], total=ResultsDigest())

    def visit(record: Record) -> None:
        if record.type == "session" and record.body["lock"] != lock.digest:
            _refuse_other_lock(folder, lock)
        if record.type == "cell":
            progress.total.add(record.body["cell"], leaf_digest(record.body))
            progress.failed += record.body["status"] == "failed"

    with Journal(folder, visit) as journal:
        if (folder / "lock.json").exists():
            _refuse_other_lock(folder, lock)
        blockers = preflight(
            lock,
            environment=source,
            accept_restricted_licenses=accept_restricted_licenses,
        )
        if blockers:
            raise BlockedError(blockers)
        if not (folder / "lock.json").exists():
            write_atomically(folder / "lock.json", lock.data)
        snapshot = _snapshot(lock, folder)
        session = _Session(
            lock=lock,
            snapshot=snapshot,
            journal=journal,
            progress=progress,
            observer=observer or _Silent(),
            engine=Slots(slots),
        )
        session.run(source)
        snapshot.attest()
        _finish(folder, lock, progress, signer)
        return load_run(folder)


@dataclass(slots=True)
class _Session:
    """One start or continuation of a run."""

    lock: StudyLock
    snapshot: Snapshot
    journal: Journal
    progress: _Progress
    observer: RunObserver
    engine: Slots[Cell, CellOutcome]

    def run(self, environment: Mapping[str, str]) -> None:
        from lazycore.sandbox import get_default_executor

        policies = _policies(self.lock, self.snapshot.root, environment)
        with get_default_executor(policies[0]) as executor:
            workers = Workers(self.lock, self.snapshot.root, executor, environment)

            def abandon() -> None:
                workers.close()
                executor.close()

            provenance = self._provenance(executor, policies)
            self.journal.append("session", provenance)
            spans = RunSpans(self.lock.study, self.lock.digest, provenance)
            self.observer.started(
                study=self.lock.study,
                planned=self.progress.planned,
                finished=len(self.progress.total),
                slots=self.engine.count,
            )
            try:
                with interruptible() as interrupted:
                    self._drive(workers, spans, interrupted, abandon)
            finally:
                spans.end(
                    reason=self.progress.reason,
                    results=self.progress.total.value(),
                    failed=self.progress.failed,
                )
                workers.close()
                self.observer.closed()
                self.journal.sync()

    def _drive(
        self,
        workers: Workers,
        spans: RunSpans,
        interrupted: Event,
        abandon: Callable[[], None],
    ) -> None:
        started = checked = time.monotonic()
        outcomes = self.engine.run(self._todo(), workers.run)
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
                abandon()
            outcomes.close()
        if self.progress.reason == "complete":
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

    def _todo(self) -> Iterator[Cell]:
        for cell in plan_cells(self.lock.study, self.lock.digest):
            if cell.id not in self.progress.total:
                yield cell

    def _record(self, outcome: CellOutcome, elapsed_s: float) -> dict[str, Any]:
        study = self.lock.study
        failures: tuple[FailureRow, ...] = ()
        for arm, result in outcome.arms.items():
            for attempt in result.attempts[:-1]:
                body = attempt_body(outcome.cell, arm, attempt)
                self.journal.append("attempt", {**body, "elapsed_s": elapsed_s})
                failures += failure_rows(study, body, final=False)
        body = cell_body(outcome.cell, outcome.arms)
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

    def _provenance(
        self, executor: BaseSandboxExecutor, policies: list[SandboxPolicy]
    ) -> dict[str, Any]:
        from lazycore.sandbox import required_guarantees

        # The executor refuses to run without these, so each was enforced.
        guarantees = {
            str(item)
            for policy in policies
            for item in required_guarantees(policy) - executor.allow_degraded
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
            "backend": executor.name,
            "guarantees": sorted(guarantees),
            "degraded": sorted(str(item) for item in executor.allow_degraded),
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


def _open_folder(path: Path) -> Path:
    if path.is_symlink():
        raise ArtifactError(f"{path}: a symbolic link; name the real folder")
    path.mkdir(parents=True, exist_ok=True)
    folder = path.resolve()
    names = {entry.name for entry in folder.iterdir()}
    if names - _KNOWN_ENTRIES and "journal.jsonl" not in names:
        raise ArtifactError(
            f"{folder}: holds files but no run; choose an empty or new folder"
        )
    return folder


def _refuse_other_lock(folder: Path, lock: StudyLock) -> None:
    earlier = StudyLock.read(folder / "lock.json")
    blockers = earlier.drift(lock)
    if blockers:
        raise BlockedError(blockers)


def _snapshot(lock: StudyLock, folder: Path) -> Snapshot:
    study = lock.study
    target = folder / "snapshot"
    # A study that was read from a lock has no folder of its own to copy from.
    source = lock.source or target
    return take_snapshot(source, study.exclude, target, lock.tree_sha256)


def _policies(
    lock: StudyLock, snapshot: Path, environment: Mapping[str, str]
) -> list[SandboxPolicy]:
    from lazycore.experiments._launch import worker_policy

    return [worker_policy(lock, snapshot, arm, environment) for arm in lock.study.arms]


def _sandbox_blockers(lock: StudyLock) -> tuple[Blocker, ...]:
    from lazycore.sandbox import SandboxError, get_default_executor

    blank = {name: "-" for arm in lock.study.arms for name in arm.environment}
    policies = _policies(lock, Path(sys.prefix).resolve(), blank)
    try:
        for policy in policies:
            get_default_executor(policy).close()
    except SandboxError as error:
        return (
            Blocker(
                code="sandbox",
                message=f"no backend holds the workers' policy: {error}",
                fix="see `lazycore-sandbox doctor`",
            ),
        )
    return ()


def _finish(
    folder: Path, lock: StudyLock, progress: _Progress, signer: Signer | None
) -> None:
    if signer is not None:
        sign_run(folder, lock, signer)
    else:  # receipts of an earlier session describe another journal
        (folder / RECEIPTS).unlink(missing_ok=True)
    if has_arrow():
        write_parquet(load_run(folder).rows, folder / "results.parquet")
    seal_run(
        folder,
        lock=lock.digest,
        results=progress.total.value(),
        complete=len(progress.total) == progress.planned,
    )


def _versions() -> dict[str, str]:
    slices = ("data", "experiments", "licensing", "sandbox", "telemetry")
    return {f"lazycore-{name}": metadata.version(f"lazycore-{name}") for name in slices}

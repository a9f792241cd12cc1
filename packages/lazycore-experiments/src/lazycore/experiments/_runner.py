"""Run a locked study to its end, or continue one that was interrupted.

The coordinator alone writes the journal. A cell counts as finished when its record
is there; whatever was in flight when a process died runs again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.experiments._arrow import has_arrow, write_parquet
from lazycore.experiments._atomic import write_atomically
from lazycore.experiments._blobs import BlobStore
from lazycore.experiments._blockers import Blocker
from lazycore.experiments._digests import ResultsDigest
from lazycore.experiments._engine import LocalEngine
from lazycore.experiments._errors import ArtifactError, BlockedError
from lazycore.experiments._journal import Journal, Record
from lazycore.experiments._launch import worker_policies
from lazycore.experiments._licence_gate import gate_models
from lazycore.experiments._lock import StudyLock
from lazycore.experiments._observer import RunObserver, SilentObserver
from lazycore.experiments._reader import RunRecord, load_run
from lazycore.experiments._receipts import RECEIPTS, Signer, sign_run
from lazycore.experiments._seal import read_seal, seal_run
from lazycore.experiments._session import JOURNAL_FORMAT, Progress, Session
from lazycore.experiments._snapshot import Snapshot, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import TracerProvider

    from lazycore.experiments._engine import Engine

__all__ = ["JOURNAL_FORMAT", "RunObserver", "preflight", "run_study"]

_KNOWN_ENTRIES = {"journal.jsonl", "lock.json", "run.lock", "study"}


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
    engine: Engine | None = None,
    environment: Mapping[str, str] | None = None,
    accept_restricted_licenses: bool = False,
    observer: RunObserver | None = None,
    signer: Signer | None = None,
    tracer_provider: TracerProvider | None = None,
) -> RunRecord:
    """Run a locked study in a folder, or continue it there.

    Args:
        lock: The study as `lock_study` made it now, on this host.
        output: The run folder; made when absent.
        slots: How many cells run at once; the host's cores when None.
        engine: Where cells run; slots of this process when None.
        environment: Where passed variables get their values; `os.environ` if None.
        accept_restricted_licenses: Accept the conditions of every tier 2 model.
        observer: Follows the run.
        signer: Signs a receipt per cell and for the run.
        tracer_provider: Where spans go; the application's own when None.

    Returns:
        The run as its journal tells it; one that is finished and sealed is returned
        untouched, unless a signer is given. After SIGINT or SIGTERM in the main thread,
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
    blobs = BlobStore(folder)
    progress = Progress(planned=lock.document["plan"]["cells"], total=ResultsDigest())

    def visit(record: Record) -> None:
        if record.type == "session" and record.body["lock"] != lock.digest:
            _refuse_other_lock(folder, lock)
        progress.read(record)
        if record.type == "cell":
            blobs.note(record.body)

    with Journal(folder, visit) as journal:
        if (folder / "lock.json").exists():
            _refuse_other_lock(folder, lock)
        checked = progress.order_checked or lock.study.mode != "session"
        if signer is None and checked and _is_sealed(folder, progress):
            return load_run(folder)
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
        session = Session(
            lock=lock,
            snapshot=snapshot,
            journal=journal,
            blobs=blobs,
            progress=progress,
            observer=observer or SilentObserver(),
            engine=engine or LocalEngine(slots),
            tracer_provider=tracer_provider,
        )
        session.run(source)
        snapshot.attest()
        blobs.sweep()
        run = load_run(folder)
        _finish(run, lock, signer)
        return run


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


def _is_sealed(folder: Path, progress: Progress) -> bool:
    """Tell whether a run is finished and sealed: then its journal stays as it is."""
    if len(progress.total) != progress.planned:
        return False
    try:
        return read_seal(folder).get("complete") is True
    except ArtifactError:
        return False


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


def _sandbox_blockers(lock: StudyLock) -> tuple[Blocker, ...]:
    from lazycore.sandbox import SandboxError, get_default_executor

    blank = {name: "-" for arm in lock.study.arms for name in arm.environment}
    policies = worker_policies(lock, Path(sys.prefix).resolve(), blank)
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


def _finish(run: RunRecord, lock: StudyLock, signer: Signer | None) -> None:
    folder = run.path
    if signer is not None:
        sign_run(folder, lock, signer)
    else:  # receipts of an earlier session describe another journal
        (folder / RECEIPTS).unlink(missing_ok=True)
    if has_arrow():
        write_parquet(run.rows, folder / "results.parquet")
    seal_run(
        folder,
        lock=lock.digest,
        results=run.results_digest,
        complete=run.complete,
    )

"""Commands that begin with a study: write, lock, plan, check, try and run it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.experiments._cli_output import (
    FAILED_CELLS,
    INTERRUPTED,
    OK,
    counter,
    print_json,
    print_verdict,
)
from lazycore.experiments._errors import BlockedError, ExperimentError

if TYPE_CHECKING:
    import argparse

    from opentelemetry.trace import TracerProvider

    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._reader import RunRecord
    from lazycore.experiments._runner import RunObserver

__all__ = ["check", "demo", "init", "lock", "plan", "run", "worker_test"]


def demo(options: argparse.Namespace) -> int:
    """Run a built-in study, or continue it."""
    from lazycore.experiments import _demos

    if options.name not in _demos.DEMOS:
        known = ", ".join(sorted(_demos.DEMOS))
        raise ExperimentError(f"no demo is named {options.name!r}; known: {known}")
    output: Path = options.output or Path(f"lazycore-demo-{options.name}")
    output.mkdir(parents=True, exist_ok=True)
    if not options.json:
        print(f"{options.name}: {_demos.DEMOS[options.name].title}")
        print(f"run folder: {output}", flush=True)
    lock = _make_lock(_demos.prepare(options.name, output / "study"))
    if options.json:
        return _run_lock(options, lock, output)
    tally = _demos.watch_spans()
    code = _run_lock(options, lock, output, tracer_provider=tally.provider)
    # On stderr: the verdict and the digests are what others read from stdout.
    for line in ("", *_demos.licence_lines(lock.study), *tally.lines()):
        print(line, file=sys.stderr)
    return code


def init(options: argparse.Namespace) -> int:
    """Write a small study that runs."""
    from lazycore.experiments._scaffold import init_study

    study = init_study(options.folder)
    if options.json:
        print_json({"study": str(study)})
    else:
        print(f"wrote {study} and worker.py; next:")
        print(f"  lazycore-experiments run {study} --output {options.folder}-run")
    return OK


def lock(options: argparse.Namespace) -> int:
    """Hash everything a study depends on, and write it down."""
    from lazycore.experiments._atomic import write_atomically
    from lazycore.experiments._lock import lock_study
    from lazycore.experiments._study import Study

    study = Study.load(options.study)
    with counter("hashing installed files", "files") as progress:
        lock = lock_study(study, progress=progress)
    assert study.path is not None
    path = study.path.with_name("study.lock.json")
    write_atomically(path, lock.data)
    if options.json:
        print_json({"lock": lock.digest, "path": str(path)})
    else:
        print(f"lock    {lock.digest}")
        print(f"written {path}")
    return OK


def check(options: argparse.Namespace) -> int:
    """Say whether a study may run here."""
    from lazycore.experiments._runner import preflight

    lock = _make_lock(options.study)
    blockers = preflight(
        lock, accept_restricted_licenses=options.accept_restricted_licenses
    )
    if blockers:
        raise BlockedError(blockers)
    if options.json:
        print_json({"lock": lock.digest, "blockers": []})
    else:
        print(f"lock    {lock.digest}")
        print("nothing stands in the way")
    return OK


def plan(options: argparse.Namespace) -> int:
    """Show what a study would run."""
    from lazycore.experiments._plan import count_cells
    from lazycore.experiments._power import plan_lines
    from lazycore.experiments._study import Study

    study = Study.load(options.study)
    cells = count_cells(study)
    lines = list(plan_lines(study))
    if options.json:
        print_json(
            {
                "study": study.id,
                "cells": cells,
                "arms": [arm.name for arm in study.arms],
                "attempts": cells * len(study.arms),
                "units": {b.id: len(b.units) for b in study.benchmarks},
                "detectable": lines,
            }
        )
        return OK
    print(f"{study.id}: {study.title}")
    arms = len(study.arms)
    print(f"{cells} cells x {arms} arms = {cells * arms} worker runs, {study.mode}")
    for line in lines:
        print(line)
    return OK


def run(options: argparse.Namespace) -> int:
    """Run a study in a folder, or continue it there."""
    if options.fresh and (options.output / "journal.jsonl").exists():
        raise ExperimentError(
            f"{options.output}: holds a run; leave --fresh out to continue it"
        )
    return _run_lock(options, _make_lock(options.study), options.output)


def worker_test(options: argparse.Namespace) -> int:
    """Run the first cell of a study in a folder that is thrown away."""
    import tempfile

    from lazycore.experiments._attempt import Workers
    from lazycore.experiments._plan import plan_cells
    from lazycore.experiments._runner import preflight
    from lazycore.experiments._snapshot import take_snapshot
    from lazycore.sandbox import get_default_executor

    lock = _make_lock(options.study)
    blockers = preflight(lock, accept_restricted_licenses=True)
    if blockers:
        raise BlockedError(blockers)
    assert lock.source is not None
    cell = next(plan_cells(lock.study, lock.digest))
    with tempfile.TemporaryDirectory(prefix="lazycore-test-") as place:
        folder = Path(place).resolve() / "snapshot"
        take_snapshot(lock.source, lock.study.exclude, folder, lock.tree_sha256)
        with get_default_executor() as executor:
            workers = Workers(lock, folder, executor, dict(os.environ))
            try:
                outcome = workers.run(cell)
            finally:
                workers.close()
    rows = {
        name: {
            "class": arm.last.failure_class,
            "message": arm.last.message,
            "wall_s": arm.last.resources.wall_s,
            "units": {}
            if arm.last.response is None
            else {u: dict(r.metrics) for u, r in arm.last.response.units.items()},
        }
        for name, arm in outcome.arms.items()
    }
    if options.json:
        print_json({"benchmark": cell.benchmark, "arms": rows})
    else:
        for name, row in rows.items():
            print(f"{name}: {row['class'] or 'answered in the protocol'}")
            print(f"  {row['message'] or row['units']}")
    return FAILED_CELLS if any(row["class"] for row in rows.values()) else OK


def _make_lock(path: Path) -> StudyLock:
    """Load and lock a study; a lock file beside it must still hold."""
    from lazycore.experiments._lock import StudyLock, lock_study
    from lazycore.experiments._study import Study

    study = Study.load(path)
    with counter("hashing installed files", "files") as progress:
        lock = lock_study(study, progress=progress)
    assert study.path is not None
    pinned = study.path.with_name("study.lock.json")
    if pinned.exists():
        blockers = StudyLock.read(pinned).drift(lock)
        if blockers:
            raise BlockedError(blockers)
    return lock


def _run_lock(
    options: argparse.Namespace,
    lock: StudyLock,
    output: Path,
    *,
    tracer_provider: TracerProvider | None = None,
) -> int:
    from lazycore.experiments._comparison import compare_run
    from lazycore.experiments._report import write_report
    from lazycore.experiments._runner import run_study
    from lazycore.experiments._seal import update_seal

    signer = None
    if options.sign is not None:
        from lazycore.experiments._receipts import Signer

        signer = Signer(options.sign)
    engine = None
    if options.dask is not None:
        from lazycore.experiments._engine_dask import DaskEngine

        engine = DaskEngine(options.dask)
    record = run_study(
        lock,
        output,
        slots=options.slots,
        engine=engine,
        accept_restricted_licenses=options.accept_restricted_licenses,
        observer=_observer(),
        signer=signer,
        tracer_provider=tracer_provider,
    )
    comparison = compare_run(record)
    write_report(record, output / "report.html", comparison=comparison)
    update_seal(output, "report.html")
    print_verdict(options, record, comparison)
    if record.reason == "interrupted":
        left = record.planned_cells - record.finished_cells
        print(
            f"interrupted: {left} cells are left; the same command continues",
            file=sys.stderr,
        )
        return INTERRUPTED
    return _code(record)


def _observer() -> RunObserver:
    from lazycore.experiments._summary import progress

    return progress(sys.stderr)


def _code(record: RunRecord) -> int:
    if not record.complete:
        print(
            f"stopped after {record.failed_cells} failed cells (max_failed)",
            file=sys.stderr,
        )
    return FAILED_CELLS if record.failed_cells or not record.complete else OK

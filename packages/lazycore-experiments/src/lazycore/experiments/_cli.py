"""The command `lazycore-experiments`: lock, run, verify and report studies."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from lazycore.experiments._errors import (
    BlockedError,
    ExperimentError,
    ExternalDependencyError,
    RunBusyError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._reader import RunRecord
    from lazycore.experiments._runner import RunObserver

__all__ = ["main"]

OK, USAGE, BLOCKED, FAILED_CELLS, UNVERIFIED, INTERRUPTED = 0, 2, 3, 4, 5, 130
_EXIT_CODES = """\
exit codes:
  0    done
  2    wrong usage, or a study or run folder that can't be read
  3    blocked: a lock drifted, a variable or a package is missing, a licence is
       not accepted, no sandbox holds, or another process runs in the folder
  4    finished, with failed cells
  5    verification failed
  130  interrupted; the same command continues
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: Arguments without the program's name; `sys.argv` when None.

    Examples:
        >>> main(["plan", "no/such/study.toml"])
        2
    """
    options = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except (BlockedError, ExternalDependencyError, RunBusyError) as error:
        return _complain(options, error, BLOCKED)
    except ExperimentError as error:
        return _complain(options, error, USAGE)
    except BrokenPipeError:
        return OK
    except OSError as error:
        text = f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            text += "; free some space, then the same command continues"
        if error.errno == errno.EFBIG:
            text += "; raise the file size limit, then the same command continues"
        return _complain(options, ExperimentError(text), USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lazycore-experiments",
        description="Ask whether a method helps, compared with doing nothing.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=run)
        # Also accepted after the command; absent there, the first one counts.
        command.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )
        return command

    def runnable(command: argparse.ArgumentParser) -> None:
        command.add_argument(
            "--slots", type=_positive, help="cells at once (default: the cores)"
        )
        command.add_argument(
            "--accept-restricted-licenses",
            action="store_true",
            help="accept the conditions of every tier 2 model of the study",
        )
        command.add_argument(
            "--dask", metavar="ADDRESS", help="run cells on this dask scheduler"
        )
        command.add_argument("--sign", type=Path, help="sign receipts with this key")

    demo = add("demo", _demo, "run a built-in study, or continue it")
    demo.add_argument("name", nargs="?", default="clean-before-fit")
    demo.add_argument("--output", type=Path, help="run folder")
    runnable(demo)
    init = add("init", _init, "write a small study that runs")
    init.add_argument("folder", type=Path)
    lock = add("lock", _lock, "hash everything a study depends on")
    lock.add_argument("study", type=Path)
    check = add("check", _check, "say whether a study may run here")
    check.add_argument("study", type=Path)
    check.add_argument("--accept-restricted-licenses", action="store_true")
    plan = add("plan", _plan, "show what a study would run")
    plan.add_argument("study", type=Path)
    run = add("run", _run, "run a study in a folder, or continue it there")
    run.add_argument("study", type=Path)
    run.add_argument("--output", type=Path, required=True, help="run folder")
    run.add_argument(
        "--fresh", action="store_true", help="refuse a folder that holds a run"
    )
    runnable(run)
    probe = add("worker-test", _worker_test, "ask each arm once and judge the answer")
    probe.add_argument("study", type=Path)
    export = add("export", _export, "write the rows of a run for other programs")
    export.add_argument("run", type=Path)
    export.add_argument("output", type=Path, help=".csv, .jsonl or .parquet")
    status = add("status", _status, "say how far a run is")
    status.add_argument("run", type=Path)
    verify = add("verify", _verify, "check every byte of a run folder")
    verify.add_argument("run", type=Path)
    verify.add_argument(
        "--public-key", type=Path, help="every receipt must be signed by this key"
    )
    keygen = add("keygen", _keygen, "make a key that signs receipts")
    keygen.add_argument("path", type=Path, help="private key; .pub goes beside it")
    report = add("report", _report, "write report.html again and print the verdict")
    report.add_argument("run", type=Path)
    compare = add("compare", _compare, "compare the results of two runs")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def _complain(options: argparse.Namespace, error: Exception, code: int) -> int:
    if options.json:
        blockers = getattr(error, "blockers", ())
        _print_json(
            {
                "error": type(error).__name__,
                "message": str(error),
                "blockers": [
                    {"code": b.code, "message": b.message, "fix": b.fix}
                    for b in blockers
                ],
            }
        )
    print(f"lazycore-experiments: {error}", file=sys.stderr)
    return code


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _make_lock(path: Path) -> StudyLock:
    """Load and lock a study; a lock file beside it must still hold."""
    from lazycore.experiments._lock import StudyLock, lock_study
    from lazycore.experiments._study import Study

    study = Study.load(path)
    with _counter("hashing installed files", "files") as progress:
        lock = lock_study(study, progress=progress)
    assert study.path is not None
    pinned = study.path.with_name("study.lock.json")
    if pinned.exists():
        blockers = StudyLock.read(pinned).drift(lock)
        if blockers:
            raise BlockedError(blockers)
    return lock


class _counter:  # noqa: N801 - used like a function
    """Show a count on a terminal's stderr once work takes longer than a moment."""

    def __init__(self, what: str, things: str, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._what, self._things = what, things
        self._began = time.monotonic()
        self._shown = False

    def __enter__(self) -> Callable[[int, int], None]:
        return self._show

    def _show(self, done: int, planned: int) -> None:
        if not self._stream.isatty() or time.monotonic() - self._began < 1:
            return
        self._shown = True
        text = f"\r{self._what}: {done:,} of {planned:,} {self._things}"
        self._stream.write(text)
        self._stream.flush()

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._stream.write("\n")


def _demo(options: argparse.Namespace) -> int:
    from lazycore.experiments import _demos

    if options.name not in _demos.DEMOS:
        known = ", ".join(sorted(_demos.DEMOS))
        raise ExperimentError(f"no demo is named {options.name!r}; known: {known}")
    output: Path = options.output or Path(f"lazycore-demo-{options.name}")
    output.mkdir(parents=True, exist_ok=True)
    if not options.json:
        print(f"{options.name}: {_demos.DEMOS[options.name].title}")
        print(f"run folder: {output}", flush=True)
    study = _demos.prepare(options.name, output / "study")
    return _run_lock(options, _make_lock(study), output)


def _init(options: argparse.Namespace) -> int:
    from lazycore.experiments._scaffold import init_study

    study = init_study(options.folder)
    if options.json:
        _print_json({"study": str(study)})
    else:
        print(f"wrote {study} and worker.py; next:")
        print(f"  lazycore-experiments run {study} --output {options.folder}-run")
    return OK


def _lock(options: argparse.Namespace) -> int:
    from lazycore.experiments._lock import lock_study, write_atomically
    from lazycore.experiments._study import Study

    study = Study.load(options.study)
    with _counter("hashing installed files", "files") as progress:
        lock = lock_study(study, progress=progress)
    assert study.path is not None
    path = study.path.with_name("study.lock.json")
    write_atomically(path, lock.data)
    if options.json:
        _print_json({"lock": lock.digest, "path": str(path)})
    else:
        print(f"lock    {lock.digest}")
        print(f"written {path}")
    return OK


def _check(options: argparse.Namespace) -> int:
    from lazycore.experiments._runner import preflight

    lock = _make_lock(options.study)
    blockers = preflight(
        lock, accept_restricted_licenses=options.accept_restricted_licenses
    )
    if blockers:
        raise BlockedError(blockers)
    if options.json:
        _print_json({"lock": lock.digest, "blockers": []})
    else:
        print(f"lock    {lock.digest}")
        print("nothing stands in the way")
    return OK


def _plan(options: argparse.Namespace) -> int:
    from lazycore.experiments._plan import count_cells
    from lazycore.experiments._power import plan_lines
    from lazycore.experiments._study import Study

    study = Study.load(options.study)
    cells = count_cells(study)
    lines = list(plan_lines(study))
    if options.json:
        _print_json(
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


def _run(options: argparse.Namespace) -> int:
    if options.fresh and (options.output / "journal.jsonl").exists():
        raise ExperimentError(
            f"{options.output}: holds a run; leave --fresh out to continue it"
        )
    return _run_lock(options, _make_lock(options.study), options.output)


def _run_lock(options: argparse.Namespace, lock: StudyLock, output: Path) -> int:
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
    )
    write_report(record, output / "report.html")
    update_seal(output, "report.html")
    _print_verdict(options, record)
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


def _print_verdict(options: argparse.Namespace, record: RunRecord) -> None:
    from lazycore.experiments._comparison import compare_run
    from lazycore.experiments._summary import print_verdict

    report = record.path / "report.html"
    if options.json:
        _print_json(
            {
                "study": record.study.id,
                "lock": record.lock_digest,
                "results": record.results_digest,
                "planned": record.planned_cells,
                "finished": record.finished_cells,
                "failed": record.failed_cells,
                "complete": record.complete,
                "reason": record.reason,
                "report": str(report),
                "comparison": compare_run(record).to_json(),
            }
        )
        return
    print_verdict(record, sys.stdout)
    print(f"lock    {record.lock_digest}")
    print(f"results {record.results_digest}")
    print(f"report  {report}")


def _status(options: argparse.Namespace) -> int:
    from lazycore.experiments._journal import holder
    from lazycore.experiments._reader import load_run

    record = load_run(options.run)
    writer = holder(options.run)
    state = "running" if writer is not None else record.reason
    if state == "running" and writer is None:
        state = "killed"
    if options.json:
        _print_json(
            {
                "state": state,
                "process": writer,
                "planned": record.planned_cells,
                "finished": record.finished_cells,
                "failed": record.failed_cells,
                "sessions": record.sessions,
                "wall_s": record.wall_s,
                "lock": record.lock_digest,
                "results": record.results_digest,
            }
        )
        return OK
    done, planned = record.finished_cells, record.planned_cells
    print(f"{record.study.id}: {state}, {done} of {planned} cells")
    print(f"{record.failed_cells} failed, {record.sessions} sessions")
    print(f"lock    {record.lock_digest}")
    print(f"results {record.results_digest}")
    return OK


def _verify(options: argparse.Namespace) -> int:
    from lazycore.experiments._verify import verify_run

    with _counter("verifying", "cells") as progress:
        found = verify_run(
            options.run, public_key=options.public_key, progress=progress
        )
    if options.json:
        _print_json(
            {
                "holds": found.holds,
                "findings": list(found.findings),
                "lock": found.lock_digest,
                "results": found.results_digest,
                "records": found.records,
            }
        )
    else:
        for finding in found.findings:
            print(finding)
        print(f"lock    {found.lock_digest}")
        print(f"results {found.results_digest}")
        verdict = "holds" if found.holds else f"{len(found.findings)} findings"
        print(f"{options.run}: {verdict}")
    return OK if found.holds else UNVERIFIED


def _worker_test(options: argparse.Namespace) -> int:
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
        _print_json({"benchmark": cell.benchmark, "arms": rows})
    else:
        for name, row in rows.items():
            print(f"{name}: {row['class'] or 'answered in the protocol'}")
            print(f"  {row['message'] or row['units']}")
    return FAILED_CELLS if any(row["class"] for row in rows.values()) else OK


def _export(options: argparse.Namespace) -> int:
    from lazycore.experiments._export import export_rows
    from lazycore.experiments._reader import load_run

    rows = load_run(options.run).rows
    export_rows(rows, options.output)
    if options.json:
        _print_json({"rows": len(rows), "path": str(options.output)})
    else:
        print(f"wrote {len(rows)} rows to {options.output}")
    return OK


def _keygen(options: argparse.Namespace) -> int:
    from lazycore.experiments._receipts import generate_key

    key_id = generate_key(options.path)
    if options.json:
        _print_json({"key": key_id, "public": f"{options.path}.pub"})
    else:
        print(f"key     {key_id}")
        print(f"written {options.path} and {options.path}.pub")
    return OK


def _report(options: argparse.Namespace) -> int:
    from lazycore.experiments._journal import Journal
    from lazycore.experiments._reader import load_run
    from lazycore.experiments._report import write_report
    from lazycore.experiments._seal import update_seal

    record = load_run(options.run)
    with Journal(options.run):  # nobody else writes meanwhile
        write_report(record, options.run / "report.html")
        if (options.run / "seal.json").exists():
            update_seal(options.run, "report.html")
    _print_verdict(options, record)
    return OK


def _compare(options: argparse.Namespace) -> int:
    from lazycore.experiments._compare import compare_runs
    from lazycore.experiments._reader import load_run

    difference = compare_runs(load_run(options.old), load_run(options.new))
    if options.json:
        _print_json(difference.to_json())
    else:
        for line in difference.lines():
            print(line)
    return OK

"""What a study costs: per cell, per record, and to verify; ours beside plain processes.

    python benchmarks/experiments.py [--cells 1000,10000] [--json]

Bookkeeping is measured with workers that answer at once, so that only the plan,
requests, journal, digests, rows and verification remain.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments import (
    Study,
    lock_study,
    pin_host,
    run_study,
    verify_run,
)
from lazycore.experiments._attempt import CellOutcome
from lazycore.experiments._blobs import BlobStore
from lazycore.experiments._canonical import canonical
from lazycore.experiments._digests import ResultsDigest
from lazycore.experiments._journal import Journal
from lazycore.experiments._lock import HostPins, StudyLock, write_atomically
from lazycore.experiments._observer import SilentObserver
from lazycore.experiments._outcome import ArmOutcome, Attempt, Resources
from lazycore.experiments._protocol import build_request, read_response
from lazycore.experiments._seal import seal_run
from lazycore.experiments._session import Progress, Session
from lazycore.experiments._snapshot import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from lazycore.experiments._plan import Cell

WORKER = """\
from lazycore.experiments import serve
if __name__ == "__main__":
    serve(lambda request: {"score": 1.0})
"""
STUDY = """\
schema = 1
[study]
id = "bench"
baseline = "no_op"
mode = "{mode}"
[worker]
entrypoint = "worker.py"
[arms.no_op]
[arms.candidate]
[[benchmarks]]
id = "units"
units_file = "units.json"
[metrics.score]
primary = true
"""


def write_study(folder: Path, cells: int, mode: str) -> Study:
    """Write a study with so many units."""
    folder.mkdir(parents=True)
    (folder / "worker.py").write_text(WORKER)
    (folder / "units.json").write_text(json.dumps([f"u{i:06}" for i in range(cells)]))
    (folder / "study.toml").write_text(STUDY.format(mode=mode))
    return Study.load(folder)


class Instant:
    """An engine whose workers answer at once."""

    name = "instant"
    backend = "none"
    count = 1

    def __init__(self, lock: StudyLock) -> None:
        self._lock = lock

    def start(self, *_: object) -> Callable[[Cell], CellOutcome]:
        """Start nothing."""
        return self._never

    def _never(self, cell: Cell) -> CellOutcome:
        raise AssertionError(cell)

    def abandon(self) -> None:
        """Drop nothing."""

    def close(self) -> None:
        """Release nothing."""

    def run(
        self, items: Iterable[Cell], work: Callable[[Cell], CellOutcome]
    ) -> Generator[CellOutcome | None]:
        """Answer every item on the spot."""
        del work
        study, digest = self._lock.study, self._lock.digest
        used = Resources(
            wall_s=0.02,
            cpu_s=0.02,
            max_rss_bytes=11_571_200,
            exit_reason="completed",
            exit_code=0,
            method="wait4",
        )
        for cell in items:
            arms = {}
            for arm in cell.order:
                _, request = build_request(study, digest, cell, arm)
                reply = canonical(
                    {
                        "schema_version": 1,
                        "protocol": "lazycore-experiments/worker/1",
                        "request_hash": request,
                        "status": "succeeded",
                        "metrics": {"score": 1.0},
                        "usage": {},
                        "output": None,
                        "failure": None,
                        "units": None,
                    }
                )
                response = read_response(
                    reply,
                    request_hash=request,
                    cell=cell,
                    metrics=frozenset({"score"}),
                    limit=10_000,
                )
                attempt = Attempt(
                    number=1,
                    failure_class=None,
                    message=None,
                    resources=used,
                    response=response,
                )
                arms[arm] = ArmOutcome(arm=arm, request=request, attempts=(attempt,))
            yield CellOutcome(cell=cell, arms=arms)


def bookkeeping(place: Path, cells: int, pins: HostPins) -> dict[str, Any]:
    """Measure plan, journal, digests and verification alone."""
    lock = lock_study(write_study(place / "study", cells, "fresh"), pins=pins)
    run = place / "run"
    run.mkdir()
    assert lock.source is not None
    snapshot = take_snapshot(lock.source, (), run / "snapshot", lock.tree_sha256)
    write_atomically(run / "lock.json", lock.data)
    progress = Progress(planned=cells, total=ResultsDigest())
    started = time.monotonic()
    with Journal(run) as journal:
        session = Session(
            lock=lock,
            snapshot=snapshot,
            journal=journal,
            blobs=BlobStore(run),
            progress=progress,
            observer=SilentObserver(),
            engine=Instant(lock),
        )
        session.run({})
    wrote = time.monotonic() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    results = progress.total.value()
    seal_run(run, lock=lock.digest, results=results, complete=True)
    started = time.monotonic()
    assert verify_run(run).findings == ()
    return {
        "cells": cells,
        "bookkeeping_s": round(wrote, 2),
        "ms_per_cell": round(wrote / cells * 1000, 3),
        "verify_s": round(time.monotonic() - started, 2),
        "coordinator_mib": peak,
        "journal_mib": round((run / "journal.jsonl").stat().st_size / 2**20, 1),
    }


def per_cell(place: Path, cells: int, mode: str, pins: HostPins) -> dict[str, Any]:
    """Measure two-arm cells in the sandbox on two slots."""
    lock = lock_study(write_study(place / "study", cells, mode), pins=pins)
    started = time.monotonic()
    record = run_study(lock, place / "run", slots=2)
    seconds = time.monotonic() - started
    assert record.complete
    assert not record.failures
    return {
        "what": mode,
        "cells": cells,
        "ms_per_cell": round(seconds / cells * 1000, 2),
    }


def plain(cells: int) -> dict[str, Any]:
    """Two bare interpreters per cell, one after the other, without a sandbox."""
    code = "import json, sys; json.loads(sys.stdin.read()); print('{}')"
    started = time.monotonic()
    for _ in range(2 * cells):
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", code],
            input=b"{}",
            capture_output=True,
            check=True,
        )
    seconds = time.monotonic() - started
    return {
        "what": "plain subprocess, one slot",
        "cells": cells,
        "ms_per_cell": round(seconds / cells * 1000, 2),
    }


def in_child(function: str, *words: str) -> dict[str, Any]:
    """Measure in a process of its own: peak memory is a process's."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", function, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def child(function: str, words: list[str]) -> None:
    """Run one measurement and print it as JSON."""
    pins = pin_host()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if function == "bookkeeping":
            result = bookkeeping(place, int(words[0]), pins)
        else:
            result = per_cell(place, int(words[0]), words[1], pins)
    print(json.dumps(result))


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__ or ""))
    parser.add_argument("--cells", default="1000,10000")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs="+")
    options = parser.parse_args()
    if options.child:
        child(options.child[0], options.child[1:])
        return
    rows = [
        plain(60),
        in_child("cells", "60", "fresh"),
        in_child("cells", "300", "fork"),
    ]
    rows += [in_child("bookkeeping", cells) for cells in options.cells.split(",")]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()

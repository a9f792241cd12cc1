"""What a study costs: per cell, per record, and to verify; ours beside plain processes.

    python benchmarks/experiments.py [--cells 1000,10000] [--rounds 3] [--no-peers]

A cell is two arms. Each round measures every candidate once, few cells and many; the
difference is what a cell costs, without what is paid once. Peers are installed into
environments of their own (about two minutes; ``--peers DIR`` keeps them), and one that
does not install is named.

Bookkeeping is measured with workers that answer at once, so that only the plan,
requests, journal, digests, rows and verification remain.
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments_peers.neighbour import BYPASSES, Neighbour

from lazycore.experiments import (
    Study,
    lock_study,
    pin_host,
    run_study,
    verify_run,
)
from lazycore.experiments._atomic import write_atomically
from lazycore.experiments._attempt import CellOutcome
from lazycore.experiments._blobs import BlobStore
from lazycore.experiments._canonical import canonical
from lazycore.experiments._digests import ResultsDigest
from lazycore.experiments._journal import Journal
from lazycore.experiments._observer import SilentObserver
from lazycore.experiments._outcome import ArmOutcome, Attempt, Resources
from lazycore.experiments._protocol import build_request, read_response
from lazycore.experiments._seal import seal_run
from lazycore.experiments._session import Progress, Session
from lazycore.experiments._snapshot import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from lazycore.experiments._host_pins import HostPins
    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._plan import Cell

HERE = Path(__file__).parent
CELLS = {
    "plain": (4, 64),
    "fresh": (4, 64),
    "fork": (20, 420),
    "session": (20, 420),
    "inspect": (10, 110),
    "neighbour": (2, 12),
}
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


def per_cell(place: Path, cells: int, mode: str, pins: HostPins) -> float:
    """Time two-arm cells in the sandbox on two slots."""
    lock = lock_study(write_study(place / "study", cells, mode), pins=pins)
    started = time.monotonic()
    record = run_study(lock, place / "run", slots=2)
    seconds = time.monotonic() - started
    assert record.complete
    assert not record.failures
    return seconds


def plain(cells: int) -> float:
    """Time cells of two bare interpreters on two slots, without any sandbox."""
    code = "import json, sys; json.loads(sys.stdin.read()); print('{}')"

    def cell(_: int) -> None:
        for _arm in range(2):
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", code],
                input=b"{}",
                capture_output=True,
                check=True,
            )

    started = time.monotonic()
    with ThreadPoolExecutor(2) as slots:
        list(slots.map(cell, range(cells)))
    return time.monotonic() - started


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Something that runs cells.

    Attributes:
        name: What the table calls it.
        cells: A small and a large number of cells.
        run: Runs so many cells and returns the seconds that they took.
    """

    name: str
    cells: tuple[int, int]
    run: Callable[[int], float]

    def per_cell(self) -> tuple[float, float]:
        """Return the time and the processor time that one cell more costs, in ms.

        What is paid once, starts and imports among it, cancels out.
        """
        few, many = (self._measured(cells) for cells in self.cells)
        more = (self.cells[1] - self.cells[0]) / 1000
        return (many[0] - few[0]) / more, (many[1] - few[1]) / more

    def _measured(self, cells: int) -> tuple[float, float]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = self.run(cells)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        user, system = (
            after.ru_utime - before.ru_utime,
            after.ru_stime - before.ru_stime,
        )
        return seconds, user + system


def environment(place: Path, name: str, *requirements: str) -> Path | str:
    """Install a peer into an environment of its own; say why where it fails."""
    folder = place / name
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "-q", *requirements],
        ):
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode:
                lines = ran.stderr.strip().splitlines() or ["no reason given"]
                return f"{name} does not install here: {lines[-1]}"
        done.touch()
    return python


def inspect_candidates(python: Path) -> list[Candidate]:
    """Return inspect_ai on its mock model; a cell is two samples."""
    script = str(HERE / "experiments_peers" / "inspect_samples.py")

    def measured(how: str, cells: int) -> float:
        ran = subprocess.run(
            [str(python), script, str(2 * cells), how],
            capture_output=True,
            text=True,
            check=True,
        )
        return float(ran.stdout.splitlines()[-1])

    return [
        Candidate(
            name="inspect_ai, mock model, in one process",
            cells=CELLS["inspect"],
            run=functools.partial(measured, "none"),
        ),
        Candidate(
            name="inspect_ai, mock model, a bare process per sample",
            cells=CELLS["inspect"],
            run=functools.partial(measured, "process"),
        ),
    ]


def neighbour_candidate(python: Path, place: Path) -> Candidate:
    """Return the neighbour's driver: fresh workers, no sandbox, one at a time."""

    def measured(cells: int) -> float:
        study = Neighbour.write(python, place / "neighbour", units=cells)
        seconds, scores = study.run()
        assert scores == [1.0] * 2 * cells
        return seconds

    return Candidate(
        name="agentinputlab, no sandbox", cells=CELLS["neighbour"], run=measured
    )


def compare_cells(rounds: int, peers: Path | None) -> list[dict[str, Any]]:
    """Measure every candidate once per round, so that noise hits all alike."""
    candidates = [
        Candidate(name="plain processes", cells=CELLS["plain"], run=plain),
        *(
            Candidate(
                name=f"lazycore {mode}, sandboxed",
                cells=CELLS[mode],
                run=functools.partial(ours, mode),
            )
            for mode in ("fresh", "fork", "session")
        ),
    ]
    rows: list[dict[str, Any]] = []
    if peers is not None:
        found = environment(peers, "inspect_ai", "inspect-ai==0.3.285", "openai")
        if isinstance(found, Path):
            candidates += inspect_candidates(found)
        else:
            rows.append({"absent": found})
        found = environment(peers, "agentinputlab", "agentinputlab==0.1.0a4", "psutil")
        if isinstance(found, Path):
            candidates.append(neighbour_candidate(found, peers))
            rows += [
                {"round the lock of agentinputlab": way, "accepted": way_in(found, at)}
                for way, way_in in BYPASSES.items()
                for at in (peers / "bypass",)
            ]
        else:
            rows.append({"absent": found})
    measured: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for one in candidates:
            measured.setdefault(one.name, []).append(one.per_cell())
    return [
        *(
            {
                "what": name,
                "ms_per_cell": round(statistics.median(w for w, _ in values), 2),
                "from": round(min(values)[0], 2),
                "to": round(max(values)[0], 2),
                "cpu_ms_per_cell": round(statistics.median(c for _, c in values), 2),
            }
            for name, values in measured.items()
        ),
        *rows,
    ]


def ours(mode: str, cells: int) -> float:
    """Time cells of ours in a process of its own."""
    return float(in_child("cells", str(cells), mode))


def in_child(function: str, *words: str) -> Any:  # what the child printed
    """Measure in a process of its own: peak memory is a process's."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", function, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def child(function: str, words: list[str]) -> None:
    """Run one measurement and print it as JSON."""
    pins = pin_host()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        result: object
        if function == "bookkeeping":
            result = bookkeeping(place, int(words[0]), pins)
        else:
            result = per_cell(place, int(words[0]), words[1], pins)
    print(json.dumps(result))


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__ or ""))
    parser.add_argument("--cells", default="1000,10000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peers", type=Path, help="keep the peers' environments here")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], options.child[1:])
        return
    with tempfile.TemporaryDirectory(prefix="lazycore-peers-") as temporary:
        place = (options.peers or Path(temporary)).resolve()
        rows = compare_cells(options.rounds, None if options.no_peers else place)
    rows += [in_child("bookkeeping", cells) for cells in options.cells.split(",")]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()

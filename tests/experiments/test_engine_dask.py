"""On a real scheduler and workers over TCP a study ends as it does here."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("distributed", reason="distributed is not installed")

from lazycore.experiments import ArtifactError, load_run, run_study, verify_run
from lazycore.experiments._engine_dask import DaskEngine
from lazycore.experiments._journal import read_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazycore.experiments import StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]

pytestmark = [
    pytest.mark.slow,
    # The client's own loops and sockets end after the test that made them.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class Cluster:
    """A scheduler and workers in processes of their own, on loopback."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self._scheduler = self._start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(file),
        )
        for _ in range(600):
            if file.exists() and file.stat().st_size:
                break
            time.sleep(0.05)
        import json

        self.address = str(json.loads(file.read_text())["address"])

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def add_worker(self) -> None:
        self.workers.append(
            self._start(
                "worker",
                self.address,
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
                "--host",
                "127.0.0.1",
                "--local-directory",
                str(self._folder),
            )
        )

    def close(self) -> None:
        for process in [*self.workers, self._scheduler]:
            process.send_signal(signal.SIGTERM)
        for process in [*self.workers, self._scheduler]:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "dask"
    folder.mkdir()
    made = Cluster(folder)
    made.add_worker()
    made.add_worker()
    yield made
    made.close()


class KillOne:
    """An observer that kills one dask worker after a few cells."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._killed = False

    def started(self, **_: object) -> None:
        pass

    def cell_finished(self, *, finished: int, **_: Any) -> None:
        if finished >= 5 and not self._killed:
            self._killed = True
            os.kill(self._cluster.workers[0].pid, signal.SIGKILL)
            self._cluster.add_worker()

    def closed(self) -> None:
        pass


@pytest.mark.parametrize("mode", ["fresh", "fork"])
def test_a_killed_dask_worker_costs_no_cell_and_changes_no_result(
    mode: str, cluster: Cluster, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    lock = make_lock(
        write_study(
            "return {'score': request.stream(request.unit).random()}",
            units=[f"u{index:02}" for index in range(40)],
            mode=mode,
        )
    )
    here = run_study(lock, tmp_path / "here")
    there = run_study(
        lock,
        tmp_path / "there",
        engine=DaskEngine(cluster.address),
        observer=KillOne(cluster),
    )
    assert there.complete
    assert there.failed_cells == 0
    assert there.results_digest == here.results_digest
    assert len({row.cell for row in there.rows}) == 40
    assert there.provenance["engine"] == "dask"
    assert verify_run(there.path).findings == ()
    assert load_run(there.path).sessions == 1


COORDINATOR = """\
import dataclasses, sys
from pathlib import Path
from lazycore.experiments import DaskEngine, StudyLock, run_study
lock = dataclasses.replace(StudyLock.read(Path(sys.argv[1])), source=Path(sys.argv[2]))
run_study(lock, sys.argv[3], engine=DaskEngine(sys.argv[4]))
"""
BODY = """\
import time; time.sleep(0.05)
return {'score': request.stream(request.unit).random()}
"""
RETRIES = "[retries]\nattempts = 9\nclasses = ['infrastructure', 'crash', 'protocol']"


def children(pid: int) -> list[int]:
    """Return the processes below one, all levels; any thread may have made them."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:
            continue
    return [one for child in found for one in (child, *children(child))]


def kill(pid: int) -> int:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


def cells(run: Path) -> list[str]:
    path = run / "journal.jsonl"
    if not path.exists():
        return []
    records = read_journal(path, torn_tail=True)
    return [record.body["cell"] for record in records if record.type == "cell"]


def test_random_kills_on_a_cluster_lose_and_double_nothing(
    cluster: Cluster, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    points = int(os.environ.get("LAZYCORE_KILL_POINTS", "24")) // 4
    choose = random.Random("kill points dask")
    units = [f"u{index:02}" for index in range(60)]
    lock = make_lock(write_study(BODY, units=units, mode="fork", extra=RETRIES))
    expected = run_study(lock, tmp_path / "whole").results_digest
    saved = tmp_path / "saved.lock.json"
    saved.write_bytes(lock.data)
    hits: Counter[str] = Counter()
    rounds = 0
    while hits.total() < points:
        run = tmp_path / f"run{rounds}"
        rounds += 1
        known: list[str] = []
        words = [str(saved), str(tmp_path / "study"), str(run), cluster.address]
        while True:
            process = subprocess.Popen(
                [sys.executable, "-c", COORDINATOR, *words],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            with process:
                time.sleep(choose.uniform(2.0, 6.0))
                while hits.total() < points and process.poll() is None:
                    kinds = ["coordinator", "dask worker", *["sandbox"] * 3]
                    what = choose.choice(kinds)
                    worker = choose.choice(cluster.workers)
                    if what == "coordinator":
                        hits[what] += kill(process.pid)
                        break
                    if what == "dask worker":
                        hits[what] += kill(worker.pid)
                        worker.wait()
                        cluster.workers.remove(worker)
                        cluster.add_worker()
                    elif below := children(worker.pid):
                        hits[what] += kill(choose.choice(below))
                    time.sleep(choose.uniform(0.2, 1.5))
            now = cells(run)
            assert len(set(now)) == len(now), "a cell is doubled"
            assert now[: len(known)] == known, "a finished cell was lost"
            known = now
            if process.returncode == 0:
                break
        record = load_run(run)
        assert record.complete
        assert record.failed_cells == 0
        assert record.results_digest == expected
        assert verify_run(run).findings == ()
    print(f"dask: {dict(hits)} in {rounds} runs")


def test_a_host_that_differs_from_the_lock_is_refused(
    cluster: Cluster, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    import dataclasses

    from lazycore.experiments import StudyLock
    from lazycore.experiments._canonical import canonical
    from lazycore.experiments._frozen import thaw

    lock = make_lock(write_study(units=["u"]))
    document = thaw(lock.document)
    document["sdk"]["_worker.py"] = "0" * 64
    other = StudyLock.from_bytes(canonical(document))
    other = dataclasses.replace(other, source=lock.source)
    with pytest.raises(ArtifactError, match=r"refused: sdk-drift: the worker SDK"):
        run_study(other, tmp_path / "run", engine=DaskEngine(cluster.address))


def test_no_scheduler_is_told(tmp_path: Path) -> None:
    del tmp_path
    with pytest.raises(ArtifactError, match="no scheduler with a worker"):
        DaskEngine("tcp://127.0.0.1:9", timeout_s=1)

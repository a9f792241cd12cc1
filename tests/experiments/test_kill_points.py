"""Whatever is killed, whenever: no finished cell is lost or doubled, no result moves.

``LAZYCORE_KILL_POINTS`` sets how many processes are killed (500 for a release): a
quarter of them under each mode here, a quarter on a Dask cluster in its own tests.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import load_run, run_study, verify_run
from lazycore.experiments._journal import read_journal

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]

COORDINATOR = """\
import dataclasses, sys
from pathlib import Path
from lazycore.experiments import StudyLock, run_study
lock = dataclasses.replace(StudyLock.read(Path(sys.argv[1])), source=Path(sys.argv[2]))
run_study(lock, sys.argv[3], slots=2)
"""
RETRIES = "[retries]\nattempts = 9\nclasses = ['infrastructure', 'crash', 'protocol']"


def descendants(pid: int) -> dict[int, int]:
    """Return the processes below one and how deep they are, as /proc tells it now.

    In a run of slots the first level is the sandbox's launcher, the second holds warm
    servers and supervisors, the third and those below are workers and what they start.
    """
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found: dict[int, int] = {}
    level, depth = [pid], 0
    while level:
        depth += 1
        level = [child for parent in level for child in parents.get(parent, [])]
        found |= dict.fromkeys(level, depth)
    return found


def kill_below(pid: int, choose: random.Random, hits: Counter[int]) -> bool:
    """Kill one process below another: first a level is drawn, then one of it."""
    below = descendants(pid)
    if not below:
        return False
    depth = choose.choice(sorted(set(below.values())))
    victim = choose.choice([one for one, level in below.items() if level == depth])
    done = kill(victim)
    hits[min(depth, 3)] += done
    return done


def await_workers(process: subprocess.Popen[bytes]) -> None:
    """Wait until a run has processes of its sandbox, a little while at most."""
    for _ in range(60):
        if process.poll() is not None or 2 in descendants(process.pid).values():
            return
        time.sleep(0.05)


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def finished(run: Path) -> list[str]:
    """Return the cells of a journal, doubled ones twice."""
    path = run / "journal.jsonl"
    if not path.exists():
        return []
    records = read_journal(path, torn_tail=True)
    return [record.body["cell"] for record in records if record.type == "cell"]


class KillOften:
    """An observer that kills a sandbox process after most cells."""

    def __init__(self, seed: str) -> None:
        self._choose = random.Random(seed)
        self.hits: Counter[int] = Counter()

    def started(self, **_: object) -> None:
        pass

    def cell_finished(self, **_: object) -> None:
        if self._choose.random() < 0.7:
            kill_below(os.getpid(), self._choose, self.hits)

    def closed(self) -> None:
        pass


# Long enough that a worker is there to be killed.
BODY = """\
import time; time.sleep(0.02)
return {'score': request.stream(request.unit).random()}
"""


@pytest.mark.once
@pytest.mark.parametrize("mode", ["fork", "session"])
def test_killed_servers_and_workers_cost_no_cell(
    mode: str, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    units = [f"u{index}" for index in range(8)]
    lock = make_lock(write_study(BODY, units=units, mode=mode, extra=RETRIES))
    kills = KillOften(f"few {mode}")
    record = run_study(lock, tmp_path / "run", slots=2, observer=kills)
    assert sum(kills.hits.values()) >= 3
    assert record.complete
    assert record.failed_cells == 0
    assert verify_run(record.path).findings == ()
    expected = run_study(lock, tmp_path / "whole", slots=2).results_digest
    assert record.results_digest == expected


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fresh", "fork", "session"])
def test_random_kills_lose_and_double_nothing(
    mode: str, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    points = int(os.environ.get("LAZYCORE_KILL_POINTS", "24")) // 4
    choose = random.Random(f"kill points {mode}")
    lock = make_lock(
        write_study(
            BODY,
            units=[f"u{index:03}" for index in range(120)],
            mode=mode,
            extra=RETRIES,
        )
    )
    expected = run_study(lock, tmp_path / "whole").results_digest
    saved = tmp_path / "saved.lock.json"
    saved.write_bytes(lock.data)
    kills = rounds = 0
    hits: Counter[int] = Counter()
    while kills < points:
        run = tmp_path / f"run{rounds}"
        rounds += 1
        known: list[str] = []
        while True:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    COORDINATOR,
                    str(saved),
                    str(tmp_path / "study"),
                    str(run),
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            with process:
                if choose.random() < 0.5:  # anywhere, its start included
                    time.sleep(choose.uniform(0.2, 1.2))
                else:
                    await_workers(process)
                while kills < points and choose.random() < 0.7:
                    kills += kill_below(process.pid, choose, hits)
                    time.sleep(choose.uniform(0.0, 0.3))
                if kills < points and process.poll() is None:
                    kills += kill(process.pid)
            now = finished(run)
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
    print(f"{mode}: {kills} kills in {rounds} runs; below the coordinator {hits}")
    if points >= 50:
        assert {1, 2} <= hits.keys()

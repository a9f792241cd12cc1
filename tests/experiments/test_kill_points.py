"""Whatever is killed, whenever: no finished cell is lost or doubled, no result moves.

``LAZYCORE_KILL_POINTS`` sets how many processes are killed (500 for a release).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
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

pytestmark = pytest.mark.slow

COORDINATOR = """\
import dataclasses, sys
from pathlib import Path
from lazycore.experiments import StudyLock, run_study
lock = dataclasses.replace(StudyLock.read(Path(sys.argv[1])), source=Path(sys.argv[2]))
run_study(lock, sys.argv[3], slots=2)
"""
RETRIES = "[retries]\nattempts = 9\nclasses = ['infrastructure', 'crash', 'protocol']"


def descendants(pid: int) -> list[int]:
    """Return the processes below one, as /proc tells it now."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


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


@pytest.mark.parametrize("mode", ["fresh", "fork"])
def test_random_kills_lose_and_double_nothing(
    mode: str, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    points = int(os.environ.get("LAZYCORE_KILL_POINTS", "24")) // 2
    choose = random.Random(f"kill points {mode}")
    lock = make_lock(
        write_study(
            "return {'score': request.stream(request.unit).random()}",
            units=[f"u{index:03}" for index in range(120)],
            mode=mode,
            extra=RETRIES,
        )
    )
    expected = run_study(lock, tmp_path / "whole").results_digest
    saved = tmp_path / "saved.lock.json"
    saved.write_bytes(lock.data)
    kills = rounds = 0
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
                time.sleep(choose.uniform(0.2, 1.2))
                below = descendants(process.pid)
                if kills < points and choose.random() < 0.4 and below:
                    kills += kill(choose.choice(below))
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

"""A run that meets a full disk stops, says so, and continues once there is space."""

from __future__ import annotations

import os
import resource
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import load_run, run_study, verify_run
from lazycore.experiments._cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lazycore.experiments import HostPins, StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]
    Capture = pytest.CaptureFixture[str]

pytestmark = [pytest.mark.usefixtures("one_sandbox"), pytest.mark.once]

# A cell takes 80 kB, in its record or in blobs: the places below hold one of two.
BODY = """\
def kept(unit):
    return [unit, request.parameters['gain'], 'x' * {size}]
score = {{'score': request.parameters['gain']}}
if not request.block:
    return Reply(score, output=kept(request.unit))
return Reply(units={{u: Reply(score, output=kept(u)) for u in request.units}})
"""
ROOM = 120_000
IN_RECORDS = (8_000, 5)
IN_BLOBS = (40_000, 1)
# The digest of a run that had all the space it wanted, made once for each.
WHOLE: dict[str, str] = {}


@pytest.fixture
def lock(
    write_study: Write, make_lock: Make, request: pytest.FixtureRequest
) -> StudyLock:
    size, block = getattr(request, "param", IN_RECORDS)
    units = [f"u{i}" for i in range(2 * block)]
    return make_lock(write_study(BODY.format(size=size), units=units, block=block))


@pytest.fixture(autouse=True)
def quick_pins(monkeypatch: pytest.MonkeyPatch, pins: HostPins) -> None:
    monkeypatch.setattr("lazycore.experiments._lock.pin_host", lambda **_: pins)


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """Mount a disk that is nearly full; what fills it is the file `filler`."""
    place.mkdir()
    size = 1 << 20
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    subprocess.run(mount, check=True, timeout=30)
    try:
        (place / "filler").write_bytes(b"-" * (size - ROOM - 40_000))
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True, timeout=30)


def assert_whole(run: Path, lock: StudyLock) -> None:
    """Check that a run equals one that had all the space it wanted."""
    record = load_run(run)
    assert record.lock_digest == lock.digest
    assert verify_run(run).findings == ()
    if lock.digest not in WHOLE:
        whole = run_study(lock, run.with_name("whole"))
        WHOLE[lock.digest] = whole.results_digest
    assert record.results_digest == WHOLE[lock.digest]


def stopped(run: Path) -> None:
    """Check that what was finished is there, whole, and nothing else."""
    before = load_run(run)
    assert not before.complete
    assert before.finished_cells == 1
    assert (run / "journal.jsonl").read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    "lock", [IN_RECORDS, IN_BLOBS], ids=["in records", "in blobs"], indirect=True
)
def test_a_full_disk_is_told_and_the_run_continues_after_it(
    lock: StudyLock, tmp_path: Path, capsys: Capture
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk of its own")
    with small_disk(tmp_path / "disk") as disk:
        words = ["run", str(tmp_path / "study" / "study.toml")]
        words += ["--output", str(disk / "run"), "--slots", "1"]
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "free some space, then the same command continues" in said
        stopped(disk / "run")
        assert main(words) == 2  # nothing was freed
        assert "free some space" in capsys.readouterr().err
        (disk / "filler").unlink()
        assert main(words) == 0
        assert_whole(disk / "run", lock)


def test_a_file_size_limit_is_told_and_the_run_continues_without_it(
    lock: StudyLock, tmp_path: Path, capsys: Capture
) -> None:
    run = tmp_path / "run"
    words = ["run", str(tmp_path / "study" / "study.toml")]
    words += ["--output", str(run), "--slots", "1"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, limits[1]))
    try:
        assert main(words) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = capsys.readouterr().err
    assert "raise the file size limit, then the same command continues" in said
    stopped(run)
    assert main(words) == 0
    assert_whole(run, lock)

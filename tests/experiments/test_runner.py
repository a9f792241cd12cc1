"""A study runs in the sandbox, survives its worst workers, and can be continued."""

from __future__ import annotations

import importlib.util
import json
import os
import py_compile
import signal
import subprocess
import sys
import textwrap
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import (
    ArtifactError,
    BlockedError,
    RunBusyError,
    load_run,
    run_study,
    verify_run,
)
from lazycore.experiments._journal import Journal, holder

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import RunRecord, StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]
    Run = Callable[..., RunRecord]

pytestmark = pytest.mark.usefixtures("one_sandbox")


def classes(record: RunRecord) -> dict[str, str | None]:
    """Return unit and arm to failure class."""
    return {f"{row.unit}/{row.arm}": row.failure_class for row in record.rows}


def test_a_study_runs_every_arm_on_every_unit_and_seed(run_body: Run) -> None:
    record = run_body(
        "return {'score': request.seed + 10 * request.parameters['gain']}",
        units=["u0", "u1"],
        seeds=[1, 2],
    )
    assert record.complete
    assert record.finished_cells == record.planned_cells == 4
    assert record.failed_cells == 0
    values = {(row.unit, row.seed, row.arm): row.value for row in record.rows}
    assert values == {
        (unit, seed, arm): seed + (10.0 if arm == "candidate" else 0.0)
        for unit in ("u0", "u1")
        for seed in (1, 2)
        for arm in ("no_op", "candidate")
    }
    assert verify_run(record.path).findings == ()


# Each process tells its own CPU time at its end; together they are the truth.
BURN = """\
import os, time
def burn(seconds):
    while time.process_time() < seconds:
        sum(range(10_000))
    return time.process_time()
if request.arm == "no_op":
    return {"score": 0.0}
away, near = os.pipe()
if os.fork() == 0:
    os.write(near, b"%r\\n" % burn(0.15))
    os._exit(0)
middle = os.fork()
if middle == 0:
    if os.fork() == 0:  # its parent does not wait for it
        os.setsid()
        os.write(near, b"%r\\n" % burn(0.15))
    os._exit(0)
os.waitpid(middle, 0)
os.close(near)
with open(away, "rb") as told:
    others = sum(map(float, told))
return {"score": others + burn(0.2)}
"""


@pytest.mark.parametrize("mode", ["fresh", "fork"])
@pytest.mark.once
def test_cpu_time_is_the_truth_with_children_and_orphans(
    mode: str, run_body: Run
) -> None:
    rows = {row.arm: row for row in run_body(BURN, units=["u"], mode=mode).rows}
    row = rows["candidate"]
    truth = row.value
    assert truth is not None
    assert truth > 0.5
    assert row.cpu_s == pytest.approx(truth, rel=0.05)
    assert row.wall_s is not None
    assert row.wall_s > 0
    assert row.max_rss_bytes is not None
    assert row.max_rss_bytes > 2**20


CHANNEL = """\
import os
fd = os.environ.get('LAZYCORE_REPLY_FD') or os.open(os.environ['LAZYCORE_REPLIES'], 1)
fd = int(fd)
"""
BAD_UNITS: dict[str, tuple[str, str]] = {
    "crash": ("raise RuntimeError('boom')", "crash"),
    "exit": ("import os; os._exit(3)", "crash"),
    "signal": ("import os; os.kill(os.getpid(), 9)", "crash"),
    "hang": ("import time; time.sleep(60)", "timeout"),
    "deaf": (
        "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)",
        "timeout",
    ),
    "nan": ("return {'score': float('nan')}", "protocol"),
    "silent": ("raise SystemExit", "protocol"),
    "garbage": (
        f"{CHANNEL}os.write(fd, b'\\xff{{'); raise SystemExit",
        "protocol",
    ),
    "doubled": (
        (
            f'{CHANNEL}text = b\'{{"status": "succeeded", "status": "failed"}}\\n\'\n'
            "os.write(fd, text); raise SystemExit"
        ),
        "protocol",
    ),
    "deep": (
        "v = []\nfor _ in range(200): v = [v]\nreturn Reply({'score': 1}, output=v)",
        "protocol",
    ),
    "honest": ("raise AlgorithmFailure('no-answer', 'gave up')", "algorithm"),
}


# In a fork the descriptor carries the sandbox's own frame, so garbage breaks that, and
# to leave by SystemExit is to hand no value back.
IN_A_FORK = {"silent": "crash", "garbage": "protocol", "doubled": "protocol"}
# Unit to what its candidate and its baseline do; two failing arms share a cell.
PAIRS = {
    "good": (None, None),
    "half": ("crash", None),
    "ends": ("exit", "signal"),
    "late": ("hang", "deaf"),
    "words": ("nan", "deep"),
    "wire": ("silent", "garbage"),
    "twice": ("doubled", "honest"),
    "quiet": ("honest", None),
}


@pytest.mark.parametrize("mode", ["fresh", "fork", "session"])
@pytest.mark.once
def test_one_bad_unit_never_ends_a_study(mode: str, run_body: Run) -> None:
    assert {kind for pair in PAIRS.values() for kind in pair if kind} == {*BAD_UNITS}
    branches = [
        f"if (request.unit, request.arm) == {(unit, arm)!r}:\n"
        + textwrap.indent(BAD_UNITS[kind][0], "    ")
        for unit, pair in PAIRS.items()
        for arm, kind in zip(("candidate", "no_op"), pair, strict=True)
        if kind is not None
    ]
    body = "\n".join([*branches, "return {'score': 1}"])
    record = run_body(body, units=[*PAIRS], timeout=1.5, mode=mode)
    assert record.complete
    expected = {kind: failure for kind, (_, failure) in BAD_UNITS.items()}
    if mode == "fork":
        expected |= IN_A_FORK
    assert classes(record) == {
        f"{unit}/{arm}": expected[kind] if kind else None
        for unit, pair in PAIRS.items()
        for arm, kind in zip(("candidate", "no_op"), pair, strict=True)
    }
    # What the method itself reports is a result, not a fault of the cell.
    assert record.failed_cells == len(PAIRS) - 2
    messages = {(row.units[0], row.arm): row.message for row in record.failures}
    assert "RuntimeError: boom" in messages["half", "candidate"]
    nan = messages["words", "candidate"]
    assert "score" in nan or "NaN" in nan
    if mode != "fork":
        assert "duplicate key" in messages["twice", "candidate"]
    assert verify_run(record.path).findings == ()


def test_a_log_line_on_stdout_harms_nothing(run_body: Run) -> None:
    record = run_body("print('{}' * 100_000); return {'score': 1}", units=["u"])
    assert record.failed_cells == 0


@pytest.mark.once
def test_the_worker_sees_neither_network_nor_the_study_folder(run_body: Run) -> None:
    record = run_body(
        """\
import os, socket
try:
    socket.create_connection(("127.0.0.1", 9), 1)
    network = 1
except ConnectionRefusedError:
    network = 0  # a private loopback answers with a refusal, too
except OSError:
    network = 0
host = os.path.exists(os.path.join(os.path.dirname(os.getcwd()), "journal.jsonl"))
try:
    open(__file__, "a")
    writable = 1
except OSError:
    writable = 0
return {"score": network + 2 * host + 4 * writable}
""",
        units=["u"],
    )
    assert {row.value for row in record.rows} == {0.0}


def test_a_retried_class_is_tried_again_and_every_attempt_is_kept(
    run_body: Run,
) -> None:
    record = run_body(
        "raise RuntimeError('again')",
        units=["u"],
        extra="[retries]\nattempts = 2\nclasses = ['crash']",
    )
    assert [row.attempt for row in record.rows] == [2, 2]
    assert sorted((row.attempt, row.final) for row in record.failures) == [
        (1, False),
        (1, False),
        (2, True),
        (2, True),
    ]


def test_a_block_answers_per_unit_and_one_unit_may_fail(run_body: Run) -> None:
    record = run_body(
        """\
return Reply(units={
    unit: AlgorithmFailure("odd") if unit == "u1" else Reply({"score": 2}, output=unit)
    for unit in request.units
})
""",
        units=["u0", "u1", "u2"],
        block=2,
    )
    assert record.planned_cells == 2
    assert {row.unit: row.value for row in record.rows} == {
        "u0": 2.0,
        "u1": None,
        "u2": 2.0,
    }
    assert classes(record)["u1/no_op"] == "algorithm"
    cell = record.rows[0].cell
    assert record.output(cell, "no_op", "u0") == "u0"
    assert set(record.order(cell)) == {"no_op", "candidate"}


@pytest.mark.once
def test_a_passed_secret_in_the_answer_fails_that_attempt_only(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    body = """\
import base64, os, sys
secret = os.environ["API_TOKEN"]
print("log", secret, file=sys.stderr)
if request.unit == "leak":
    return Reply({"score": 1}, output=base64.b64encode(b"x" + secret.encode()).decode())
if request.unit == "crash":
    raise RuntimeError("cannot use " + secret)
return {"score": 1}
"""
    worker = write_study(body, units=["crash", "good", "leak"])
    text = worker.read_text().replace(
        'entrypoint = "worker.py"',
        'entrypoint = "worker.py"\nenvironment = ["API_TOKEN"]',
    )
    worker.write_text(text)
    secret = "correct-horse-battery"
    record = run_study(
        make_lock(worker), tmp_path / "run", environment={"API_TOKEN": secret}
    )
    found = classes(record)
    assert found["leak/no_op"] == "secret"
    assert found["crash/no_op"] == "crash"
    assert found["good/no_op"] is None
    for file in (tmp_path / "run").rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_a_missing_variable_blocks_and_names_it(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    study = write_study()
    study.write_text(
        study.read_text().replace(
            'entrypoint = "worker.py"',
            'entrypoint = "worker.py"\nenvironment = ["API_TOKEN"]',
        )
    )
    with pytest.raises(BlockedError, match="API_TOKEN not set") as caught:
        run_study(make_lock(study), tmp_path / "run", environment={})
    assert [getattr(b, "code", "") for b in caught.value.blockers] == [
        "variable-missing",
        "variable-missing",
    ]


def test_an_edit_between_lock_and_run_is_refused(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    study = write_study()
    lock = make_lock(study)
    (study.parent / "worker.py").write_text("print(99)")
    with pytest.raises(ArtifactError, match="changed since it was locked"):
        run_study(lock, tmp_path / "run")


class EditOnFirstCell:
    """An observer that changes a file as soon as one cell is finished."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text

    def started(self, **_: object) -> None:
        pass

    def cell_finished(self, **_: object) -> None:
        if self._path.read_text() != self._text:
            self._path.chmod(0o644)
            self._path.write_text(self._text)

    def closed(self) -> None:
        pass


def test_an_edit_of_the_study_while_it_runs_changes_nothing(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    study = write_study(units=["u0", "u1"])
    edit = EditOnFirstCell(study.with_name("worker.py"), "raise SystemExit(1)")
    record = run_study(make_lock(study), tmp_path / "run", slots=1, observer=edit)
    assert {row.value for row in record.rows} == {0.0, 1.0}
    assert record.failed_cells == 0


@pytest.mark.once
def test_an_edit_of_the_snapshot_while_the_study_runs_is_found(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    study = write_study(units=["u0", "u1"])
    copy = tmp_path / "run" / "snapshot" / "worker.py"
    edit = EditOnFirstCell(copy, "raise SystemExit(1)")
    with pytest.raises(ArtifactError, match=r"snapshot/worker\.py: .*touched"):
        run_study(make_lock(study), tmp_path / "run", slots=1, observer=edit)
    # The launcher compares the entrypoint's bytes itself: nothing edited ever ran.
    values = {row.value for row in load_run(tmp_path / "run").rows}
    assert values <= {0.0, 1.0, None}


HELPER = "from lazycore.experiments import serve\nimport helper\nserve(helper.score)\n"
SCORE = "def score(request):\n    return {{'score': {value}}}\n"


def plant_bytecode(helper: Path, value: int) -> Path:
    """Put bytecode of other source beside a module, stamped as if it were its own."""
    forged = helper.with_name("forged.py")
    text = SCORE.format(value=value)
    forged.write_text(text + "#" * (helper.stat().st_size - len(text)))
    os.utime(forged, ns=(0, helper.stat().st_mtime_ns))
    cache = Path(importlib.util.cache_from_source(str(helper)))
    py_compile.compile(str(forged), cfile=str(cache), doraise=True)
    forged.unlink()
    # Python itself takes it for the module's own.
    code = SourceFileLoader("helper", str(helper)).get_code("helper")
    assert code is not None
    assert value in code.co_consts[0].co_consts
    return cache


def helper_study(write: Write, mode: str = "fresh") -> Path:
    """Write a study whose worker's answer comes from a module of its tree."""
    study = write(worker=HELPER, units=["u0", "u1"], mode=mode)
    helper = study.with_name("helper.py")
    helper.write_text(SCORE.format(value=1) + "# as long as what may be forged\n")
    return study


def test_forged_bytecode_of_the_study_is_not_run(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    study = helper_study(write_study)
    lock = make_lock(study)
    plant_bytecode(study.with_name("helper.py"), 99)
    assert make_lock(study).digest == lock.digest
    record = run_study(lock, tmp_path / "run")
    assert {row.value for row in record.rows} == {1.0}


class PlantInSnapshot:
    """An observer that adds to the snapshot after the first cell."""

    def __init__(self, plant: Callable[[], object]) -> None:
        self._plant = plant
        self.done = False

    def started(self, **_: object) -> None:
        pass

    def cell_finished(self, **_: object) -> None:
        if not self.done:
            self.done = True
            self._plant()

    def closed(self) -> None:
        pass


def hide_module(snapshot: Path) -> None:
    """Add a package that shadows the standard library's, marked as a run folder."""
    (snapshot / "json").mkdir()
    (snapshot / "json" / "__init__.py").write_text("raise SystemExit")
    (snapshot / "json" / "journal.jsonl").touch()


@pytest.mark.parametrize("kind", ["bytecode", "package"])
@pytest.mark.parametrize("when", ["between sessions", "while it runs"])
@pytest.mark.once
def test_what_is_added_to_the_snapshot_is_found(
    kind: str, when: str, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    lock = make_lock(helper_study(write_study))
    snapshot = tmp_path / "run" / "snapshot"

    def plant() -> None:
        if kind == "bytecode":
            plant_bytecode(snapshot / "helper.py", 99)
        else:
            hide_module(snapshot)

    if when == "while it runs":
        with pytest.raises(ArtifactError, match="touched while the study ran"):
            run_study(lock, tmp_path / "run", slots=1, observer=PlantInSnapshot(plant))
        return
    run_study(lock, tmp_path / "run")
    (tmp_path / "run" / "seal.json").unlink()
    plant()
    with pytest.raises(ArtifactError, match="not the locked tree any more"):
        run_study(lock, tmp_path / "run")


def test_a_run_folder_of_another_study_is_refused_by_name(
    finished: Path, write_study: Write, make_lock: Make
) -> None:
    other = make_lock(write_study("return {'score': 7}", units=["u0", "u1"]))
    with pytest.raises(BlockedError, match=r"tree-drift: worker\.py changed"):
        run_study(other, finished)


def test_a_folder_with_foreign_files_is_refused(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    with pytest.raises(ArtifactError, match="choose an empty or new folder"):
        run_study(make_lock(write_study()), folder)


@pytest.mark.once
def test_a_run_folder_in_use_is_refused_and_its_holder_named(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    lock = make_lock(write_study(units=["u"]))
    with Journal(folder):
        assert holder(folder) == os.getpid()
        with pytest.raises(RunBusyError, match=f"process {os.getpid()} is running"):
            run_study(lock, folder)
    assert holder(folder) is None
    assert run_study(lock, folder).complete


def test_a_finished_run_is_not_run_again(
    finished: Path, make_lock: Make, tmp_path: Path
) -> None:
    lock = make_lock(tmp_path / "study" / "study.toml")
    first = load_run(finished)
    journal = (tmp_path / "run" / "journal.jsonl").read_bytes()
    again = run_study(lock, tmp_path / "run")
    assert again.sessions == 1
    assert again.results_digest == first.results_digest
    assert (tmp_path / "run" / "journal.jsonl").read_bytes() == journal
    assert verify_run(tmp_path / "run").holds


def test_a_run_killed_before_its_seal_is_sealed_by_the_next(
    finished: Path, make_lock: Make, tmp_path: Path
) -> None:
    lock = make_lock(tmp_path / "study" / "study.toml")
    first = load_run(finished)
    (tmp_path / "run" / "seal.json").unlink()
    again = run_study(lock, tmp_path / "run")
    assert again.sessions == 2
    assert again.results_digest == first.results_digest
    assert verify_run(tmp_path / "run").holds


COORDINATOR = """\
import sys
from pathlib import Path
from lazycore.experiments import StudyLock, run_study
import dataclasses
lock = dataclasses.replace(StudyLock.read(Path(sys.argv[1])), source=Path(sys.argv[2]))
record = run_study(lock, sys.argv[3], slots=1)
print(record.reason)
"""


def start_coordinator(
    lock: StudyLock, folder: Path, run: Path
) -> subprocess.Popen[str]:
    """Start a run in a process of its own and wait for its first cells."""
    saved = folder / "saved.lock.json"
    saved.write_bytes(lock.data)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            COORDINATOR,
            str(saved),
            str(folder / "study"),
            str(run),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    journal = run / "journal.jsonl"
    for _ in range(2000):
        if journal.exists() and journal.read_bytes().count(b"\n") >= 2:
            return process
        time.sleep(0.005)
    process.kill()
    process.wait()
    raise AssertionError("the run wrote no cells")


@pytest.mark.once
@pytest.mark.parametrize("mode", ["fresh", "fork", "session"])
def test_a_killed_run_continues_to_the_same_results(
    mode: str, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    units = ["u0", "u1", "u2"]
    lock = make_lock(
        write_study(
            # Long enough that the rest can't finish before the kill.
            "import time; time.sleep(0.1)\n"
            "return {'score': request.stream(request.unit).random()}",
            units=units,
            mode=mode,
        )
    )
    whole = run_study(lock, tmp_path / "whole")
    assert whole.failed_cells == 0
    run = tmp_path / "run"
    process = start_coordinator(lock, tmp_path, run)
    with process:
        process.send_signal(signal.SIGKILL)
    before = load_run(run)
    assert 0 < before.finished_cells < len(units)
    assert before.reason == "running"
    assert not verify_run(run).holds
    after = run_study(lock, run)
    assert after.complete
    assert after.sessions == 2
    assert len({row.cell for row in after.rows}) == len(units)
    # What was in flight was dropped, its attempt with it: nothing counts twice.
    assert {row.attempt for row in after.rows} == {1}
    assert after.failures == ()
    assert after.results_digest == whole.results_digest
    assert [row.value for row in after.rows] == [row.value for row in whole.rows]
    assert verify_run(run).findings == ()


@pytest.mark.once
def test_an_interrupted_run_says_so_and_can_be_continued(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    lock = make_lock(
        write_study(
            "import time; time.sleep(0.2); return {'score': 1}",
            units=[f"u{index:02}" for index in range(40)],
        )
    )
    run = tmp_path / "run"
    process = start_coordinator(lock, tmp_path, run)
    with process:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert output == "interrupted\n"
    assert process.returncode == 0
    record = load_run(run)
    assert record.reason == "interrupted"
    assert 0 < record.finished_cells < 40
    lines = (run / "journal.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["type"] == "end"

"""A session's process answers many requests; what that gives up is found and told."""

from __future__ import annotations

import io
import json
import tempfile
import time
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.experiments import (
    StudyError,
    compare_run,
    run_study,
    verify_run,
    write_report,
)
from lazycore.experiments._classify import WarmStartError
from lazycore.experiments._journal import Journal
from lazycore.experiments._scrap import remove_tree
from lazycore.experiments._start_record import StartRecord
from lazycore.experiments._summary import print_verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import RunRecord, StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]
    Run = Callable[..., RunRecord]

pytestmark = [pytest.mark.usefixtures("one_sandbox"), pytest.mark.once]

UNITS = ["u0", "u1", "u2"]
# A name of this very process (each has a namespace, so ids repeat), and the arms of
# the requests that it has seen.
COUNT = """\
import os
name = globals().setdefault("name", os.urandom(8).hex())
seen = globals().setdefault("seen", [])
seen.append(request.arm)
return Reply({"score": SCORE}, output=[name, *seen])
"""


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def study_lock(
    write: Write, make: Make, body: str = COUNT, *, score: str = "1", **options: object
) -> StudyLock:
    options = {"units": UNITS, "mode": "session", **options}
    return make(write(body.replace("SCORE", score), **options))


def outputs(record: RunRecord) -> list[Any]:
    """Return what the workers kept, in the order of the plan; of failures nothing."""
    rows = [row for row in record.rows if row.value is not None]
    return [record.output(row.cell, row.arm, row.unit) for row in rows]


def test_one_process_per_arm_answers_every_request_of_a_slot(
    write_study: Write, make_lock: Make, tmp_path: Path, own_temporary_folder: Path
) -> None:
    record = run_study(study_lock(write_study, make_lock), tmp_path / "run", slots=1)
    assert record.failed_cells == 0
    kept = outputs(record)
    assert len({name for name, *_ in kept}) == 2
    # An arm finds what its earlier requests left, never what the other arm left.
    assert sorted(len(seen) for _, *seen in kept) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(seen)) == 1 for _, *seen in kept)
    assert record.order_check is not None
    assert dict(record.order_check) | {"elapsed_s": 0} == {
        "checked": 3,
        "differing": (),
        "failed": (),
        "elapsed_s": 0,
    }
    assert record.provenance["mode"] == "session"
    used = record.rows[0]
    assert used.wall_s is not None
    assert (used.cpu_s, used.max_rss_bytes) == (None, None)
    assert verify_run(record.path).findings == ()
    # The caches of the bytecode are made once and stay for later runs.
    caches = set(own_temporary_folder.glob("lazycore-bytecode-*"))
    assert set(own_temporary_folder.iterdir()) == caches


def test_answers_that_hang_on_earlier_ones_are_found_and_told(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    lock = study_lock(write_study, make_lock, score="len(seen)")
    record = run_study(lock, tmp_path / "run", slots=1)
    check = record.order_check
    assert check is not None
    assert check["checked"] == 3
    # The middle one of three is the second either way.
    assert len(check["differing"]) == 2
    said = io.StringIO()
    print_verdict(record, compare_run(record), said)
    text = "3 cells asked again in the opposite order: 2 answered otherwise"
    assert text in said.getvalue()
    write_report(record, tmp_path / "report.html")
    assert text in (tmp_path / "report.html").read_text()
    assert verify_run(record.path).findings == ()


def test_a_run_killed_before_its_order_was_checked_checks_it_when_continued(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    lock = study_lock(write_study, make_lock)
    run = tmp_path / "run"
    run_study(lock, run, slots=1)
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds == ["session", "cell", "cell", "cell", "order", "end"]
    (run / "journal.jsonl").write_bytes(b"".join(lines[:4]))
    again = run_study(lock, run, slots=1)
    assert again.sessions == 2
    assert again.order_check is not None
    assert verify_run(run).findings == ()
    # Sealed with its check: nothing is asked a third time.
    assert run_study(lock, run, slots=1).sessions == 2


def test_an_order_record_about_other_cells_is_found(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    lock = study_lock(write_study, make_lock)
    run = tmp_path / "run"
    run_study(lock, run, slots=1)
    body = {"checked": 2, "differing": [], "failed": [], "elapsed_s": 0.5}
    with Journal(run) as journal:
        journal.append("order", body)
    findings = verify_run(run).findings
    assert any("asked other cells again" in text for text in findings)


def test_a_failed_attempt_takes_its_process_with_it(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    body = "if request.unit == 'u1':\n    raise ValueError('u1')\n" + COUNT
    record = run_study(
        study_lock(write_study, make_lock, body), tmp_path / "run", slots=1
    )
    assert {row.units for row in record.failures} == {("u1",)}
    assert {row.failure_class for row in record.failures} == {"crash"}
    assert "ValueError: u1" in record.failures[0].message
    kept = outputs(record)
    assert len({name for name, *_ in kept}) == 4
    assert {len(seen) for _, *seen in kept} == {1}


TWICE = """\
import os
fd = os.open(os.environ["LAZYCORE_REPLIES"], os.O_WRONLY)
if request.unit == "u1":
    os.write(fd, b"{}\\n{}\\n")
return {"score": 1}
"""
NEST = """\
import os
home = os.path.dirname(os.environ["LAZYCORE_REPLIES"])
os.unlink(os.environ["LAZYCORE_REPLIES"])
os.symlink("/etc/passwd", os.environ["LAZYCORE_REPLIES"])
os.chdir(home)
for _ in range(1100 if request.arm == "candidate" else 0):
    os.mkdir("d")
    os.chdir("d")
return {"score": 1}
"""


def test_a_worker_that_says_more_than_it_was_asked_fails_by_itself(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    lock = study_lock(write_study, make_lock, TWICE)
    record = run_study(lock, tmp_path / "run", slots=1)
    failed = {row.unit: row.failure_class for row in record.rows}
    assert failed == {"u0": None, "u1": "protocol", "u2": None}


def test_what_a_worker_does_to_its_pipes_harms_nobody(
    write_study: Write, make_lock: Make, tmp_path: Path, own_temporary_folder: Path
) -> None:
    lock = study_lock(write_study, make_lock, NEST, units=["u0"])
    record = run_study(lock, tmp_path / "run", slots=1)
    assert record.failed_cells == 0
    # The caches of the bytecode are made once and stay for later runs.
    caches = set(own_temporary_folder.glob("lazycore-bytecode-*"))
    assert set(own_temporary_folder.iterdir()) == caches


def test_an_answer_and_a_request_may_be_longer_than_a_pipe_holds(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    body = "return Reply({'score': 1}, output=request.parameters['text'])"
    long = "x" * 300_000
    lock = study_lock(
        write_study, make_lock, body, extra=f'[parameters]\ntext = "{long}"'
    )
    record = run_study(lock, tmp_path / "run", slots=1)
    assert {str(found) for found in outputs(record)} == {long}


def test_an_answer_over_its_limit_is_told(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    body = "return Reply({'score': 1}, output='x' * 300_000)"
    lock = study_lock(
        write_study, make_lock, body, units=["u"], extra="response_bytes = 100000"
    )
    record = run_study(lock, tmp_path / "run", slots=1)
    assert {row.failure_class for row in record.failures} == {"protocol"}
    assert "over response_bytes" in record.failures[0].message


SHELL = """\
exec 8<"$LAZYCORE_REQUESTS" 9>"$LAZYCORE_REPLIES"
echo GREETING >&9
n=0
while read -r request <&8; do
  n=$((n + 1))
  hash=$(printf '%s' "$request" | sed 's/.*"request_hash":"\\([0-9a-f]*\\)".*/\\1/')
  printf '{"schema_version":1,"protocol":"lazycore-experiments/worker/1",' >&9
  printf '"request_hash":"%s","status":"succeeded","metrics":{"score":1},' "$hash" >&9
  printf '"usage":{},"output":%s,"failure":null,"units":null}\\n' "$n" >&9
done
"""


@pytest.mark.parametrize("greeting", ["ready", "hello"])
def test_a_worker_in_another_language_converses(
    greeting: str, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    source = SHELL.replace("GREETING", greeting)
    study = write_study(worker=source, units=UNITS, mode="session")
    head = 'entrypoint = "worker.py"'
    text = study.read_text().replace(head, f'{head}\ninterpreter = "sh"')
    study.write_text(text)
    record = run_study(make_lock(study), tmp_path / "run", slots=1)
    if greeting == "ready":
        assert {row.value for row in record.rows} == {1.0}, record.failures
        counts = sorted(map(str, outputs(record)))
        assert counts == ["1", "1", "2", "2", "3", "3"]
    else:
        assert {row.failure_class for row in record.failures} == {"crash"}
        assert "first line was not 'ready'" in record.failures[0].message


def test_a_limit_that_the_mode_cannot_hold_is_refused(
    write_study: Write, make_lock: Make
) -> None:
    with pytest.raises(StudyError, match="no CPU time of one request"):
        make_lock(write_study(mode="session", extra="cpu_s = 3"))


SLOW_LOAD = """\
import time
from lazycore.experiments import serve


def wait():
    while time.time() < READY_AT:
        time.sleep(0.01)


serve(lambda request: {"score": 1}, prepare=wait)
"""
PATIENT = "[retries]\nattempts = 9\nclasses = ['infrastructure']"


@pytest.mark.parametrize("mode", ["fork", "session"])
def test_a_process_that_is_not_ready_in_time_is_started_again(
    mode: str, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    source = SLOW_LOAD.replace("READY_AT", str(time.time() + 2.5))
    lock = make_lock(
        write_study(worker=source, units=["u"], mode=mode, timeout=1.2, extra=PATIENT)
    )
    record = run_study(lock, tmp_path / "run", slots=1)
    assert {row.value for row in record.rows} == {1.0}
    assert {row.failure_class for row in record.failures} == {"infrastructure"}
    assert "not ready within 1.2 s" in record.failures[0].message


@pytest.mark.parametrize("mode", ["fork", "session"])
def test_a_worker_that_is_never_ready_is_given_up(
    mode: str, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    source = SLOW_LOAD.replace("READY_AT", "float('inf')")
    lock = make_lock(
        write_study(worker=source, units=UNITS, mode=mode, timeout=0.2, extra=PATIENT)
    )
    began = time.monotonic()
    record = run_study(lock, tmp_path / "run", slots=1)
    assert time.monotonic() - began < 60
    assert record.complete
    finals = {row.failure_class for row in record.failures if row.final}
    assert finals == {"crash"}
    assert any("not ready once in 5 starts" in row.message for row in record.failures)


def test_a_start_that_is_late_is_forgiven_once_another_was_in_time() -> None:
    starts = StartRecord()
    starts.late("a", TimeoutError("late"))
    starts.ready("a")
    for _ in range(50):
        starts.late("a", TimeoutError("late"))
    starts.require_hope("a")
    for _ in range(2):
        starts.failed("a", ImportError("no module"))
    with pytest.raises(WarmStartError, match="no module"):
        starts.require_hope("a")
    starts.require_hope("b")


def test_a_folder_of_any_depth_is_removed_and_no_link_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(outside)
    (root / "shut").mkdir()
    (root / "shut" / "file").touch()
    (root / "shut").chmod(0)
    remove_tree(root)
    assert not root.exists()
    assert (outside / "kept").exists()

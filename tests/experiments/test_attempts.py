"""Every attempt is in the journal once, also those of a session that was killed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import load_run, run_study, verify_run
from lazycore.experiments._journal import Journal, read_journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]

pytestmark = pytest.mark.usefixtures("one_sandbox")

AGAIN = "raise RuntimeError('again')"


@pytest.mark.once
def test_attempts_of_a_killed_session_are_counted_on(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    extra = "[retries]\nattempts = 3\nclasses = ['crash']"
    lock = make_lock(write_study(AGAIN, units=["u"], extra=extra))
    run = tmp_path / "run"
    run_study(lock, run, slots=1)
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds == ["session", *["attempt"] * 4, "cell", "end"]
    # Killed after it wrote the first arm's attempts and one of the second's.
    (run / "journal.jsonl").write_bytes(b"".join(lines[:4]))
    (run / "seal.json").unlink()
    again = run_study(lock, run, slots=1)
    assert verify_run(run).findings == ()
    assert {row.attempt for row in again.rows} == {3}
    records = [
        (record.body["arm"], record.body["attempt"])
        for record in read_journal(run / "journal.jsonl")
        if record.type == "attempt"
    ]
    assert len(set(records)) == len(records) == 4
    assert load_run(run).failures == again.failures


def test_an_attempt_that_is_counted_twice_is_found(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    extra = "[retries]\nattempts = 3\nclasses = ['crash']"
    lock = make_lock(write_study(AGAIN, units=["u"], extra=extra))
    run = tmp_path / "run"
    run_study(lock, run, slots=1)
    records = list(read_journal(run / "journal.jsonl"))
    doubled = next(r.body for r in records if r.type == "attempt")
    with Journal(run) as journal:
        journal.append("attempt", doubled)
        journal.append("attempt", doubled)
    findings = verify_run(run).findings
    assert any("attempt 1 where attempt" in text for text in findings)

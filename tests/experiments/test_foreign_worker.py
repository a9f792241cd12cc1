"""A worker in any language works: request on stdin, answer on its descriptor."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import StudyError, run_study

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]

pytestmark = pytest.mark.usefixtures("one_sandbox")

SHELL = """\
request=$(cat)
hash=$(printf '%s' "$request" | sed 's/.*"request_hash":"\\([0-9a-f]*\\)".*/\\1/')
gain=$(printf '%s' "$request" | sed 's/.*"gain":\\([0-9]*\\).*/\\1/')
echo "a log line"
eval "exec 9>&$LAZYCORE_REPLY_FD"
printf '{"schema_version":1,"protocol":"lazycore-experiments/worker/1",' >&9
printf '"request_hash":"%s","status":"succeeded","metrics":{"score":%s},' \\
    "$hash" "$gain" >&9
printf '"usage":{},"output":"sh","failure":null,"units":null}' >&9
"""
NODE = """\
const fs = require("fs");
const request = JSON.parse(fs.readFileSync(0, "utf8"));
console.log("a log line");
fs.writeSync(Number(process.env.LAZYCORE_REPLY_FD), JSON.stringify({
  schema_version: 1,
  protocol: request.protocol,
  request_hash: request.request_hash,
  status: "succeeded",
  metrics: {score: request.parameters.arm.gain},
  usage: {},
  output: "node",
  failure: null,
  units: null,
}));
"""


@pytest.mark.parametrize(
    ("program", "source"),
    [
        ("sh", SHELL),
        pytest.param(
            "node",
            NODE,
            marks=pytest.mark.skipif(
                shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is None,
                reason="node is not installed",
            ),
        ),
    ],
)
@pytest.mark.once
def test_a_worker_in_another_language_answers(
    write_study: Write, make_lock: Make, tmp_path: Path, program: str, source: str
) -> None:
    study = write_study(worker=source, units=["u"])
    study.write_text(
        study.read_text().replace(
            'entrypoint = "worker.py"',
            f'entrypoint = "worker.py"\ninterpreter = "{program}"',
        )
    )
    lock = make_lock(study)
    assert len(lock.document["workers"]["no_op"]["interpreter_sha256"]) == 64
    record = run_study(lock, tmp_path / "run")
    assert {row.arm: row.value for row in record.rows} == {
        "no_op": 0.0,
        "candidate": 1.0,
    }, record.failures


@pytest.mark.parametrize(
    ("line", "mode", "text"),
    [
        ('interpreter = "no-such-program"', "fresh", "no program 'no-such-program'"),
        ('interpreter = "bin/sh"', "fresh", "name or absolute path"),
        ('interpreter = "sh"', "fork", "only Python workers can fork"),
    ],
)
def test_a_wrong_interpreter_is_told(
    write_study: Write, make_lock: Make, line: str, mode: str, text: str
) -> None:
    study = write_study(mode=mode)
    study.write_text(
        study.read_text().replace(
            'entrypoint = "worker.py"', f'entrypoint = "worker.py"\n{line}'
        )
    )
    with pytest.raises(StudyError, match=text):
        make_lock(study)

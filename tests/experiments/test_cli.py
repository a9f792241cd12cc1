"""The command line does what its exit codes say, for people and for programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import load_run
from lazycore.experiments._cli import main
from lazycore.experiments._journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]
    Capture = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("one_sandbox")


def digests(output: str) -> dict[str, str]:
    """Return the digests a command printed, by their label."""
    words = [line.split() for line in output.splitlines()]
    return {word[0]: word[1] for word in words if len(word) == 2 and len(word[1]) == 64}


@pytest.fixture(autouse=True)
def quick_pins(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Read the host's pins once: hashing the environment is tested elsewhere."""
    pins = request.getfixturevalue("pins")
    monkeypatch.setattr("lazycore.experiments._lock.pin_host", lambda **_: pins)


def test_from_init_to_a_verified_run(tmp_path: Path, capsys: Capture) -> None:
    assert main(["init", str(tmp_path / "mine")]) == 0
    study = tmp_path / "mine" / "study.toml"
    assert main(["plan", str(study)]) == 0
    assert "8 cells x 2 arms = 16 worker runs" in capsys.readouterr().out
    text = study.read_text()
    study.write_text(
        text[: text.index(', "LYON"')] + text[text.index("]\n\n[metrics") :]
    )
    assert main(["lock", str(study)]) == 0
    locked = digests(capsys.readouterr().out)["lock"]
    assert main(["check", str(study)]) == 0
    run = tmp_path / "run"
    assert main(["run", str(study), "--output", str(run)]) == 0
    out = capsys.readouterr().out
    assert digests(out)["lock"] == locked
    assert f"report  {run / 'report.html'}" in out
    assert (run / "report.html").stat().st_size > 1000
    results = digests(out)["results"]
    assert main(["verify", str(run)]) == 0
    assert digests(capsys.readouterr().out) == {"lock": locked, "results": results}
    assert main(["status", str(run)]) == 0
    assert "complete, 2 of 2 cells" in capsys.readouterr().out
    assert main(["report", str(run)]) == 0
    assert digests(capsys.readouterr().out)["results"] == results
    assert main(["verify", str(run)]) == 0


def test_json_is_one_document_on_stdout(
    finished: Path, write_study: Write, tmp_path: Path, capsys: Capture
) -> None:
    study = write_study(units=["u"])
    run, new = str(finished), str(tmp_path / "new")
    for words in (
        ["plan", str(study)],
        ["check", str(study)],
        ["run", str(study), "--output", new],
        ["status", run],
        ["verify", run],
        ["report", run],
    ):
        assert main([words[0], "--json", *words[1:]]) == 0
        assert isinstance(json.loads(capsys.readouterr().out), dict)
    assert main(["--json", "status", run]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "complete"


def test_a_worker_is_tried_without_a_run_folder(
    write_study: Write, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["worker-test", str(write_study())]) == 0
    out = capsys.readouterr().out
    assert "candidate: answered in the protocol\n  {'u0': {'score': 1.0}}" in out
    bad = write_study("return {'other': 1}")
    assert main(["--json", "worker-test", str(bad)]) == 4
    arms = json.loads(capsys.readouterr().out)["arms"]
    assert arms["no_op"]["class"] == "protocol"
    assert "missing ['score']" in arms["no_op"]["message"]
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_rows_are_exported_by_suffix(
    write_study: Write, tmp_path: Path, capsys: Capture
) -> None:
    run = tmp_path / "run"
    body = "if request.arm == 'no_op': raise AlgorithmFailure('x')\nreturn {'score': 1}"
    assert main(["run", str(write_study(body, units=["u"])), "--output", str(run)]) == 0
    assert main(["export", str(run), str(tmp_path / "rows.csv")]) == 0
    head, first, second = (tmp_path / "rows.csv").read_text().splitlines()
    assert head.startswith("cell,benchmark,unit,seed,arm,metric,value,status")
    assert ",u,0,no_op,score,,failed,algorithm,1," in first
    assert ",u,0,candidate,score,1.0,succeeded,,1," in second
    assert main(["export", str(run), str(tmp_path / "rows.jsonl")]) == 0
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == [None, 1]
    capsys.readouterr()
    assert main(["export", str(run), str(tmp_path / "rows.xlsx")]) == 2
    assert "want .csv, .jsonl or .parquet" in capsys.readouterr().err
    assert main(["verify", str(run)]) == 0


def test_a_changed_byte_fails_verification_and_is_named(
    finished: Path, capsys: Capture
) -> None:
    run, report = finished, finished / "report.html"
    assert main(["report", str(run)]) == 0
    assert main(["verify", str(run)]) == 0
    report.write_bytes(report.read_bytes() + b" ")
    capsys.readouterr()
    assert main(["verify", str(run)]) == 5
    assert f"{report}: not the file that seal.json names" in capsys.readouterr().out


def test_failed_cells_are_an_exit_code_of_their_own(
    write_study: Write, tmp_path: Path
) -> None:
    study = write_study("raise RuntimeError", units=["u"])
    assert main(["run", str(study), "--output", str(tmp_path / "run")]) == 4


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["plan", "absent.toml"], 2, "absent.toml: no regular file"),
        (["verify", "absent"], 2, "absent: no run folder"),
        (["status", "absent"], 2, "absent: no run folder"),
        (["demo", "no-such-demo"], 2, "no demo is named 'no-such-demo'"),
    ],
)
def test_wrong_usage_is_told(  # noqa: PLR0917 - fixtures
    words: list[str],
    code: int,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == code
    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [[], ["frobnicate"], ["run"], ["run", "x", "--slots", "0"]]
)
def test_arguments_that_make_no_command_exit_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2


def test_a_drifted_lock_blocks_with_name_and_remedy(
    write_study: Write, tmp_path: Path, capsys: Capture
) -> None:
    study = write_study()
    assert main(["lock", str(study)]) == 0
    with study.with_name("worker.py").open("a") as file:
        file.write("#")
    assert main(["--json", "run", str(study), "--output", str(tmp_path / "run")]) == 3
    out = capsys.readouterr().out
    blockers = json.loads(out[out.index("{") :])["blockers"]
    assert [b["code"] for b in blockers] == ["tree-drift"]
    assert "worker.py changed" in blockers[0]["message"]
    assert blockers[0]["fix"]


def test_a_busy_run_folder_blocks(
    write_study: Write, tmp_path: Path, capsys: Capture
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with Journal(run):
        assert main(["run", str(write_study()), "--output", str(run)]) == 3
    assert (
        f"process {os.getpid()} is running this study here" in capsys.readouterr().err
    )


def test_fresh_refuses_to_continue(
    write_study: Write, tmp_path: Path, capsys: Capture
) -> None:
    study, run = write_study(units=["u"]), tmp_path / "run"
    assert main(["run", str(study), "--output", str(run), "--fresh"]) == 0
    assert main(["run", str(study), "--output", str(run), "--fresh"]) == 2
    assert "leave --fresh out" in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_exits_130_and_the_same_command_continues(
    write_study: Write, tmp_path: Path
) -> None:
    study = write_study(
        "import time; time.sleep(0.05); return {'score': 1}",
        units=[f"u{index:02}" for index in range(20)],
    )
    run = tmp_path / "run"
    words = [sys.executable, "-m", "lazycore.experiments", "run", str(study)]
    words += ["--output", str(run)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        journal = run / "journal.jsonl"
        for _ in range(4000):
            if journal.exists() and journal.read_bytes().count(b"\n") >= 3:
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "the same command continues" in err
    assert not load_run(run).complete
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert load_run(run).complete
    assert "\x1b" not in done.stdout + done.stderr

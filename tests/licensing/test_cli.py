"""The command line."""

from __future__ import annotations

import json
import os
import pty
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lazycore.licensing._cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    MakeDist = Callable[..., Path]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["assess", "MIT"], 0),
        (["assess", "GPL-3.0-only", "--usage", "distributed"], 1),
        (["assess", "GPL-3.0-only"], 3),
        (["assess", "Apache"], 2),
        (["explain", "MIT AND LicenseRef-Acme"], 0),
        (["explain", "("], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_exit_code_says_the_verdict(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    output = capsys.readouterr()
    assert bool(output.err) == (code == 2)


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["assess"]])
def test_wrong_usage_exits_with_two(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_json_is_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["assess", "MIT OR GPL-3.0-only", "--usage", "distributed", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "allow"
    assert found["elected"] == ["MIT"]
    main(["explain", "MIT", "--json"])
    assert len(json.loads(capsys.readouterr().out)) == 8


def test_output_is_the_same_under_every_hash_seed_and_locale() -> None:
    def run(**env: str) -> bytes:
        return subprocess.run(
            [sys.executable, "-m", "lazycore.licensing", "explain", "GPL-2.0+ OR MIT"],
            env=env,
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout

    first = run(PYTHONHASHSEED="1")
    assert first == run(PYTHONHASHSEED="2", LC_ALL="C") == run(LC_ALL="C.UTF-8")


@pytest.fixture
def project(
    tmp_path: Path, make_dist: MakeDist, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return an empty project with an environment of three packages."""
    make_dist("free", "License-Expression: MIT")
    make_dist("gnu", "License-Expression: GPL-3.0-or-later", version="2.0")
    make_dist("acme", "License-Expression: LicenseRef-Acme")
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


ENV = ("--env", "site-packages")


def outcome(
    words: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    code = main(words)
    output = capsys.readouterr()
    return code, output.out, output.err


def test_exit_codes_of_an_audit(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = project / "licensing.toml"
    policy.write_text('schema = 1\n[classes]\n"LicenseRef-Acme" = "permissive"\n')
    for words, expected in (
        (("--usage", "build-time"), 3),
        (("--usage", "build-time", "--fail-on", "deny"), 0),
        (("--usage", "distributed"), 1),
        (("--usage", "distributed", "--fail-on", "deny"), 1),
    ):
        assert outcome(["audit", *ENV, *words], capsys)[0] == expected
    (project / "site-packages" / "gnu-2.0.dist-info" / "METADATA").unlink()
    shutil.rmtree(project / "site-packages" / "gnu-2.0.dist-info")
    assert outcome(["audit", *ENV], capsys)[0] == 0
    policy.write_text("schema = 1\ncolour = 1\n")
    code, _, said = outcome(["audit", *ENV], capsys)
    assert (code, "licensing.toml:2: unknown key 'colour'" in said) == (2, True)


def test_own_classes_hold_in_every_command(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(["assess", "LicenseRef-Acme"], capsys)[0] == 3
    said = outcome(["explain", "acme", *ENV], capsys)[1]
    assert "give it a class in the policy's table [classes]" in said
    (project / "licensing.toml").write_text(
        'schema = 1\n[classes]\n"LicenseRef-Acme" = "permissive"\n'
    )
    assert outcome(["assess", "LicenseRef-Acme"], capsys)[0] == 0
    said = outcome(["explain", "acme", *ENV], capsys)[1]
    assert "class permissive (basis: the policy)" in said


def test_explain_prints_the_evidence_of_a_package_elsewhere(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = outcome(["explain", "GNU", *ENV], capsys)
    assert code == 0
    assert "gnu 2.0: GPL-3.0-or-later" in said
    assert "license-expression: License-Expression: GPL-3.0-or-later" in said
    assert "distributed         DENY" in said
    code, _, said = outcome(["explain", "absent-package", *ENV], capsys)
    assert code == 2
    assert "no package that is installed in site-packages" in said
    assert (project / "site-packages").is_dir()


def test_a_snapshot_gates_what_comes_after_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "requirements.txt").write_text("free==1.0\n")
    assert outcome(["audit", "--lock", "requirements.txt"], capsys)[0] == 2
    snapshot = ["snapshot", *ENV, "--output", "licences.lock"]
    assert outcome(snapshot, capsys) == (0, "", "")
    assert outcome(["audit", "--lock", "requirements.txt"], capsys)[0] == 0
    before = (project / "licences.lock").read_text()
    (project / "old.lock").write_text(before)
    (project / "requirements.txt").write_text("free==1.0\nonly-there==1\n")
    (project / "there.lock").write_text(
        'schema = 1\n[[package]]\nname = "only-there"\nversion = "1"\n'
        'expression = "MIT"\n[[package]]\nname = "free"\nexpression = "SSPL-1.0"\n'
    )
    both = ["--evidence", "licences.lock", "--evidence", "there.lock"]
    audit = ["audit", "--lock", "requirements.txt"]
    assert outcome(audit, capsys)[0] == 3
    assert outcome([*audit, *both], capsys)[0] == 0
    same = outcome(["diff", "old.lock", "licences.lock"], capsys)
    assert same == (0, "no licence changed\n", "")
    changed = before.replace("GPL-3.0-or-later", "MIT")
    (project / "licences.lock").write_text(changed)
    code, said, _ = outcome(["diff", "old.lock", "licences.lock"], capsys)
    assert (code, said) == (3, "license  gnu: 2.0 GPL-3.0-or-later -> 2.0 MIT\n")
    bundled = before + 'bundled = [["x.so", "shared-library", "SSPL-1.0"]]\n'
    (project / "licences.lock").write_text(bundled)
    code, said, _ = outcome(["diff", "old.lock", "licences.lock"], capsys)
    assert (code, said) == (3, "bundled  gnu: nothing stated -> SSPL-1.0\n")


def test_a_report_in_a_file_still_says_how_it_ended(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["audit", *ENV, "--format", "sarif", "--output", "out.sarif"]
    code, said, error = outcome(words, capsys)
    assert (code, said) == (3, "")
    assert error.startswith("out.sarif: 3 packages: 1 allowed, 2 to review, 0 denied")
    assert json.loads((project / "out.sarif").read_text())["version"] == "2.1.0"


def _write_at_most(limit: int, words: Sequence[str]) -> int:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    return main(words)


def test_a_full_disk_leaves_what_was_there(project: Path) -> None:
    kept = project / "licences.lock"
    kept.write_text("schema = 1\n")
    words = ["snapshot", *ENV, "--output", "licences.lock"]
    before = sorted(project.iterdir())
    child = os.fork()
    if child == 0:
        os._exit(_write_at_most(100, words))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert kept.read_text() == "schema = 1\n"
    assert sorted(project.iterdir()) == before
    kept.chmod(0o640)
    link = project / "link.lock"
    link.symlink_to(kept)
    assert main([*words[:-1], "link.lock"]) == 0
    assert link.is_symlink()
    assert (kept.stat().st_mode & 0o777, len(kept.read_text()) > 100) == (0o640, True)
    assert main([*words[:-1], "/dev/null"]) == 0


def test_a_full_disk_leaves_no_half_a_receipt(project: Path) -> None:
    (project / "models.toml").write_text(MODELS.replace("{terms}", "ab" * 32))
    words = ["models", "accept", "org/big", "--allowlist", "models.toml"]
    words += ["--receipts", "receipts.jsonl", "--by", "ada"]
    assert main(words) == 0
    before = (project / "receipts.jsonl").read_bytes()
    child = os.fork()
    if child == 0:
        os._exit(_write_at_most(len(before) + 50, words))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert (project / "receipts.jsonl").read_bytes() == before
    assert main(words) == 0


def test_only_here_is_for_locks(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("packaging", reason="the extra versions is not installed")
    assert outcome(["audit", *ENV, "--only-here"], capsys)[0] == 2
    lock = project / "requirements.txt"
    lock.write_text("free==1.0\ngnu==2.0 ; sys_platform == 'never'\n")
    every = ["audit", "--lock", str(lock), *ENV]
    assert outcome(every, capsys)[0] == 3
    assert outcome([*every, "--only-here"], capsys)[0] == 0


def test_output_to_a_pipe_or_a_terminal_holds_no_colour(project: Path) -> None:
    command = [sys.executable, "-m", "lazycore.licensing", "audit", *ENV]
    seen = set()
    for env in ({"NO_COLOR": "1"}, {"FORCE_COLOR": "1", "TERM": "xterm"}):
        leader, follower = pty.openpty()
        done = subprocess.run(
            command, env=env, cwd=project, stdout=follower, check=False, timeout=60
        )
        os.close(follower)
        raw = os.read(leader, 65_536).replace(b"\r\n", b"\n")
        os.close(leader)
        piped = subprocess.run(
            command, env=env, cwd=project, capture_output=True, check=False, timeout=60
        )
        assert done.returncode == piped.returncode == 3
        seen |= {raw, piped.stdout}
    assert len(seen) == 1
    assert b"\x1b" not in seen.pop()


def test_a_reader_that_leaves_is_no_traceback(project: Path) -> None:
    command = [sys.executable, "-m", "lazycore.licensing", "explain", "MIT"]
    script = f"{shlex.join(command)} | head -c 1"
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        capture_output=True,
        cwd=project,
        check=False,
        timeout=60,
    )
    assert b"Traceback" not in done.stderr


MODELS = """schema = 1
[[model]]
id = "org/big"
license = "CC-BY-NC-4.0"
tier = 2
terms-sha256 = "{terms}"
"""


def test_models_are_gated_by_receipt_or_environment(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terms = "ab" * 32
    (project / "models.toml").write_text(MODELS.replace("{terms}", terms))
    check = ["models", "check", "org/big", "--allowlist", "models.toml"]
    assert outcome(check, capsys)[0] == 1
    monkeypatch.setenv("LAZYCORE_ACCEPTED_MODEL_TERMS", f"org/big={terms[:16]}")
    assert outcome(check, capsys)[0] == 0
    monkeypatch.setenv("LAZYCORE_ACCEPTED_MODEL_TERMS", "all")
    assert outcome(check, capsys)[0] == 2
    monkeypatch.delenv("LAZYCORE_ACCEPTED_MODEL_TERMS")
    receipts = ["--receipts", "receipts.jsonl"]
    accept = ["models", "accept", "org/big", "--allowlist", "models.toml", *receipts]
    assert outcome([*accept, "--by", "ada"], capsys)[0] == 0
    assert outcome([*check, *receipts], capsys)[0] == 0
    assert outcome([*check, *receipts, "--usage", "distributed"], capsys)[0] == 1


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("lazycore-licensing 0.")

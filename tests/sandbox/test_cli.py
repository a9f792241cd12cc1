"""The command line: exit codes, JSON, and what a person sees."""

from __future__ import annotations

import argparse
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lazycore.sandbox import Guarantee
from lazycore.sandbox._attacks._corpus import CORPUS
from lazycore.sandbox._cli import (
    EXIT_CODES,
    _progress,
    guarantee,
    main,
    parser,
    size,
    variable,
)
from lazycore.sandbox._cli_render import pass_on, table

if TYPE_CHECKING:
    from pathlib import Path

if TYPE_CHECKING:
    from pathlib import Path

MODULE = [sys.executable, "-m", "lazycore.sandbox"]


class Done(NamedTuple):
    returncode: int
    stdout: bytes
    stderr: bytes


Cli = Callable[..., Done]


@pytest.fixture
def cli(
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    namespace_executor: object,
) -> Cli:
    """Run the command line in this process, where probes are made once."""
    del namespace_executor

    def run(*words: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as end:
            main(words)
        assert isinstance(end.value.code, int)
        out, err = capsysbinary.readouterr()
        return Done(end.value.code, out, err)

    return run


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--", "true"), 0),
        (("--", "sh", "-c", "exit 7"), 7),
        (("true",), 0),
        (("--timeout", "0.2", "--", "sleep", "60"), 124),
        (("--", "sh", "-c", "kill -9 $$"), 137),
        (("--", "sh", "-c", "kill -15 $$"), 143),
        (("--", "nonexistent-command"), 127),
        (("--", "/etc/hostname"), 127),
        (("--exec", "/bin/sh", "--", "/bin/true"), 126),
        (("--read", "/nonexistent/path", "--", "true"), 122),
        (("--write", "/", "--", "true"), 122),
        (("--policy", "/nonexistent/policy.json", "--", "true"), 122),
        (("--timeout", "-1", "--", "true"), 122),
        (("--backend", "nonexistent", "--", "true"), 123),
        ((), 2),
        (("--memory", "much", "--", "true"), 2),
        (("--degrade", "nonsense", "--", "true"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_cli_run_exits_as_documented(
    cli: Cli, words: tuple[str, ...], code: int
) -> None:
    done = cli("run", *words)
    assert done.returncode == code, done.stderr
    if code in EXIT_CODES and code > 1:
        assert done.stderr


def test_cli_run_passes_bytes_on_untouched(cli: Cli) -> None:
    done = cli("run", "--stdin", "--", "cat", stdin=b"\0\xff\x1b[2J")
    assert done.stdout == b"\0\xff\x1b[2J"
    assert done.stderr == b""


def test_cli_run_without_stdin_gives_an_empty_one(cli: Cli) -> None:
    assert cli("run", "--", "cat", stdin=b"secret").stdout == b""


def test_cli_run_shows_nothing_of_the_callers_environment(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_OF_CALLER", "x")
    monkeypatch.setenv("WANTED", "y")
    done = cli("run", "--env", "WANTED", "--env", "SET=z", "--", "env")
    names = {line.split(b"=")[0] for line in done.stdout.splitlines()}
    assert names == {b"PATH", b"HOME", b"LANG", b"TMPDIR", b"WANTED", b"SET"}


def test_cli_run_json_is_complete(cli: Cli, folder: Path) -> None:
    done = cli(
        *("run", "--json", "--write", str(folder), "--output", "64"),
        *(
            "--",
            "sh",
            "-c",
            f"printf '\\377' >&2; echo x > {folder}/f; yes | head -c 999",
        ),
    )
    said = json.loads(done.stdout)
    assert said["returncode"] == done.returncode == 0
    assert said["stderr"]["base64"] == "/w=="
    assert said["stdout"]["truncated"]
    assert said["stdout"]["total_bytes"] == 999
    assert len(said["policy_digest"]) == 64
    assert "no-network" in said["guarantees"]
    assert said["violations"][0]["kind"] == "output"
    assert (folder / "f").read_text() == "x\n"


def test_cli_run_describes_a_policy_without_running(cli: Cli, folder: Path) -> None:
    done = cli("run", "--describe", "--read", str(folder), "--", "touch", "x")
    assert done.returncode == 0
    assert f"read: {folder}" in done.stdout.decode()
    assert "network: none" in done.stdout.decode()


def test_cli_run_takes_a_policy_file(cli: Cli, folder: Path) -> None:
    (folder / "p.json").write_text('{"timeout_s": 0.2}')
    assert (
        cli("run", "--policy", f"{folder}/p.json", "--", "sleep", "60").returncode
        == 124
    )
    (folder / "p.json").write_text('{"timeout": 0.2}')
    done = cli("run", "--policy", f"{folder}/p.json", "--", "true")
    assert done.returncode == 122
    assert b"unknown keys" in done.stderr


@pytest.mark.once
@pytest.mark.usefixtures("namespace_executor")
def test_cli_run_neutralises_control_sequences_on_a_terminal() -> None:
    leader, follower = pty.openpty()
    try:
        done = subprocess.run(
            [*MODULE, "run", "--", "printf", r"a\033[2Jb\n"],
            stdin=subprocess.DEVNULL,
            stdout=follower,
            stderr=subprocess.PIPE,
            check=True,
            timeout=60,
        )
        os.close(follower)
        seen = os.read(leader, 4096)
    finally:
        os.close(leader)
    assert b"\x1b" not in seen
    assert b"a\\x1b[2Jb" in seen
    assert done.stderr == b""


@pytest.mark.once
@pytest.mark.usefixtures("namespace_executor")
def test_cli_run_survives_a_reader_that_goes_away() -> None:
    with subprocess.Popen(
        [*MODULE, "run", "--json", "--", "true"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.once
def test_cli_doctor_shows_every_guarantee_and_what_is_not_held(cli: Cli) -> None:
    done = cli("doctor")
    text = done.stdout.decode()
    assert done.returncode == 0
    assert "\x1b" not in text
    for which in Guarantee:
        assert which.value in text
    assert "run code by a listed interpreter" in text
    said = json.loads(cli("doctor", "--json").stdout)
    names = [each["backend"] for each in said["backends"]]
    assert "linux-namespace" in names
    for each in said["backends"]:
        if each["available"]:
            assert {row["id"] for row in each["residuals"]} >= {"28"}


@pytest.mark.once
def test_cli_attack_runs_rows_and_tells(cli: Cli) -> None:
    done = cli("attack", "--only", "01", "--only", "28")
    assert done.returncode == 0, done.stdout
    assert b"2 rows, 1 held, 1 known residuals" in done.stdout
    assert cli("attack", "--only", "28", "--strict").returncode == 1
    said = json.loads(cli("attack", "--only", "01", "--json").stdout)
    assert said["rows"][0]["outcome"] == "held"
    assert said["breaches"] == []
    assert cli("attack", "--only", "nonexistent").returncode == 2
    assert cli("attack", "--backend", "nonexistent").returncode == 123


@pytest.mark.once
def test_cli_explain_shows_what_was_wanted(cli: Cli, folder: Path) -> None:
    (folder / "shown").write_text("x")
    (folder / "hidden").write_text("x")
    words = ("--read", f"{folder}/shown", "--", "cat")
    done = cli("explain", *words, f"{folder}/shown", f"{folder}/hidden")
    text = done.stdout.decode()
    assert done.returncode == 1
    assert f"granted and used:\n  --read {folder}/shown\n" in text
    assert f"wanted and not granted:\n  --read {folder}/hidden\n" in text
    said = json.loads(cli("explain", "--json", *words, f"{folder}/shown").stdout)
    assert said["refused"] == []
    assert said["run"]["returncode"] == 0
    assert cli("explain", *words, f"{folder}/shown").returncode == 0
    assert cli("explain").returncode == 2


def test_attack_lists_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["attack", "--list", "--json"])
    assert end.value.code == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) > 100
    with pytest.raises(SystemExit):
        main(["attack", "--list"])
    assert "read a file outside the list" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("512M", 512 << 20), ("2g", 2 << 30), ("1T", 1 << 40), ("7k", 7168)],
)
def test_a_size_has_units(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "M", "-1", "1.5M", "1MM", "1X", "\u0661", "1 M"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        size(text)


def test_names_on_the_command_line_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ABSENT_VARIABLE", raising=False)
    assert variable("A=b=c") == ("A", "b=c")
    with pytest.raises(argparse.ArgumentTypeError, match="ABSENT_VARIABLE"):
        variable("ABSENT_VARIABLE")
    assert guarantee("fs-read") is Guarantee.FS_READ
    with pytest.raises(argparse.ArgumentTypeError, match="there are"):
        guarantee("x")


def test_the_help_lists_the_exit_codes() -> None:
    text = parser().format_help()
    for code in EXIT_CODES:
        assert f" {code}  " in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for screen, expected in ((Terminal(), "\r\x1b[K3/9 "), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", screen)
        _progress(2, 9, CORPUS[0])
        assert screen.getvalue().startswith(expected)
        assert bool(screen.getvalue()) == bool(expected)


def test_bytes_to_a_terminal_lose_their_control_sequences() -> None:
    screen = Terminal()
    pass_on(b"\x1b]0;title\x07\xff\xe2\x80\xaeok\n", screen)
    assert screen.getvalue() == "\\x1b]0;title\\x07\ufffd\\u202eok\n"


def test_a_table_aligns_its_columns() -> None:
    assert table([("a", "bbb"), ("aaa", "b")]) == ["a    bbb", "aaa  b"]

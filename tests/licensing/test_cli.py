"""The command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lazycore.licensing._cli import main


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

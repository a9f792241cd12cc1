"""The command that shows and checks the table."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from lazycore.telemetry import TelemetryError, _conventions, conventions
from lazycore.telemetry._cli import main


def test_the_check_says_what_it_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    assert "consistent" in capsys.readouterr().out
    assert main(["check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "dated": conventions().dated,
        "problems": [],
    }


def test_the_table_is_shown_to_people_and_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["table"]) == 0
    shown = capsys.readouterr().out
    assert "| `gen_ai.request.model` | string | conditional | 1.26.0 |" in shown
    assert main(["table", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["attributes"]["gen_ai.system"]["replaced_by"] == "gen_ai.provider.name"


def test_the_module_is_a_command() -> None:
    command = [sys.executable, "-m", "lazycore.telemetry", "check"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0


def damaged() -> dict[str, Any]:
    import tomllib
    from importlib.resources import files

    text = (files("lazycore.telemetry") / "conventions.toml").read_text("utf-8")
    return tomllib.loads(text)


def test_planted_faults_are_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = damaged()
    data["attributes"]["gen_ai.agent.id"]["type"] = "str"
    data["attributes"]["gen_ai.system"]["replaced_by"] = "gen_ai.nothing"
    data["attributes"]["agent.id"] = {"type": "string", "since": "x"}
    data["attributes"]["gen_ai.agent.name"]["origin"] = "elsewhere"
    data["operations"]["chat"]["required"].remove("gen_ai.operation.name")
    data["operations"]["chat"]["recommended"].append("gen_ai.input.messages")
    data["operations"]["plan"]["kinds"] = ["PRODUCER"]
    data["operations"]["plan"]["opt_in"] = ["gen_ai.unheard", "gen_ai.prompt"]
    data["metrics"]["gen_ai.client.token.usage"]["profiles"] = ["then"]
    data["metrics"]["gen_ai.client.token.usage"]["buckets"] = [2, 1]
    data["metrics"]["gen_ai.client.operation.duration"]["buckets"] = []
    monkeypatch.setattr(_conventions, "_loaded", _conventions.parse(data))
    assert main(["check"]) == 1
    found = capsys.readouterr().err
    for words in (
        "unknown type str",
        "replaced by gen_ai.nothing, which is not there",
        "agent.id: not in the gen_ai namespace",
        "unknown origin elsewhere",
        "chat: gen_ai.operation.name is not required",
        "content gen_ai.input.messages is not opt-in",
        "chat: a name on two levels",
        "plan: unknown kind",
        "gen_ai.unheard is not in the table",
        "gen_ai.prompt is deprecated",
        "unknown profile",
        "buckets do not ascend",
        "buckets belong to histograms",
    ):
        assert words in found, words


def test_a_damaged_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_conventions, "_loaded", None)
    monkeypatch.setattr(_conventions, "parse", lambda data: data["missing"])
    with pytest.raises(TelemetryError, match="reinstall lazycore-telemetry"):
        conventions()


def test_the_documented_schema_is_the_table() -> None:
    from pathlib import Path

    from lazycore.telemetry._cli import markdown

    page = Path(__file__).resolve().parents[2] / "docs/telemetry/schema.md"
    if not page.is_file():
        pytest.skip("the documentation does not lie beside these tests")
    assert page.read_text("utf-8").endswith("\n".join(markdown(conventions())) + "\n")

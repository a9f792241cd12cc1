"""A wrong study file is refused with its path, the key and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import ArtifactError, Study, StudyError
from lazycore.experiments._study_file import study_from_document

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("old", "new", "key", "problem"),
    [
        ("schema = 1", "schema = 2", "schema", "want one of 1"),
        ("schema = 1", "schema = true", "schema", "want an integer, found true"),
        ("schema = 1", "", "schema", "missing; add an integer"),
        ('id = "sample"', 'id = "a b"', "study.id", "letters, digits"),
        ('id = "sample"', "id = 7", "study.id", "want a string, found an integer"),
        ('baseline = "no_op"', 'baseline = "none"', "study.baseline", "no arm is"),
        ('mode = "fresh"', 'mode = "warm"', "study.mode", "want one of 'fresh'"),
        ('mode = "fresh"', 'moed = "fresh"', "study.moed", "did you mean 'mode'"),
        ("seeds = [0]", "seeds = []", "study.seeds", "at least one seed"),
        ("seeds = [0]", "seeds = [1, 1]", "study.seeds", "each once"),
        ("seeds = [0]", "seeds = [-1]", "study.seeds", "0 to 2**53"),
        ("seeds = [0]", "seeds = [true]", "study.seeds[0]", "found true or false"),
        ("seeds = [0]", "seeds = [0.5]", "study.seeds[0]", "want an integer"),
        ("[worker]", "[wroker]", "arms.no_op.entrypoint", "missing; name the worker"),
        ('"worker.py"', '"../w.py"', "worker.entrypoint", "relative path"),
        ('"worker.py"', '"/w.py"', "worker.entrypoint", "relative path"),
        ("gain = 0", "gain = 2020-01-01", "arms.no_op.parameters", "dates as strings"),
        ("gain = 0", "gain = nan", "arms.no_op.parameters", "no JSON"),
        ("[arms.candidate]", "[arms.no_op.x]", "arms.no_op.x", "unknown key"),
        ('["u0", "u1"]', "[]", "benchmarks[0].units", "either 'units' or"),
        ('["u0", "u1"]', '["a", "a"]', "benchmarks[0].units", "'a' is listed twice"),
        ('["u0", "u1"]', '["a", 1]', "benchmarks[0].units[1]", "want a string"),
        ('["u0", "u1"]', '[" "]', "benchmarks[0].units", "printable"),
        ('["u0", "u1"]', '["a\\u0007"]', "benchmarks[0].units", "printable"),
        ("block_size = 1", "block_size = 0", "benchmarks[0].block_size", "more than 0"),
        ("primary = true", "primary = false", "metrics", "no metric is primary"),
        ("primary = true", "primary = 1", "metrics.score.primary", "true or false"),
        (
            "primary = true",
            'primary = true\ngoal = "minimize"',
            "metrics.score.failed_value",
            "say what a failed arm scores",
        ),
        ("= 20.0", "= 0", "limits.wall_timeout_s", "more than 0"),
        ("= 20.0", "= inf", "limits.wall_timeout_s", "below"),
        ("# end", "[retries]\nclasses = ['x']", "retries.classes", "no failure class"),
        ("# end", "[retries]\nattempts = 0", "retries.attempts", "more than 0"),
        ("# end", "[analysis]\nalpha = 1", "analysis.alpha", "below 1"),
        ("# end", "[analysis]\nlooks = [0.5, 0.52]", "analysis.looks", "0.05 after"),
        ("# end", "[analysis]\nlooks = [0.99]", "analysis.looks", "0.05 after"),
        ("# end", "[analysis]\nspending = 'all'", "analysis.spending", "want one of"),
        (
            "block_size = 1",
            "groups = { a = ['u0'] }",
            "benchmarks[0].groups",
            "without one: ['u1'",
        ),
        (
            "block_size = 1",
            "groups = { a = ['u0', 'u1', 'u7'] }",
            "benchmarks[0].groups",
            "no unit: ['u7']",
        ),
        (
            "block_size = 1",
            "groups = { a = ['u0', 'u1'], b = ['u0'] }",
            "benchmarks[0].groups",
            "'u0' is listed twice",
        ),
        (
            "block_size = 1",
            "groups = { a = [] }",
            "benchmarks[0].groups",
            "want an array of units",
        ),
        ("# end", "[analyses]\nalpha = 1", "analyses", "did you mean 'analysis'"),
        (
            "# end",
            "[[models]]\nslot = 'm'\ncheckpoint = 'c'\nlicense = 'MIT'\ntier = 3",
            "models[0].tier",
            "want one of 1, 2",
        ),
        (
            "# end",
            "[[benchmarks]]\nid = 'bench'\nunits = ['u']",
            "benchmarks[1].id",
            "declared twice",
        ),
        (
            '"worker.py"',
            '"worker.py"\nenvironment = ["PYTHONPATH"]',
            "arms.no_op.environment",
            "set by the host",
        ),
        (
            '"worker.py"',
            '"worker.py"\nenvironment = ["lower"]',
            "arms.no_op.environment",
            "upper-case",
        ),
    ],
)
def test_a_mistake_names_file_key_and_remedy(
    write_study: Write, old: str, new: str, key: str, problem: str
) -> None:
    path = write_study(units=["u0", "u1"], extra="# end")
    text = path.read_text().replace("'u0', 'u1'", '"u0", "u1"')
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(StudyError) as caught:
        Study.load(path)
    assert caught.value.key == key
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{path}: {key}: ")


@pytest.mark.parametrize("data", [b"schema = ", b"\xff", b"a = 1\na = 2"], ids=repr)
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(data)
    with pytest.raises(StudyError, match="not TOML") as caught:
        Study.load(path)
    assert caught.value.path == path


def test_a_study_file_that_is_absent_or_a_link_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"study\.toml: no regular file"):
        Study.load(tmp_path)
    (tmp_path / "study.toml").symlink_to(tmp_path / "other.toml")
    with pytest.raises(ArtifactError, match="no regular file"):
        Study.load(tmp_path / "study.toml")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "No such file"),
        (b"{}", "array of unit ids"),
        (b"[]", "array of unit ids"),
        (b"[1]", "item 0 is no string"),
        (b'["a", "a"]', "listed twice"),
        (b'["a"', "not JSON"),
    ],
    ids=repr,
)
def test_a_wrong_unit_file_is_named(
    write_study: Write, data: bytes | None, problem: str
) -> None:
    path = write_study()
    text = path.read_text().replace(
        "units = ['u0', 'u1', 'u2']", 'units_file = "u.json"'
    )
    path.write_text(text)
    if data is not None:
        path.with_name("u.json").write_bytes(data)
    with pytest.raises(StudyError, match=problem):
        Study.load(path)


def test_units_may_come_from_a_file(write_study: Write) -> None:
    path = write_study()
    text = path.read_text().replace(
        "units = ['u0', 'u1', 'u2']", 'units_file = "u.json"'
    )
    path.write_text(text)
    path.with_name("u.json").write_text('["b", "a"]')
    assert Study.load(path).benchmarks[0].units == ("b", "a")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "No such file"),
        (b'["u0"]', "want a JSON object of arrays"),
        (b'{"a": "u0"}', "want an array of units"),
        (b'{"a": [0]}', "item 0 is no string"),
        (b'{" ": ["u0"]}', "printable"),
        (b'{"a": ["u0"], "a": ["u1"]}', "key 'a'"),
    ],
    ids=repr,
)
def test_a_wrong_group_file_is_named(
    write_study: Write, data: bytes | None, problem: str
) -> None:
    path = write_study()
    text = path.read_text().replace("block_size = 1", 'groups_file = "g.json"')
    path.write_text(text)
    if data is not None:
        path.with_name("g.json").write_bytes(data)
    with pytest.raises(StudyError, match=problem):
        Study.load(path)


def test_groups_may_come_from_a_file(write_study: Write) -> None:
    path = write_study()
    text = path.read_text().replace("block_size = 1", 'groups_file = "g.json"')
    path.write_text(text)
    path.with_name("g.json").write_text('{"one": ["u0", "u2"], "two": ["u1"]}')
    study = Study.load(path)
    assert study.benchmarks[0].group_of == {"u0": "one", "u2": "one", "u1": "two"}
    again = study_from_document(study.document())
    assert again.benchmarks == study.benchmarks


def test_a_look_never_sees_half_a_group(write_study: Write) -> None:
    path = write_study(extra="[analysis]\nlooks = [0.5]", block=2)
    groups = "groups = { a = ['u0', 'u2'], b = ['u1'] }\nblock_size"
    path.write_text(path.read_text().replace("block_size", groups))
    with pytest.raises(StudyError, match="half a group"):
        Study.load(path)


def test_a_study_and_its_document_say_the_same(write_study: Write) -> None:
    study = Study.load(
        write_study(
            extra="[[models]]\nslot = 'm'\ncheckpoint = 'c'\nlicense = 'MIT'\ntier = 1"
        )
    )
    again = study_from_document(study.document())
    assert again.document() == study.document()
    assert [arm.name for arm in again.arms] == ["no_op", "candidate"]


def test_arms_inherit_the_worker_and_may_override_it(write_study: Write) -> None:
    path = write_study()
    path.write_text(
        path.read_text().replace(
            "[arms.candidate]", '[arms.candidate]\nentrypoint = "other.py"'
        )
    )
    study = Study.load(path)
    assert study.arm("no_op").entrypoint == "worker.py"
    assert study.arm("candidate").entrypoint == "other.py"
    with pytest.raises(LookupError, match="no arm 'third'"):
        study.arm("third")

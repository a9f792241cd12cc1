"""Every output obeys its published schema and says where to look."""

from __future__ import annotations

import datetime as dt
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.licensing import (
    AuditReport,
    BundledLicense,
    Confidence,
    LicenseFinding,
    Package,
    Policy,
    PolicyException,
    Usage,
    audit,
    read_conda,
    read_cyclonedx,
    read_lock,
)
from lazycore.licensing._formats import FORMATS
from lazycore.licensing._rules import REMEDIES, RULES

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parent / "data"
DAY = dt.date(2026, 12, 1)


def finding(name: str, expression: str | None, **fields: Any) -> LicenseFinding:
    return LicenseFinding(
        name=name,
        version=fields.pop("version", "1.0"),
        expression=expression,
        source="license-field",
        confidence=Confidence.DERIVED,
        **fields,
    )


def everything() -> AuditReport:
    """Return a report that fires most rules, with names out of this world."""
    parts = (
        BundledLicense(
            path="x/libgpl.so", reason="shared-library", expression="SSPL-1.0"
        ),
        BundledLicense(path="x/libno.so", reason="shared-library", expression=None),
    )
    found = {
        "free": finding("free", "MIT", bundled=parts),
        "gnu": finding("gnu", "GPL-3.0-only", conflicts=("field and file disagree",)),
        "weak": finding("weak", "MPL-2.0 OR LicenseRef-Acme"),
        "mystery": finding("mystery", None),
        "od d/näme%:,": finding("od d/näme%:,", "AGPL-3.0-only", version="1+ü"),
    }
    packages = [
        Package(
            name=name,
            version=one.version,
            usages=(Usage.DISTRIBUTED,),
            finding=one,
            where=f"locks/uv lock:{number}",
        )
        for number, (name, one) in enumerate(found.items(), 1)
    ]
    expired = PolicyException(
        package="gnu",
        allow=("GPL-3.0-only",),
        usages=(),
        reason="r",
        owner="o",
        expires=dt.date(2026, 1, 1),
        line="licensing.toml:7",
    )
    return audit(
        [*packages, Package(name="lost")],
        policy=Policy(exceptions=(expired,)),
        today=DAY,
    )


@cache
def validators(name: str) -> Any:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    referencing = pytest.importorskip("referencing", reason="comes with jsonschema")
    registry = referencing.Registry()
    for path in (DATA / "schemas").glob("*.schema.json"):
        content = json.loads(path.read_text())
        resource = referencing.Resource.from_contents(
            content, default_specification=referencing.jsonschema.DRAFT7
        )
        registry = registry.with_resource(content.get("$id", path.name), resource)
    schema = json.loads((DATA / "schemas" / name).read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema, registry=registry, format_checker=kind.FORMAT_CHECKER)


SCHEMAS = {
    "cyclonedx": "bom-1.6.schema.json",
    "cyclonedx-1.7": "bom-1.7.schema.json",
    "sarif": "sarif-2.1.0-rtm.5.json",
}
REPORTS: dict[str, Callable[[], AuditReport]] = {
    "everything": everything,
    "nothing": lambda: audit([], today=DAY),
    "lock": lambda: audit(read_lock(DATA / "inputs" / "uv.lock"), today=DAY),
    "conda": lambda: audit(read_conda(DATA / "inputs"), today=DAY),
    "bom": lambda: audit(
        read_cyclonedx(DATA / "inputs" / "bom.cyclonedx-py.json"), today=DAY
    ),
}


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("name", SCHEMAS)
def test_documents_obey_their_published_schemas(name: str, report: str) -> None:
    validator = validators(SCHEMAS[name])
    document = json.loads(FORMATS[name](REPORTS[report]()))
    problems = [f"{e.json_path}: {e.message}" for e in validator.iter_errors(document)]
    assert problems == []


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("cyclonedx", ("components", 0, "type"), "thing"),
        ("cyclonedx", ("components", 0, "licenses", 0, "acknowledgement"), "guessed"),
        ("cyclonedx-1.7", ("version",), []),
        ("cyclonedx-1.7", ("components", 1, "bom-ref"), ""),
        ("sarif", ("runs", 0, "results", 0, "level"), "fatal"),
        ("sarif", ("runs", 0, "results", 0, "locations"), {}),
        ("sarif", ("runs", 0, "results", 0, "extra"), 1),
        ("sarif", ("version",), "2.0.0"),
    ],
)
def test_the_schemas_find_what_is_planted(
    name: str, path: tuple[Any, ...], value: object
) -> None:
    validator = validators(SCHEMAS[name])
    document: Any = json.loads(FORMATS[name](everything()))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert list(validator.iter_errors(document)) != []


def test_sarif_results_point_at_the_line_of_the_lock() -> None:
    report = audit(read_lock(DATA / "inputs" / "uv.lock"), today=DAY)
    (run,) = json.loads(FORMATS["sarif"](report))["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert ids == sorted(RULES)
    assert len(run["results"]) == len(report.findings) > 0
    lines = (DATA / "inputs" / "uv.lock").read_text().splitlines()
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        (location,) = result["locations"]
        line = location["physicalLocation"]["region"]["startLine"]
        name = location["logicalLocations"][0]["name"].split()[0]
        assert lines[line - 1 : line + 1] == ["[[package]]", f'name = "{name}"']


def test_places_are_relative_to_where_the_tool_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = Package(name="a", where=f"{tmp_path}/sub dir/uv.lock:3")
    outside = Package(name="b", where="/elsewhere/uv.lock:4")
    report = audit([inside, outside, Package(name="c")], today=DAY)
    results = json.loads(FORMATS["sarif"](report))["runs"][0]["results"]
    uris = {
        r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for r in results
    }
    assert uris == {"sub%20dir/uv.lock", "file:///elsewhere/uv.lock", "pyproject.toml"}
    github = FORMATS["github"](report)
    assert "file=sub dir/uv.lock,line=3,title=LZ003 no licence known::a" in github


def test_a_version_bump_keeps_the_fingerprint_of_a_finding() -> None:
    def prints(version: str) -> set[str]:
        report = audit([Package(name="a", version=version)], today=DAY)
        results = json.loads(FORMATS["sarif"](report))["runs"][0]["results"]
        return {one["partialFingerprints"]["finding/v1"] for one in results}

    assert prints("1.0") == prints("2.0")
    assert len(prints("1.0")) == 2


def test_annotations_escape_what_would_end_them() -> None:
    lines = FORMATS["github"](everything()).splitlines()
    assert all(
        line.startswith(("::error ", "::warning ", "::notice ")) for line in lines
    )
    (odd,) = [line for line in lines if "LZ001" in line and "näme" in line]
    assert odd.partition("title=")[2].count("::") == 1
    assert "näme%25:," in odd


def test_a_bill_of_materials_reads_back_with_what_is_bundled(tmp_path: Path) -> None:
    path = tmp_path / "bom.json"
    path.write_text(FORMATS["cyclonedx"](everything()), encoding="utf-8")
    found = {p.name: p.finding for p in read_cyclonedx(path)}
    assert found["gnu"] is not None
    assert found["gnu"].expression == "GPL-3.0-only"
    assert found["gnu"].purl == "pkg:pypi/gnu@1.0"
    inner = found["x/libgpl-so"]
    assert inner is not None
    assert inner.expression == "SSPL-1.0"
    conda = tmp_path / "conda.json"
    conda.write_text(FORMATS["cyclonedx"](REPORTS["conda"]()), encoding="utf-8")
    assert '"purl": "pkg:conda/readline@8.2"' in conda.read_text()


def test_markdown_cells_stay_in_their_columns() -> None:
    report = audit([Package(name="a|b", version="1\n2")], today=DAY)
    rows = FORMATS["markdown"](report).splitlines()
    assert any("a\\|b" in row for row in rows)
    assert all(row.startswith(("|", "#")) or not row for row in rows)


def test_every_rule_has_a_remedy_and_the_text_names_those_that_fired() -> None:
    assert set(REMEDIES) == set(RULES)
    report = everything()
    fired = {finding.rule for finding in report.findings}
    assert fired >= {"LZ001", "LZ003", "LZ004", "LZ005", "LZ006", "LZ012"}
    lines = FORMATS["text"](report).splitlines()
    assert {line.split()[2] for line in lines if line.startswith("to do")} == fired


def test_rule_numbers_never_change_their_meaning() -> None:
    assert list(RULES.items())[:14] == [
        ("LZ001", "licence denied for this use"),
        ("LZ002", "licence needs review for this use"),
        ("LZ003", "no licence known"),
        ("LZ004", "evidence disagrees"),
        ("LZ005", "something bundled is stricter than the stated licence"),
        ("LZ006", "exception expired"),
        ("LZ007", "exception expires soon"),
        ("LZ008", "exception unused"),
        ("LZ009", "clarification void: the licence text changed"),
        ("LZ010", "clarification unused"),
        ("LZ011", "licence changed since the snapshot"),
        ("LZ012", "package missing from the evidence"),
        ("LZ013", "licence only guessed from prose"),
        ("LZ014", "evidence is for another version"),
    ]

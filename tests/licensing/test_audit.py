"""An audit applies the policy, explains each finding, and is the same every time."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.licensing import (
    LicenseDeniedError,
    Package,
    Policy,
    PolicyError,
    SourceError,
    audit,
    diff,
    read_conda,
    read_cyclonedx,
    read_environment,
    read_lock,
    read_snapshot,
    snapshot,
)
from lazycore.licensing._cli import main
from lazycore.licensing._formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

    MakeDist = Callable[..., Path]

DAY = dt.date(2026, 12, 1)
DATA = Path(__file__).parent / "data"
POLICY = """schema = 1
default-usage = "distributed"
groups = { dev = "build-time" }
{extra}
"""


def policy(tmp_path: Path, extra: str = "") -> Policy:
    path = tmp_path / "licensing.toml"
    path.write_text(POLICY.replace("{extra}", extra))
    return Policy.load(path)


@pytest.fixture
def site(make_dist: MakeDist, mit_text: str) -> Path:
    make_dist("free", "License: MIT", files={"licenses/LICENSE": mit_text})
    make_dist("gnu", "License-Expression: GPL-3.0-or-later")
    make_dist("mystery", "")
    return make_dist("weak", "License-Expression: MPL-2.0").parent


def rules(report: Any) -> list[tuple[str, str]]:
    return [(finding.rule, finding.package) for finding in report.findings]


def test_the_table_decides_without_a_policy(site: Path) -> None:
    report = audit(read_environment(site), usage="distributed", today=DAY)
    assert rules(report) == [
        ("LZ001", "gnu"),
        ("LZ003", "mystery"),
        ("LZ002", "weak"),
    ]
    assert report.exit_code == 1
    with pytest.raises(LicenseDeniedError, match=r"gnu 1\.0: GPL-3\.0-or-later"):
        report.raise_for_violations()
    mild = audit(read_environment(site), usage="build-time", today=DAY)
    assert mild.exit_code == 3
    mild.raise_for_violations()


EXCEPTION = """
[[exception]]
package = "GNU"
allow = ["GPL-3.0-or-later"]
usage = ["distributed"]
reason = "tool, reviewed"
owner = "ada"
expires = {expires}
"""


@pytest.mark.parametrize(
    ("expires", "expected"),
    [
        ("2027-06-01", []),
        ("2026-12-10", [("LZ007", "gnu")]),
        ("2026-12-01", [("LZ001", "gnu"), ("LZ006", "gnu")]),
    ],
)
def test_an_exception_admits_until_it_expires(
    tmp_path: Path, site: Path, expires: str, expected: list[tuple[str, str]]
) -> None:
    rule = policy(tmp_path, EXCEPTION.replace("{expires}", expires))
    report = audit(read_environment(site), policy=rule, today=DAY)
    assert [row for row in rules(report) if row[1] == "gnu"] == expected


def test_an_exception_for_another_licence_or_version_admits_nothing(
    tmp_path: Path, site: Path
) -> None:
    for change in (
        ('allow = ["GPL-3.0-or-later"]', 'allow = ["GPL-2.0-only"]'),
        ('package = "GNU"', 'package = "GNU"\nversion = "==2.0"'),
        ('usage = ["distributed"]', 'usage = ["build-time"]'),
    ):
        text = EXCEPTION.replace("{expires}", "2027-06-01").replace(*change)
        report = audit(read_environment(site), policy=policy(tmp_path, text), today=DAY)
        assert ("LZ001", "gnu") in rules(report)
        assert ("LZ008", "gnu") in rules(report)


def test_a_clarification_holds_while_the_text_is_the_same(
    tmp_path: Path, site: Path
) -> None:
    packages = read_environment(site)
    finding = next(p.finding for p in packages if p.name == "free")
    assert finding is not None
    assert finding.text_sha256 is not None
    text = '[[clarify]]\npackage = "free"\nexpression = "ISC"\ntext-sha256 = "{hash}"\n'
    good = policy(tmp_path, text.replace("{hash}", finding.text_sha256))
    report = audit(packages, policy=good, today=DAY)
    item = next(item for item in report.items if item.package == "free")
    assert (item.finding.expression, item.finding.source) == ("ISC", "policy")
    void = policy(tmp_path, text.replace("{hash}", "0" * 64))
    report = audit(packages, policy=void, today=DAY)
    item = next(item for item in report.items if item.package == "free")
    assert item.finding.expression == "MIT"
    assert ("LZ009", "free") in rules(report)


def test_bundled_works_get_a_verdict_of_their_own(make_dist: MakeDist) -> None:
    nested = "Name: inner\nLicense-Expression: AGPL-3.0-only\n"
    folder = make_dist(
        headers="License: MIT",
        installed={"demo/_vendor/inner-1.dist-info/METADATA": nested},
    )
    packages = read_environment(folder.parent)
    report = audit(packages, usage="network-facing", today=DAY)
    assert rules(report) == [("LZ005", "demo")]
    assert report.items[0].verdict == "allow"


@pytest.mark.parametrize(
    ("extra", "line", "words"),
    [
        ("colour = 1", 4, "unknown key 'colour'"),
        ('unknown = "maybe"', 4, "unknown is allow, review or deny"),
        ("[[exception]]\npackage = 'x'", 4, "needs expires"),
        (
            EXCEPTION.replace("{expires}", "2027-01-01").replace("owner", "owned"),
            10,
            "unknown key 'owned'",
        ),
        (
            EXCEPTION.replace("{expires}", "2027-01-01").replace("tool, reviewed", ""),
            9,
            "needs reason",
        ),
        ("[[clarify]]\npackage = 'x'\ntext-sha256 = 'ab'", 6, "64 lower-case"),
        ('[classes]\n"MIT" = "permissive"', 5, "only LicenseRef-"),
        ('[classes]\n"LicenseRef-x" = "free"', 5, "no class 'free'"),
    ],
)
def test_a_policy_fault_names_file_and_line(
    tmp_path: Path, extra: str, line: int, words: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(tmp_path, extra)
    assert f"licensing.toml:{line}: " in str(caught.value)
    assert words in str(caught.value)


def test_a_policy_is_found_like_other_tools_find_theirs(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert Policy.discover(inner) is None or Policy.discover(inner).path  # type: ignore[union-attr]
    project = tmp_path / "a" / "pyproject.toml"
    project.write_text('[tool.lazycore.licensing]\nschema = 1\nunknown = "deny"\n')
    found = Policy.discover(inner)
    assert found is not None
    assert (found.path, found.unknown) == (str(project), "deny")
    project.write_text("[tool.lazycore.licensing]\nschema = 1\ncolour = 2\n")
    with pytest.raises(PolicyError, match=r"pyproject\.toml:3: unknown key 'colour'"):
        Policy.discover(inner)
    (tmp_path / "a" / "licensing.toml").write_text("schema = 1\n")
    assert Policy.discover(inner).path.endswith("licensing.toml")  # type: ignore[union-attr]


def test_own_classes_apply_to_references(tmp_path: Path, make_dist: MakeDist) -> None:
    site = make_dist("acme", "License-Expression: LicenseRef-Acme").parent
    rule = policy(tmp_path, '[classes]\n"LicenseRef-Acme" = "permissive"')
    assert audit(read_environment(site), policy=rule, today=DAY).exit_code == 0


LOCKS = {
    "uv.lock": (
        'version = 1\nrequires-python = ">=3.11"\n'
        '[[package]]\nname = "app"\nversion = "0"\nsource = { virtual = "." }\n'
        'dependencies = [{ name = "free" }]\n'
        "[package.dev-dependencies]\n"
        'dev = [{ name = "gnu" }]\n'
        '[[package]]\nname = "free"\nversion = "1.0"\nsource = { registry = "x" }\n'
        '[[package]]\nname = "gnu"\nversion = "1.0"\nsource = { registry = "x" }\n'
        'dependencies = [{ name = "deep" }]\n'
        '[[package]]\nname = "deep"\nsource = { registry = "x" }\n'
    ),
    "pylock.toml": (
        'lock-version = "1.0"\n[[packages]]\nname = "free"\nversion = "1.0"\n'
        '[[packages]]\nname = "gnu"\n'
    ),
    "poetry.lock": (
        '[[package]]\nname = "Free"\nversion = "1.0"\ngroups = ["main"]\n'
        '[[package]]\nname = "gnu"\nversion = "1.0"\ngroups = ["dev"]\n'
        "[metadata]\nlock-version = '2.1'\n"
    ),
    "pdm.lock": (
        '[metadata]\ngroups = ["default"]\n'
        '[[package]]\nname = "free"\nversion = "1.0"\ngroups = ["default"]\n'
        '[[package]]\nname = "gnu"\nversion = "1.0"\ngroups = ["default", "dev"]\n'
    ),
    "requirements.txt": (
        "# made by a tool\n--index-url https://example.org\nfree==1.0 \\\n"
        "    --hash=sha256:00\ngnu[extra]==1.0 ; python_version > '3'\n"
    ),
}


@pytest.mark.parametrize("name", LOCKS)
def test_every_lock_lists_its_packages(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(LOCKS[name])
    found = {p.name: p for p in read_lock(path, policy(tmp_path))}
    assert {"free", "gnu"} <= set(found)
    assert found["free"].version == "1.0"
    assert found["free"].usages == ("distributed",)
    gnu = {
        "uv.lock": ("build-time",),
        "poetry.lock": ("build-time",),
        "pdm.lock": ("distributed", "build-time"),
    }.get(name, ("distributed",))
    assert found["gnu"].usages == gnu


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("x.lock", b"\xff"),
        ("x.lock", b"[x]"),
        ("x.lock", b"package = 3"),
        ("requirements.txt", b"%%%"),
        ("requirements.txt", b""),
    ],
)
def test_what_is_no_lock_is_refused(tmp_path: Path, name: str, raw: bytes) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(SourceError, match=name):
        read_lock(tmp_path / name, Policy())


def test_a_lock_is_gated_by_a_snapshot_alone(
    tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock, evidence = tmp_path / "uv.lock", tmp_path / "licences.lock"
    lock.write_text(LOCKS["uv.lock"])
    assert main(["snapshot", "--env", str(site), "--output", str(evidence)]) == 0
    rule = tmp_path / "licensing.toml"
    rule.write_text(POLICY.replace("{extra}", ""))
    words = ["audit", "--lock", str(lock), "--policy", str(rule)]
    assert main([*words, "--evidence", str(evidence), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    by_name = {row["name"]: row for row in found["packages"]}
    assert by_name["gnu"]["usage"] == "build-time"
    assert {row["rule"] for row in found["findings"]} == {"LZ002", "LZ003", "LZ012"}
    assert main(words) == 3  # licences.lock beside the lock is found
    assert main([*words, "--env", str(site)]) == 3
    evidence.unlink()
    capsys.readouterr()
    assert main(words) == 2
    assert "snapshot --env PATH --output licences.lock" in capsys.readouterr().err


def test_evidence_for_another_version_is_said(site: Path) -> None:
    evidence = {p.name: p.finding for p in read_environment(site) if p.finding}
    lock = [Package(name="free", version="2.0")]
    report = audit(lock, evidence=evidence, today=DAY)
    assert rules(report) == [("LZ014", "free")]


def test_a_snapshot_reads_back_and_shows_changes(
    tmp_path: Path, site: Path, make_dist: MakeDist
) -> None:
    packages = read_environment(site)
    path = tmp_path / "licences.lock"
    path.write_text(snapshot(packages))
    known = read_snapshot(path)
    assert {n: f.expression for n, f in known.items()} == {
        "free": "MIT",
        "gnu": "GPL-3.0-or-later",
        "mystery": None,
        "weak": "MPL-2.0",
    }
    assert diff(known, known) == ()
    metadata = site / "weak-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("MPL-2.0", "SSPL-1.0"))
    (site / "free-1.0.dist-info/licenses/LICENSE").write_text("Changed terms.")
    make_dist("new", "License: MIT")
    path.write_text(snapshot(read_environment(site)))
    changes = [(c.name, c.kind) for c in diff(known, read_snapshot(path))]
    assert changes == [("free", "text"), ("new", "added"), ("weak", "license")]


@pytest.mark.parametrize(
    "text",
    [
        "schema = 2",
        "schema = 1\n[[package]]\ncolour = 1",
        "schema = 1\n[[package]]\nversion = '1'",
        "schema = 1\n[[package]]\nname = 'x'\nexpression = 'Nope'",
        "schema = 1\n[[package]]\nname = 'x'\nbundled = [['a']]",
        "schema = 1\npackage = 1",
        "schema = 1\npackage = [1]",
        "schema = 1\n[[package]]\nname = 3",
        "schema = 1\n[[package]]\nname = ''",
        "schema = 1\n[[package]]\nname = 'x'\nbundled = [['a', 'b', '(']]",
        "schema = 1\n[[package]]\nname = 'x'\n[[package]]\nname = 'X'",
    ],
)
def test_a_broken_snapshot_is_refused_by_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "licences.lock"
    path.write_text(text)
    with pytest.raises(SourceError, match=r"licences\.lock:\d"):
        read_snapshot(path)


def test_a_bill_of_materials_and_conda_state_their_licences(tmp_path: Path) -> None:
    bom = tmp_path / "bom.json"
    bom.write_text(
        '{"bomFormat": "CycloneDX", "components": [{"name": "A_b", "version": "1",'
        ' "licenses": [{"license": {"id": "MIT"}}]}, {"name": "c"}, 4]}'
    )
    found = read_cyclonedx(bom)
    said = [(p.name, p.finding.expression) for p in found if p.finding]
    assert said == [("a-b", "MIT"), ("c", None)]
    meta = tmp_path / "conda-meta"
    meta.mkdir()
    (meta / "x-1.json").write_text('{"name":"x","version":"1","license":"GPL-2.0"}')
    conda = read_conda(tmp_path)[0]
    assert conda.finding is not None
    assert conda.finding.expression == "GPL-2.0-only"
    for path in (tmp_path / "licensing.toml", meta / "x-1.json"):
        path.write_text("[]")
        with pytest.raises(SourceError):
            read_cyclonedx(path)
    with pytest.raises(SourceError, match="no conda package"):
        read_conda(tmp_path / "nowhere")


def test_cyclonedx_output_reads_back(tmp_path: Path, site: Path) -> None:
    report = audit(read_environment(site), today=DAY)
    for name in ("cyclonedx", "cyclonedx-1.7"):
        path = tmp_path / "bom.json"
        path.write_text(FORMATS[name](report))
        found = {
            p.name: p.finding.expression for p in read_cyclonedx(path) if p.finding
        }
        assert found["weak"] == "MPL-2.0"


def test_hostile_names_steer_neither_terminal_nor_annotation(
    make_dist: MakeDist,
) -> None:
    folder = make_dist()
    (folder / "METADATA").write_text(
        "Name: evil\x1b[31m\nVersion: 1\nLicense-Expression: GPL-3.0-only\n"
    )
    report = audit(read_environment(folder.parent), usage="distributed", today=DAY)
    for name in ("text", "markdown", "github"):
        assert "\x1b" not in FORMATS[name](report)
    assert "\x1b" not in FORMATS["sarif"](report)


def test_reports_are_byte_identical_over_seeds_locales_and_folders(
    tmp_path: Path, site: Path
) -> None:
    outputs = set()
    for seed, locale, cwd in (("0", "C", "/"), ("7", "C.UTF-8", str(tmp_path))):
        command = [sys.executable, "-m", "lazycore.licensing", "audit", "--json"]
        command += ["--env", str(site), "--today", "2026-12-01"]
        done = subprocess.run(
            command,
            cwd=cwd,
            env={"PYTHONHASHSEED": seed, "LC_ALL": locale, "PATH": os.defpath},
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 3, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_the_command_line_fails_as_documented(
    tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["audit", "--env", str(site), "--today", "2026-12-01"]
    assert main([*words, "--usage", "distributed"]) == 1
    assert main([*words, "--usage", "build-time"]) == 3
    assert main([*words, "--usage", "build-time", "--fail-on", "deny"]) == 0
    assert main(["audit", "--env", str(tmp_path / "nowhere")]) == 2
    assert main(["audit", "--policy", str(tmp_path / "no.toml")]) == 2
    assert main(["notice", "--env", str(site)]) == 0
    assert "Permission is hereby granted" in capsys.readouterr().out


def test_a_licence_that_left_its_snapshot_is_said(site: Path) -> None:
    before = {p.name: p.finding for p in read_environment(site) if p.finding}
    metadata = site / "weak-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("MPL-2.0", "MIT"))
    (site / "free-1.0.dist-info/licenses/LICENSE").write_text("Changed terms.")
    after = audit(read_environment(site), evidence=before, today=DAY)
    changed = [name for rule, name in rules(after) if rule == "LZ011"]
    assert changed == ["free", "weak"]


def test_guesses_and_conflicts_and_idle_clarifications_are_said(
    tmp_path: Path, make_dist: MakeDist
) -> None:
    make_dist("guessed", body="# X\n\n## License\n\nMIT License.\n")
    site = make_dist("torn", "License: MIT", files={"LICENSE": "lorem " * 40}).parent
    idle = (
        f'[[clarify]]\npackage = "no"\nexpression = "MIT"\ntext-sha256 = "{"0" * 64}"'
    )
    report = audit(read_environment(site), policy=policy(tmp_path, idle), today=DAY)
    assert [rule for rule, _ in rules(report)] == ["LZ004", "LZ013", "LZ010"]

"""Policies: exceptions, clarifications, ranges, and what a policy may not say."""

from __future__ import annotations

import datetime as dt
import sys
from typing import TYPE_CHECKING

import pytest

from lazycore.licensing import (
    AuditReport,
    BundledLicense,
    Confidence,
    LicenseFinding,
    Package,
    Policy,
    PolicyError,
    Usage,
    audit,
)
from lazycore.licensing._versions import matches

if TYPE_CHECKING:
    from pathlib import Path

DAY = dt.date(2026, 12, 1)


def package(
    expression: str | None,
    *,
    text: str | None = "a" * 64,
    bundled: str | None = None,
    usages: tuple[str, ...] = ("distributed",),
) -> Package:
    parts = (BundledLicense(path="x.so", reason="shared-library", expression=bundled),)
    return Package(
        name="demo",
        version="2.5",
        usages=tuple(map(Usage, usages)),
        finding=LicenseFinding(
            name="demo",
            version="2.5",
            expression=expression,
            source="license-field",
            confidence=Confidence.DERIVED,
            text_sha256=text,
            bundled=parts if bundled else (),
        ),
    )


def judge(tmp_path: Path, text: str, one: Package) -> AuditReport:
    path = tmp_path / "licensing.toml"
    path.write_text(f"schema = 1\n{text}")
    return audit([one], policy=Policy.load(path), today=DAY)


def exception(allow: str, more: str = "") -> str:
    return f"""
[[exception]]
package = "demo"
allow = [{allow}]
{more}
reason = "reviewed"
owner = "ada"
expires = 2027-06-01
"""


def rules(report: AuditReport) -> list[str]:
    return [finding.rule for finding in report.findings]


@pytest.mark.parametrize(
    ("expression", "allow", "admitted"),
    [
        ("GPL-3.0-only", "'GPL-3.0-only'", True),
        ("MIT AND GPL-3.0-only", "'GPL-3.0-only'", True),
        ("GPL-3.0-only AND SSPL-1.0", "'GPL-3.0-only'", False),
        ("GPL-3.0-only AND SSPL-1.0", "'GPL-3.0-only AND SSPL-1.0'", True),
        ("GPL-3.0-only AND SSPL-1.0", "'SSPL-1.0', 'GPL-3.0-only'", True),
        ("GPL-2.0-only", "'GPL-3.0-only'", False),
        ("GPL-2.0-or-later", "'GPL-2.0-only'", False),
    ],
)
def test_an_exception_adds_licences_to_those_allowed(
    tmp_path: Path, expression: str, allow: str, *, admitted: bool
) -> None:
    report = judge(tmp_path, exception(allow), package(expression))
    assert (report.items[0].verdict == "allow") == admitted
    assert report.exit_code == (0 if admitted else 1)


def test_an_exception_for_one_use_leaves_the_others(tmp_path: Path) -> None:
    both = package("GPL-3.0-only", usages=("distributed", "runtime-internal"))
    text = exception("'GPL-3.0-only'", "usage = ['distributed']")
    report = judge(tmp_path, text, both)
    assert (report.items[0].verdict, report.items[0].usage) == (
        "review",
        "runtime-internal",
    )
    assert rules(report) == ["LZ002"]


def test_what_is_bundled_is_judged_in_every_use_and_can_be_excepted(
    tmp_path: Path,
) -> None:
    one = package("MIT", bundled="GPL-3.0-only", usages=("build-time", "distributed"))
    report = judge(tmp_path, "", one)
    assert rules(report) == ["LZ005", "LZ005"]
    report = judge(tmp_path, exception("'GPL-3.0-only'"), one)
    assert rules(report) == []


@pytest.mark.parametrize(
    ("version", "version_fits"),
    [("==2.5", True), ("2.5", True), (">=2,<3", True), ("==2.*", True), ("<2", False)],
)
def test_a_version_may_be_a_range(
    tmp_path: Path, version: str, *, version_fits: bool
) -> None:
    pytest.importorskip("packaging", reason="the extra versions is not installed")
    text = exception("'GPL-3.0-only'", f"version = '{version}'")
    report = judge(tmp_path, text, package("GPL-3.0-only"))
    assert (report.exit_code == 0) == version_fits


def test_an_unorderable_version_fits_no_range() -> None:
    pytest.importorskip("packaging", reason="the extra versions is not installed")
    assert not matches(">=1", "unknown")
    assert not matches(">=1", "")
    assert matches("", "unknown")


def test_a_range_needs_packaging_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("packaging", "packaging.specifiers", "packaging.version"):
        monkeypatch.setitem(sys.modules, module, None)
    exact = exception("'GPL-3.0-only'", "version = '==2.5'")
    assert judge(tmp_path, exact, package("GPL-3.0-only")).exit_code == 0
    text = exception("'GPL-3.0-only'", "version = '>=2'")
    with pytest.raises(
        PolicyError, match=r"licensing\.toml:6: .*licensing\[versions\]"
    ):
        judge(tmp_path, text, package("GPL-3.0-only"))


@pytest.mark.parametrize("version", ["'about 2'", "2", "'>=2 or so'"])
def test_a_version_that_is_none_is_refused(tmp_path: Path, version: str) -> None:
    text = exception("'MIT'", f"version = {version}")
    with pytest.raises(PolicyError, match=r"licensing\.toml:6: version"):
        judge(tmp_path, text, package("MIT"))


CLARIFY = """
[[clarify]]
package = "demo"
expression = "BSD-2-Clause"
version = "==2.5"
"""


def test_without_a_licence_file_a_clarification_is_bound_to_a_version(
    tmp_path: Path,
) -> None:
    report = judge(tmp_path, CLARIFY, package(None, text=None))
    assert report.items[0].finding.expression == "BSD-2-Clause"
    assert rules(report) == []
    # A licence file appeared: the fact was stated without it.
    assert "LZ009" in rules(judge(tmp_path, CLARIFY, package(None)))
    with pytest.raises(PolicyError, match="bound to its exact version"):
        judge(tmp_path, CLARIFY.replace("==2.5", ""), package(None, text=None))


def test_a_version_that_the_policy_states_needs_no_snapshot(tmp_path: Path) -> None:
    lock = Package(name="demo", version="2.5")
    assert "LZ012" in rules(judge(tmp_path, "", lock))
    report = judge(tmp_path, CLARIFY, lock)
    assert (rules(report), report.items[0].verdict) == ([], "allow")
    other = Package(name="demo", version="2.6")
    assert "LZ012" in rules(judge(tmp_path, CLARIFY, other))


def test_policies_made_in_code_tell_their_exceptions_apart() -> None:
    from lazycore.licensing import PolicyException

    made = [
        PolicyException(
            package=name,
            allow=("GPL-3.0-only",),
            usages=(),
            reason="r",
            owner="o",
            expires=dt.date(2028, 1, 1),
        )
        for name in ("demo", "absent")
    ]
    report = audit(
        [package("GPL-3.0-only")], policy=Policy(exceptions=tuple(made)), today=DAY
    )
    assert [(f.rule, f.package) for f in report.findings] == [("LZ008", "absent")]

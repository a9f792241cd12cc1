"""The tables in the documents are the ones that run."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazycore.licensing import (
    DECISIONS,
    RISK_MITIGATIONS,
    LicenseClass,
    Usage,
    hub_licenses,
)
from lazycore.licensing._rules import REMEDIES, RULES

DOCS = Path(__file__).parents[2] / "docs" / "licensing"
pytestmark = pytest.mark.skipif(
    not DOCS.is_dir(), reason="the documentation does not lie beside these tests"
)


def cells(name: str) -> list[list[str]]:
    lines = (DOCS / name).read_text("utf-8").splitlines()
    rows = [line.strip("|").split(" | ") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]


def test_the_policy_page_holds_the_decision_table() -> None:
    rows = cells("policy.md")
    by_class = {row[0]: row[1:] for row in rows if len(row) == len(Usage) + 1}
    for kind in LicenseClass:
        expected = [DECISIONS[kind, usage].verdict.value[0] for usage in Usage]
        assert by_class[kind.slug] == expected
    assert by_class["class"] == [usage.value for usage in Usage]
    said = {row[0].strip("`"): row[1] for row in rows if len(row) == 2}
    for risk, mitigation in RISK_MITIGATIONS.items():
        assert said[risk.value] == mitigation.text


def test_the_model_page_holds_every_row_of_the_hub_table() -> None:
    rows = {row[0].strip("`"): row for row in cells("model-licences.md")}
    for tag, known in hub_licenses().items():
        row = rows[tag]
        assert row[1] == known.license_class.slug
        assert row[2] == known.commercial
        assert row[3] == str(known.default_tier or "by policy or review")
        assert row[4] == "; ".join(known.conditions)
        assert row[5] == known.basis
    assert len(rows) == len(hub_licenses()) + 2  # the head and its line


def test_the_audit_page_holds_every_rule() -> None:
    rows = {row[0]: row[1:] for row in cells("audit.md")}
    for rule, meaning in RULES.items():
        assert rows[rule] == [meaning, REMEDIES[rule]]

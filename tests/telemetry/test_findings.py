"""Findings: identifiers, severities, SARIF and OCSF."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lazycore.telemetry import (
    Finding,
    SecuritySeverity,
    findings_to_sarif,
    genai_span,
    set_security_finding,
)
from lazycore.telemetry._taxonomy import owasp_ids, risk_category

SEVERITIES = [
    ("info", 0.0, "note", 1, 9),
    ("low", 3.9, "note", 2, 12),
    ("medium", 4.0, "warning", 3, 13),
    ("high", 8.9, "error", 4, 17),
    ("critical", 9.0, "error", 5, 21),
]


@pytest.mark.parametrize(("value", "cvss", "level", "ocsf", "otel"), SEVERITIES)
def test_a_severity_speaks_every_scale(
    value: str, cvss: float, level: str, ocsf: int, otel: int
) -> None:
    severity = SecuritySeverity.from_cvss(cvss)
    assert severity.value == value
    assert severity.sarif_level == level
    assert severity.ocsf_id == ocsf
    assert severity.otel_severity == otel
    assert SecuritySeverity.from_cvss(severity.security_severity) is severity


def test_severities_are_ordered() -> None:
    members = list(SecuritySeverity)
    assert sorted(members, key=lambda m: m.value) != members
    assert sorted({*members}) == members
    assert max(members) is SecuritySeverity.CRITICAL
    assert SecuritySeverity.LOW <= SecuritySeverity.LOW < "medium"
    assert SecuritySeverity.HIGH >= "high"
    assert SecuritySeverity.HIGH > "low"


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("LLM01", ("LLM01:2025",)),
        ("llm1", ("LLM01:2025",)),
        ("LLM10:2025", ("LLM10:2025",)),
        ("ASI-01", ("ASI01:2026",)),
        ("MCP03", ("MCP03",)),
        ("MCP03:2025", ("MCP03:2025",)),
        (
            ["LLM02", "ASI01", "llm-02", "AML.T0051"],
            ("AML.T0051", "ASI01:2026", "LLM02:2025"),
        ),
        ([], ()),
    ],
)
def test_owasp_identifiers_become_canonical(given: Any, canonical: Any) -> None:
    assert owasp_ids(given) == canonical


def test_each_numbered_risk_has_a_slug() -> None:
    assert risk_category("LLM01:2025") == "prompt_injection"
    assert risk_category("ASI10:2026") == "rogue_agents"
    assert risk_category("MCP01") is None


def test_a_finding_is_written_to_span_and_event(recorded: Any) -> None:
    with genai_span("audit.probe") as span:
        finding = set_security_finding(
            span, "high", "LLM01", rule_id="probe-7", cvss=8.1, cwe="CWE-94"
        )
    found = recorded.span.attributes
    assert found["security.severity"] == "high"
    assert found["owasp.mapping"] == ("LLM01:2025",)
    assert found["security_rule.name"] == "probe-7"
    assert found["security.finding.cvss"] == 8.1
    assert [e.name for e in recorded.span.events] == ["security.finding"]
    (record,) = recorded.logs
    assert record.event_name == "security.finding"
    assert record.severity_number.value == 17
    assert record.attributes["security.finding.id"] == finding.finding_id


def test_each_finding_has_an_event_of_its_own(recorded: Any) -> None:
    with genai_span("audit.probe") as span:
        set_security_finding(span, "high", "LLM01")
        set_security_finding(span, "low", "LLM02")
    events = recorded.span.events
    assert [e.attributes["security.severity"] for e in events] == ["high", "low"]


def test_the_same_finding_has_the_same_identifier_run_after_run() -> None:
    def make(**more: Any) -> str | None:
        return Finding(
            severity=SecuritySeverity.HIGH, owasp=("LLM01",), rule_id="r", **more
        ).finding_id

    assert make() == make(evidence="another run")
    assert make() != make(target="agent")
    assert make(finding_id="mine") == "mine"


def test_a_sarif_log_has_what_code_scanning_reads() -> None:
    findings = [
        Finding(severity=SecuritySeverity.HIGH, rule_id="a", owasp=("LLM01",)),
        Finding(
            severity=SecuritySeverity.CRITICAL,
            rule_id="a",
            cvss=9.8,
            target="agent",
            evidence="quoted",
        ),
        Finding(severity=SecuritySeverity.INFO, title="b"),
    ]
    log = json.loads(json.dumps(findings_to_sarif(findings, tool="t", version="1")))
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["a", "finding"]
    assert rules[0]["properties"]["security-severity"] == "9.8"
    results = run["results"]
    assert [r["ruleIndex"] for r in results] == [0, 0, 1]
    assert [r["level"] for r in results] == ["error", "error", "note"]
    assert results[0]["message"]["text"] == "prompt injection"
    assert results[1]["locations"][0]["logicalLocations"][0]["name"] == "agent"
    assert "quoted" not in json.dumps(log)
    told = findings_to_sarif(findings, evidence=True)
    assert "quoted" in json.dumps(told)


def test_an_ocsf_finding_names_class_and_type() -> None:
    finding = Finding(
        severity=SecuritySeverity.HIGH,
        owasp=("LLM01",),
        cwe=("CWE-94",),
        cve=("CVE-2026-12345",),
        cvss=8.1,
        target="agent",
        evidence="quoted",
    )
    found = json.loads(json.dumps(finding.to_ocsf(time_ms=7)))
    assert found["class_uid"] == 2002
    assert found["category_uid"] == 2
    assert found["type_uid"] == found["class_uid"] * 100 + found["activity_id"]
    assert found["severity_id"] == 4
    assert found["time"] == 7
    assert found["vulnerabilities"][0]["cve"]["uid"] == "CVE-2026-12345"
    assert "quoted" not in json.dumps(found)
    assert found["unmapped"]["cvss"] == 8.1
    assert "quoted" in json.dumps(finding.to_ocsf(evidence=True))


def test_a_finding_is_frozen() -> None:
    finding = Finding(severity=SecuritySeverity.LOW)
    with pytest.raises(AttributeError):
        finding.severity = SecuritySeverity.HIGH  # type: ignore[misc]

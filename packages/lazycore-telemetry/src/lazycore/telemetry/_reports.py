"""Findings in the formats of code scanning and of security data lakes.

Sources: SARIF 2.1.0 (OASIS); OCSF Vulnerability Finding, class 2002 of category 2.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._taxonomy import risk_category
from lazycore.telemetry._values import JSON, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazycore.telemetry._findings import Finding

__all__ = ["findings_to_sarif", "ocsf_finding", "sarif_result"]

SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
OCSF_VERSION: Final = "1.3.0"
EVIDENCE_CHARS: Final = 8192


def _rule(finding: Finding) -> str:
    if finding.rule_id:
        return finding.rule_id
    named = finding.owasp or finding.cwe or finding.atlas
    return named[0] if named else "finding"


def _message(finding: Finding) -> str:
    if finding.title:
        return finding.title
    slug = next(filter(None, map(risk_category, finding.owasp)), None)
    return (slug or f"{finding.severity.value} finding").replace("_", " ")


def _tags(finding: Finding) -> list[JSON]:
    return ["security", *finding.owasp, *finding.atlas, *finding.cwe, *finding.cve]


def sarif_result(finding: Finding, *, evidence: bool) -> dict[str, JSON]:
    """Return a SARIF `result` for one finding."""
    properties: dict[str, JSON] = {
        "security-severity": f"{finding.score:.1f}",
        "severity": finding.severity.value,
        "tags": _tags(finding),
    }
    for name in ("verdict", "action", "target", "category"):
        value = getattr(finding, name)
        if value is not None:
            properties[name] = value
    if evidence and finding.evidence is not None:
        properties["evidence"] = normalise(finding.evidence, max_chars=EVIDENCE_CHARS)
    result: dict[str, JSON] = {
        "ruleId": _rule(finding),
        "level": finding.severity.sarif_level,
        "kind": "fail",
        "message": {"text": _message(finding)},
        "partialFingerprints": {"lazycoreFinding/v1": finding.finding_id},
        "properties": properties,
    }
    if finding.target:
        location: dict[str, JSON] = {"name": finding.target, "kind": "resource"}
        result["locations"] = [{"logicalLocations": [location]}]
    return result


def findings_to_sarif(
    findings: Iterable[Finding],
    *,
    tool: str = "lazycore",
    version: str | None = None,
    evidence: bool = False,
) -> dict[str, JSON]:
    """Return a SARIF 2.1.0 log with one run, ready for `json.dumps`.

    Args:
        findings: What was found, in the order to report.
        tool: Name of the tool that found it.
        version: Version of that tool.
        evidence: Whether evidence is written too; it may quote secrets.

    Raises:
        TelemetryUsageError: If an item is no `Finding`.

    Example:
        >>> from lazycore.telemetry import Finding
        >>> log = findings_to_sarif([Finding(severity="high", rule_id="probe-7")])
        >>> log["version"], len(log["runs"][0]["results"])
        ('2.1.0', 1)
    """
    found = list(findings)
    for finding in found:
        if not hasattr(finding, "finding_id"):
            raise TelemetryUsageError(
                f"expected a Finding, found {type(finding).__name__}"
            )
    rules: dict[str, JSON] = {}
    worst: dict[str, float] = {}
    for finding in found:
        name = _rule(finding)
        worst[name] = max(worst.get(name, 0.0), finding.score)
    for finding in found:
        name = _rule(finding)
        tags = _tags(finding)
        rules.setdefault(
            name,
            {
                "id": name,
                "shortDescription": {"text": _message(finding)},
                "properties": {
                    "security-severity": f"{worst[name]:.1f}",
                    "tags": tags,
                },
            },
        )
    driver: dict[str, JSON] = {"name": tool, "rules": list(rules.values())}
    if version is not None:
        driver["version"] = version
    order = {name: index for index, name in enumerate(rules)}
    results: list[JSON] = []
    for finding in found:
        result = sarif_result(finding, evidence=evidence)
        result["ruleIndex"] = order[_rule(finding)]
        results.append(result)
    run: dict[str, JSON] = {"tool": {"driver": driver}, "results": results}
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def ocsf_finding(
    finding: Finding, *, time_ms: int | None, evidence: bool
) -> dict[str, JSON]:
    """Return an OCSF Vulnerability Finding."""
    when = time.time_ns() // 1_000_000 if time_ms is None else time_ms
    info: dict[str, JSON] = {
        "uid": finding.finding_id,
        "title": _message(finding),
        "types": list[JSON]([*finding.owasp, *finding.atlas]),
    }
    vulnerability: dict[str, JSON] = {
        "title": _message(finding),
        "severity": finding.severity.value.capitalize(),
    }
    if finding.cwe:
        vulnerability["related_cwes"] = [{"uid": uid} for uid in finding.cwe]
    if finding.cve:
        cve: dict[str, JSON] = {"uid": finding.cve[0]}
        if finding.cvss is not None:
            cve["cvss"] = [{"base_score": finding.cvss, "version": "3.1"}]
        vulnerability["cve"] = cve
    found: dict[str, JSON] = {
        "activity_id": 1,
        "category_uid": 2,
        "class_uid": 2002,
        "type_uid": 200201,
        "time": when,
        "severity_id": finding.severity.ocsf_id,
        "status_id": 1,
        "metadata": {"version": OCSF_VERSION, "product": {"name": "lazycore"}},
        "finding_info": info,
        "vulnerabilities": [vulnerability],
    }
    if finding.target:
        found["resources"] = [{"name": finding.target}]
    unmapped: dict[str, JSON] = {}
    for name in ("rule_id", "verdict", "action", "category", "cvss"):
        value = getattr(finding, name)
        if value is not None:
            unmapped[name] = value
    if evidence and finding.evidence is not None:
        unmapped["evidence"] = normalise(finding.evidence, max_chars=EVIDENCE_CHARS)
    if unmapped:
        found["unmapped"] = unmapped
    return found

"""Write an audit as text, JSON, Markdown, GitHub annotations, SARIF or CycloneDX."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from lazycore.licensing import _tool
from lazycore.licensing._audit import RULES
from lazycore.licensing._decision import Verdict
from lazycore.licensing._terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.licensing._audit import AuditReport

_LEVELS = {Verdict.DENY: "error", Verdict.REVIEW: "warning", Verdict.ALLOW: "note"}


def to_text(report: AuditReport) -> str:
    """Return lines for people: findings first, then a count."""
    lines = [
        f"{finding.verdict.upper():<7}{finding.rule}  {printable(finding.message)}"
        + (f"  [{printable(finding.where)}]" if finding.where else "")
        for finding in report.findings
    ]
    counts = dict.fromkeys(Verdict, 0)
    for item in report.items:
        counts[item.verdict] += 1
    lines.append(
        f"{len(report.items)} packages: {counts[Verdict.ALLOW]} allowed, "
        f"{counts[Verdict.REVIEW]} to review, {counts[Verdict.DENY]} denied; "
        f"{len(report.findings)} findings"
    )
    return "\n".join(lines) + "\n"


def to_json(report: AuditReport) -> str:
    """Return everything as JSON with sorted keys."""
    document = {
        "schema": 1,
        "packages": [_item(item) for item in report.items],
        "findings": [
            {
                "rule": finding.rule,
                "verdict": finding.verdict,
                "package": finding.package,
                "version": finding.version,
                "message": finding.message,
                "where": finding.where,
            }
            for finding in report.findings
        ],
        "exit_code": report.exit_code,
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _item(item: Any) -> dict[str, Any]:
    finding, assessment = item.finding, item.assessment
    return {
        "name": item.package,
        "version": item.version,
        "usage": item.usage,
        "expression": finding.expression,
        "elected": list(assessment.elected) if assessment else [],
        "class": assessment.license_class.slug if assessment else "unknown",
        "risk": assessment.risk if assessment else "unknown-license",
        "verdict": item.verdict,
        "excepted": item.excepted,
        "source": finding.source,
        "confidence": finding.confidence,
        "text_sha256": finding.text_sha256,
        "conflicts": list(finding.conflicts),
        "evidence": [
            {"kind": e.kind, "where": e.where, "says": e.says} for e in finding.evidence
        ],
        "bundled": [
            {"path": b.path, "reason": b.reason, "expression": b.expression}
            for b in finding.bundled
        ],
    }


def to_markdown(report: AuditReport) -> str:
    """Return a table of findings and a table of packages."""

    def cell(text: object) -> str:
        return printable(str(text)).replace("|", "\\|").replace("\n", " ")

    lines = ["# Licence audit", "", "| verdict | rule | finding |", "|---|---|---|"]
    lines += [
        f"| {f.verdict} | {f.rule} | {cell(f.message)} |" for f in report.findings
    ]
    lines += ["", "| package | version | licence | use | verdict |"]
    lines.append("|---|---|---|---|---|")
    lines += [
        f"| {cell(i.package)} | {cell(i.version)} | "
        f"{cell(i.finding.expression or 'unknown')} | {i.usage} | {i.verdict} |"
        for i in report.items
    ]
    return "\n".join(lines) + "\n"


def to_github(report: AuditReport) -> str:
    """Return workflow commands that GitHub shows as annotations."""
    lines = []
    for finding in report.findings:
        level = {"note": "notice"}.get(
            _LEVELS[finding.verdict], _LEVELS[finding.verdict]
        )
        message = printable(finding.message).replace("%", "%25").replace("\n", "%0A")
        place = ""
        path, _, line = finding.where.rpartition(":")
        if path and line.isdigit():
            place = f"file={_property(path)},line={line},"
        lines.append(f"::{level} {place}title={finding.rule}::{message}")
    return "".join(f"{line}\n" for line in lines)


def _property(text: str) -> str:
    for plain, escaped in (("%", "%25"), (":", "%3A"), (",", "%2C")):
        text = text.replace(plain, escaped)
    return text


def to_sarif(report: AuditReport) -> str:
    """Return SARIF 2.1.0 (OASIS)."""
    names = sorted(RULES)
    results = []
    for finding in report.findings:
        path, _, line = finding.where.rpartition(":")
        place: dict[str, Any] = {
            "artifactLocation": {"uri": path.replace("\\", "/") or "licences.lock"}
        }
        if path and line.isdigit():
            place["region"] = {"startLine": int(line)}
        results.append(
            {
                "ruleId": finding.rule,
                "ruleIndex": names.index(finding.rule),
                "level": _LEVELS[finding.verdict],
                "message": {"text": finding.message},
                "locations": [{"physicalLocation": place}],
                "partialFingerprints": {
                    "package/v1": f"{finding.package}:{finding.rule}"
                },
            }
        )
    rules = [{"id": name, "shortDescription": {"text": RULES[name]}} for name in names]
    driver = {"name": _tool.NAME, "version": _tool.version(), "rules": rules}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def to_cyclonedx(report: AuditReport, *, version: str = "1.6") -> str:
    """Return a CycloneDX document with the concluded licences."""
    components = []
    for item in report.items:
        component: dict[str, Any] = {
            "type": "library",
            "name": item.package,
            "bom-ref": f"pkg:pypi/{item.package}@{item.version}",
            "purl": f"pkg:pypi/{item.package}@{item.version}",
            "properties": [
                {"name": "lazycore:verdict", "value": str(item.verdict)},
                {"name": "lazycore:usage", "value": str(item.usage)},
                {"name": "lazycore:confidence", "value": str(item.finding.confidence)},
            ],
        }
        if item.version:
            component["version"] = item.version
        if item.finding.expression:
            component["licenses"] = [{"expression": item.finding.expression}]
        components.append(component)
    tool = {"type": "application", "name": _tool.NAME, "version": _tool.version()}
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{version}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": version,
        "version": 1,
        "metadata": {"tools": {"components": [tool]}},
        "components": _unique(components),
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _unique(components: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep one component per reference: CycloneDX wants them unique."""
    return list({one["bom-ref"]: one for one in components}.values())


FORMATS: Final[dict[str, Callable[[AuditReport], str]]] = {
    "text": to_text,
    "json": to_json,
    "markdown": to_markdown,
    "github": to_github,
    "sarif": to_sarif,
    "cyclonedx": to_cyclonedx,
    "cyclonedx-1.7": lambda report: to_cyclonedx(report, version="1.7"),
}

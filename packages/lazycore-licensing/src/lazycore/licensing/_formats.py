"""Write an audit as text, JSON, Markdown or GitHub annotations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from lazycore.licensing._cyclonedx import to_cyclonedx
from lazycore.licensing._decision import Verdict
from lazycore.licensing._rules import REMEDIES, RULES
from lazycore.licensing._sarif import LEVELS, place_of, to_sarif
from lazycore.licensing._terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.licensing._audit import AuditReport


def to_text(report: AuditReport) -> str:
    """Return lines for people: findings, what to do about each rule, a count."""
    lines = [
        f"{finding.verdict.upper():<7}{finding.rule}  {printable(finding.message)}"
        + (f"  [{printable(finding.where)}]" if finding.where else "")
        for finding in report.findings
    ]
    rules = sorted({finding.rule for finding in report.findings})
    lines += [f"to do  {rule}  {REMEDIES[rule]}" for rule in rules]
    lines.append(summary(report))
    return "\n".join(lines) + "\n"


def summary(report: AuditReport) -> str:
    """Return one line that counts packages by verdict, and findings."""
    counts = dict.fromkeys(Verdict, 0)
    for item in report.items:
        counts[item.verdict] += 1
    return (
        f"{_counted(len(report.items), 'package')}: {counts[Verdict.ALLOW]} allowed, "
        f"{counts[Verdict.REVIEW]} to review, {counts[Verdict.DENY]} denied; "
        f"{_counted(len(report.findings), 'finding')}"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
        level = {"note": "notice"}.get(LEVELS[finding.verdict], LEVELS[finding.verdict])
        message = printable(finding.message).replace("%", "%25")
        path, line = place_of(finding.where)
        place = f"file={_property(path)}," if path else ""
        place += f"line={line}," if line else ""
        title = f"{finding.rule} {RULES[finding.rule]}"
        lines.append(f"::{level} {place}title={_property(title)}::{message}")
    return "".join(f"{line}\n" for line in lines)


def _property(text: str) -> str:
    text = printable(text)
    for plain, escaped in (("%", "%25"), (":", "%3A"), (",", "%2C")):
        text = text.replace(plain, escaped)
    return text


FORMATS: Final[dict[str, Callable[[AuditReport], str]]] = {
    "text": to_text,
    "json": to_json,
    "markdown": to_markdown,
    "github": to_github,
    "sarif": to_sarif,
    "cyclonedx": to_cyclonedx,
    "cyclonedx-1.7": lambda report: to_cyclonedx(report, version="1.7"),
}

"""Write an audit as SARIF 2.1.0 (OASIS), for code-scanning services."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from lazycore.licensing import _tool
from lazycore.licensing._decision import Verdict
from lazycore.licensing._rules import REMEDIES, RULES

if TYPE_CHECKING:
    from lazycore.licensing._audit import AuditFinding, AuditReport

LEVELS: Final = {
    Verdict.DENY: "error",
    Verdict.REVIEW: "warning",
    Verdict.ALLOW: "note",
}
# Where a finding about an installed package is shown: services want a file, and
# this is the one that asks for the package.
FALLBACK: Final = "pyproject.toml"
_NOTES: Final = frozenset(("LZ007", "LZ008", "LZ010"))
_ERRORS: Final = frozenset(("LZ001",))


def place_of(where: str) -> tuple[str, int | None]:
    """Split ``file:line``; a file below the working folder becomes relative to it.

    Services look for the file below the root of the repository, where they run.
    """
    path, _, number = where.rpartition(":")
    line = int(number) if path and number.isdigit() else None
    name = path if line else where
    if Path(name).is_absolute():
        try:
            name = str(Path(name).relative_to(Path.cwd()))
        except ValueError:
            return name.replace("\\", "/"), line
    return name.replace("\\", "/"), line


def to_sarif(report: AuditReport) -> str:
    """Return the findings of an audit as one SARIF run."""
    names = sorted(RULES)
    driver = {
        "name": _tool.NAME,
        "version": _tool.version(),
        "rules": [_rule(name) for name in names],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "exitCode": report.exit_code}],
        "results": [_result(one, names.index(one.rule)) for one in report.findings],
    }
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _rule(name: str) -> dict[str, Any]:
    level = "error" if name in _ERRORS else "note" if name in _NOTES else "warning"
    return {
        "id": name,
        "shortDescription": {"text": RULES[name]},
        "help": {"text": f"{REMEDIES[name]}."},
        "defaultConfiguration": {"level": level},
    }


def _result(finding: AuditFinding, index: int) -> dict[str, Any]:
    path, line = place_of(finding.where)
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(path or FALLBACK)}}
    if line is not None:
        place["region"] = {"startLine": line}
    location: dict[str, Any] = {"physicalLocation": place}
    if finding.package:
        title = f"{finding.package} {finding.version}".strip()
        location["logicalLocations"] = [{"name": title, "kind": "module"}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": LEVELS[finding.verdict],
        "message": {"text": finding.message},
        "locations": [location],
        "partialFingerprints": {"finding/v1": _fingerprint(finding)},
    }


def _uri(path: str) -> str:
    return ("file://" if path.startswith("/") else "") + quote(path, safe="/@+,-._~")


def _fingerprint(finding: AuditFinding) -> str:
    """Return what stays the same while only the version or the line changes."""
    message = finding.message
    if finding.version:
        message = message.replace(finding.version, "")
    text = f"{finding.rule}\0{finding.package}\0{message}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]

"""Write an audit as a CycloneDX bill of materials."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lazycore.licensing import _tool

if TYPE_CHECKING:
    from lazycore.licensing._audit import AuditItem, AuditReport


def to_cyclonedx(report: AuditReport, *, version: str = "1.6") -> str:
    """Return a CycloneDX document with the concluded licences.

    It holds neither a time nor a serial number: the same audit gives the same bytes.

    Args:
        report: The audit.
        version: ``1.6`` or ``1.7``.
    """
    tool = {"type": "application", "name": _tool.NAME, "version": _tool.version()}
    components = [_component(item) for item in report.items]
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{version}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": version,
        "version": 1,
        "metadata": {"tools": {"components": [tool]}},
        # One component per reference: CycloneDX wants them unique.
        "components": list({one["bom-ref"]: one for one in components}.values()),
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _component(item: AuditItem) -> dict[str, Any]:
    purl = item.finding.purl or _pypi(item.package, item.version)
    component: dict[str, Any] = {
        "type": "library",
        "name": item.package,
        "bom-ref": purl,
        "purl": purl,
        "properties": [
            {"name": "lazycore:verdict", "value": str(item.verdict)},
            {"name": "lazycore:usage", "value": str(item.usage)},
            {"name": "lazycore:confidence", "value": str(item.finding.confidence)},
        ],
    }
    if item.version:
        component["version"] = item.version
    if item.finding.expression:
        stated = {"expression": item.finding.expression, "acknowledgement": "concluded"}
        component["licenses"] = [stated]
    inner = [
        {
            "type": "file",
            "name": part.path,
            "bom-ref": f"{purl}#{quote(part.path)}",
            "licenses": [
                {"expression": part.expression, "acknowledgement": "concluded"}
            ],
        }
        for part in item.finding.bundled
        if part.expression
    ]
    if inner:
        component["components"] = list({one["bom-ref"]: one for one in inner}.values())
    return component


def _pypi(name: str, version: str) -> str:
    """Return a package URL (purl specification, type pypi)."""
    end = f"@{quote(version, safe='')}" if version else ""
    return f"pkg:pypi/{quote(name, safe='')}{end}"

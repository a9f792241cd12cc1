"""The commands ``assess`` and ``explain``."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING, Final

from lazycore.licensing._assess import Assessment, assess
from lazycore.licensing._classes import spdx_licenses
from lazycore.licensing._cli_audit import find_policy
from lazycore.licensing._decision import Usage, Verdict
from lazycore.licensing._errors import ExpressionError, SourceError
from lazycore.licensing._expression import parse
from lazycore.licensing._policy import normalize_name
from lazycore.licensing._resolve import resolve
from lazycore.licensing._sources import metadata_folders
from lazycore.licensing._terminal import printable

if TYPE_CHECKING:
    import argparse

    from lazycore.licensing._findings import LicenseFinding

EXIT_CODES: Final = {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.REVIEW: 3}


def _plain(found: Assessment) -> dict[str, object]:
    return {
        "expression": found.expression,
        "usage": str(found.usage),
        "class": found.license_class.slug,
        "verdict": str(found.verdict),
        "risk": str(found.risk),
        "mitigation": str(found.mitigation),
        "instruction": found.mitigation.text,
        "elected": list(found.elected),
        "reasons": list(found.reasons),
    }


def run_assess(options: argparse.Namespace) -> int:
    """Judge one expression for one use."""
    classes = find_policy(options).classes
    found = assess(options.expression, usage=options.usage, classes=classes)
    if options.json:
        print(json.dumps(_plain(found), indent=2))
    else:
        print(f"{found.verdict.upper()}  {found.expression} for {found.usage}")
        for reason in found.reasons:
            print(f"  {reason}")
        print(f"  {found.mitigation.text}")
    return EXIT_CODES[found.verdict]


def run_explain(options: argparse.Namespace) -> int:
    """Show an expression, or an installed package's licence, in every use."""
    text = options.expression
    classes = find_policy(options).classes
    try:
        expression = parse(text)
    except ExpressionError as error:
        finding = _installed(text, options.env)
        if finding is None:
            where = f"in {options.env}" if options.env else "here"
            raise SourceError(
                f"{text[:80]!r} is no package that is installed {where}, and no "
                f"expression: {error}"
            ) from error
        if not options.json:
            _explain_finding(finding)
        if finding.expression is None:
            return EXIT_CODES[Verdict.REVIEW]
        expression = parse(finding.expression)
    rows = [assess(expression, usage=usage, classes=classes) for usage in Usage]
    if options.json:
        print(json.dumps([_plain(row) for row in rows], indent=2))
        return 0
    for licence in dict.fromkeys(expression.licenses()):
        known = spdx_licenses().get(licence.id.casefold())
        if (own := classes.get(licence.id.casefold())) is not None:
            print(f"{licence}: class {own.slug} (basis: the policy)")
        elif known is None:
            print(
                f"{licence}: outside the SPDX list; give it a class in the policy's "
                "table [classes]"
            )
        else:
            print(
                f"{licence}: {known.name}; class {known.license_class.slug} "
                f"(basis: {known.basis})"
            )
    print()
    for row in rows:
        print(f"{row.usage:<19} {row.verdict.upper():<7} {row.mitigation.text}")
    return 0


def _installed(name: str, env: str | None) -> LicenseFinding | None:
    """Resolve a package of an environment, or of the running interpreter."""
    try:
        if env is None:
            return resolve(name)
        wanted = normalize_name(name)
        for folder in metadata_folders(env):
            if normalize_name(folder.name.partition("-")[0]) == wanted:
                return resolve(folder)
    except (PackageNotFoundError, ValueError):
        pass
    return None


def _explain_finding(finding: LicenseFinding) -> None:
    print(f"{finding.name} {finding.version}: {finding.expression or 'unknown'}")
    print(f"  confidence: {finding.confidence} (from {finding.source})")
    for item in finding.evidence:
        print(f"  {item.kind}: {printable(item.where)}: {printable(item.says)}")
    for conflict in finding.conflicts:
        print(f"  conflict: {printable(conflict)}")
    for part in finding.bundled:
        stated = part.expression or "no licence stated"
        print(f"  bundled: {printable(part.path)} ({part.reason}): {stated}")
    print(f"  text-sha256: {finding.text_sha256 or 'no licence file'}")
    print()

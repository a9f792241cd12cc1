"""The commands ``audit``, ``snapshot``, ``diff`` and ``notice``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lazycore.licensing._errors import SourceError
from lazycore.licensing._terminal import printable

if TYPE_CHECKING:
    import argparse

    from lazycore.licensing._policy import Policy
    from lazycore.licensing._sources import Package

EXIT_USAGE: Final = 2


def _write(text: str, output: str | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        Path(output).write_text(text, encoding="utf-8")


def _policy(options: argparse.Namespace) -> Policy:
    from lazycore.licensing._policy import Policy

    if options.policy:
        return Policy.load(options.policy)
    return Policy.discover() or Policy()


def _packages(options: argparse.Namespace, policy: Policy) -> list[Package]:
    from lazycore.licensing import _documents, _sources

    if options.lock:
        from lazycore.licensing._locks import read_lock

        return read_lock(options.lock, policy)
    if options.sbom:
        return _documents.read_cyclonedx(options.sbom)
    if options.conda:
        return _documents.read_conda(options.conda)
    return _sources.read_environment(options.env)


def run_audit(options: argparse.Namespace) -> int:
    """Judge a source by the project's policy."""
    from lazycore.licensing._audit import audit
    from lazycore.licensing._formats import FORMATS
    from lazycore.licensing._snapshot import read_snapshot

    policy = _policy(options)
    packages = _packages(options, policy)
    if options.lock and not options.evidence:
        raise SourceError(
            f"{options.lock}: a lock states no licences; give --evidence "
            "licences.lock, made by `lazycore-licensing snapshot --env PATH`"
        )
    evidence = read_snapshot(options.evidence) if options.evidence else None
    report = audit(
        packages,
        policy=policy,
        usage=options.usage,
        evidence=evidence,
        today=options.today,
    )
    chosen = "json" if options.json else options.format
    _write(FORMATS[chosen](report), options.output)
    code = report.exit_code
    return 0 if code == 3 and options.fail_on == "deny" else code


def run_snapshot(options: argparse.Namespace) -> int:
    """Write licences.lock."""
    from lazycore.licensing._policy import Policy
    from lazycore.licensing._snapshot import snapshot

    if options.lock:
        raise SourceError(f"{options.lock}: a lock states no licences; give --env")
    packages = _packages(options, Policy())
    if options.json:
        rows = [
            {
                "name": package.name,
                "version": package.version,
                "expression": package.finding.expression,
            }
            for package in packages
            if package.finding
        ]
        _write(json.dumps(rows, indent=2) + "\n", options.output)
    else:
        _write(snapshot(packages), options.output)
    return 0


def run_diff(options: argparse.Namespace) -> int:
    """Show licence changes between two snapshots; 3 when there are any."""
    from lazycore.licensing._snapshot import diff, read_snapshot

    changes = diff(read_snapshot(options.old), read_snapshot(options.new))
    if options.json:
        rows = [
            {"name": c.name, "kind": c.kind, "old": c.old, "new": c.new}
            for c in changes
        ]
        print(json.dumps(rows, indent=2))
    for change in () if options.json else changes:
        arrow = " -> ".join(part for part in (change.old, change.new) if part)
        print(f"{change.kind:<8} {change.name}: {printable(arrow)}")
    return 3 if any(c.kind in {"license", "text", "added"} for c in changes) else 0


def run_notice(options: argparse.Namespace) -> int:
    """Collect the licence texts of an environment, one section per package."""
    from lazycore.licensing._notice import notice

    _write(notice(options.env), options.output)
    return 0

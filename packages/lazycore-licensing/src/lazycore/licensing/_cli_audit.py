"""The commands ``audit``, ``snapshot``, ``diff`` and ``notice``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lazycore.licensing._errors import SourceError
from lazycore.licensing._terminal import printable

if TYPE_CHECKING:
    import argparse

    from lazycore.licensing._findings import LicenseFinding
    from lazycore.licensing._policy import Policy
    from lazycore.licensing._sources import Package

SNAPSHOT: Final = "licences.lock"


def _write(text: str, output: str | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    place = Path(output)
    if place.exists() and not place.is_file():  # a device or a pipe
        place.write_text(text, encoding="utf-8")
        return
    # A full disk must leave the old file, never half of a new one.
    whole = place.resolve()
    fresh = whole.with_name(f".{whole.name}.{os.getpid()}.new")
    try:
        fresh.write_text(text, encoding="utf-8")
        if whole.exists():
            fresh.chmod(whole.stat().st_mode & 0o777)
        fresh.replace(whole)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def find_policy(options: argparse.Namespace) -> Policy:
    """Return the policy that was named, or the project's own, or an empty one."""
    from lazycore.licensing._policy import Policy

    if options.policy:
        return Policy.load(options.policy)
    return Policy.discover() or Policy()


def _packages(options: argparse.Namespace) -> list[Package]:
    from lazycore.licensing import _documents, _sources

    if options.sbom:
        return _documents.read_cyclonedx(options.sbom)
    if options.conda:
        return _documents.read_conda(options.conda)
    return _sources.read_environment(options.env)


def _locked(options: argparse.Namespace, policy: Policy) -> list[Package]:
    from lazycore.licensing._locks import read_lock

    environment = None
    if options.only_here:
        from lazycore.licensing._markers import this_environment

        environment = this_environment()
    return read_lock(options.lock, policy, environment=environment)


def _evidence(options: argparse.Namespace) -> dict[str, LicenseFinding] | None:
    """Return the licences that the input lacks, or that it is compared with."""
    from lazycore.licensing._snapshot import read_snapshot

    if options.evidence:
        snapshots = [read_snapshot(place) for place in options.evidence]
        return {n: f for known in reversed(snapshots) for n, f in known.items()}
    if not options.lock:
        return None
    if options.env:
        found = {package.name: package.finding for package in _packages(options)}
        return {name: finding for name, finding in found.items() if finding}
    beside = Path(options.lock).parent / SNAPSHOT
    if beside.is_file():
        return read_snapshot(beside)
    raise SourceError(
        f"{options.lock}: a lock states no licences; give --env PATH, where its "
        f"packages are installed, or --evidence {SNAPSHOT}, which "
        f"`lazycore-licensing snapshot --env PATH --output {SNAPSHOT}` makes there"
    )


def run_audit(options: argparse.Namespace) -> int:
    """Judge a source by the project's policy."""
    from lazycore.licensing._audit import audit
    from lazycore.licensing._formats import FORMATS, summary

    if options.only_here and not options.lock:
        raise SourceError("--only-here leaves packages out of a lock; give --lock FILE")
    policy = find_policy(options)
    packages = _locked(options, policy) if options.lock else _packages(options)
    report = audit(
        packages,
        policy=policy,
        usage=options.usage,
        evidence=_evidence(options),
        today=options.today,
    )
    chosen = "json" if options.json else options.format
    _write(FORMATS[chosen](report), options.output)
    if options.output is not None:
        print(f"{options.output}: {summary(report)}", file=sys.stderr)
    code = report.exit_code
    return 0 if code == 3 and options.fail_on == "deny" else code


def run_snapshot(options: argparse.Namespace) -> int:
    """Write licences.lock."""
    from lazycore.licensing._snapshot import snapshot

    packages = _packages(options)
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
    from lazycore.licensing._snapshot import HARMLESS, diff, read_snapshot

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
    if not changes and not options.json:
        print("no licence changed")
    return 0 if all(change.kind in HARMLESS for change in changes) else 3


def run_notice(options: argparse.Namespace) -> int:
    """Collect the licence texts of an environment, one section per package."""
    from lazycore.licensing._notice import notice

    _write(notice(options.env), options.output)
    return 0

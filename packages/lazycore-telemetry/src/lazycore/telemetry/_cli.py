"""Show and check the dated table of names from the command line."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from lazycore.telemetry._conventions import conventions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazycore.telemetry._conventions import Conventions, SpanRules

__all__ = ["main", "markdown"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m lazycore.telemetry`; 0 done, 1 the table is inconsistent."""
    parser = argparse.ArgumentParser(
        prog="python -m lazycore.telemetry",
        description="Show or check the table of names that spans are held against.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="look for inconsistencies in the table")
    table = commands.add_parser("table", help="print the table")
    for command in (check, table):
        command.add_argument("--json", action="store_true", help="for programs")
    given = parser.parse_args(arguments)
    found = conventions()
    if given.command == "table":
        print(json.dumps(asdict(found)) if given.json else "\n".join(markdown(found)))
        return 0
    problems = found.problems()
    if given.json:
        print(json.dumps({"dated": found.dated, "problems": problems}))
    elif problems:
        print("\n".join(problems), file=sys.stderr)
    else:
        print(
            f"{found.dated}: {len(found.attributes)} attributes, "
            f"{len(found.operations)} operations, {len(found.events)} events, "
            f"{len(found.metrics)} metrics: consistent"
        )
    return 1 if problems else 0


def markdown(table: Conventions) -> Iterator[str]:
    """Yield the table as lines of Markdown that people can read."""
    yield "## Spans"
    for rules in table.operations.values():
        yield from _span_lines(table, rules)
    yield from ("", "## Events", "")
    yield "| event | origin | travels as | required | may carry |"
    yield "|---|---|---|---|---|"
    for event in table.events.values():
        optional = _names(event.optional)
        if len(event.optional) > 12:
            optional = f"{len(event.optional)} attributes of the inference span"
        cells = (
            f"`{event.name}`",
            event.origin,
            ", ".join(event.signals),
            _names(event.required),
            optional,
        )
        yield f"| {' | '.join(cells)} |"
    yield from ("", "## Metrics", "")
    yield "| metric | instrument | unit | profiles | attributes |"
    yield "|---|---|---|---|---|"
    for metric in table.metrics.values():
        cells = (
            f"`{metric.name}`",
            metric.instrument,
            metric.unit,
            ", ".join(metric.profiles),
            _names(metric.attributes),
        )
        yield f"| {' | '.join(cells)} |"
    yield from _name_lines(table)


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _span_lines(table: Conventions, rules: SpanRules) -> Iterator[str]:
    yield from ("", f"### {rules.name}", "")
    yield f"Span name `{rules.span_name}`, kind {' or '.join(rules.kinds)}."
    yield from ("", "| attribute | type | level | since |", "|---|---|---|---|")
    for level in ("required", "conditional", "recommended", "opt_in"):
        for name in getattr(rules, level):
            entry = table.attribute(name)
            assert entry is not None
            shown = level.replace("_", "-")
            yield f"| `{name}` | {entry.type} | {shown} | {entry.since} |"


def _name_lines(table: Conventions) -> Iterator[str]:
    yield from ("", "## Names of this project", "")
    yield from ("| attribute | type | content |", "|---|---|---|")
    for entry in table.attributes.values():
        if entry.origin == "lazycore":
            content = "by policy" if entry.content else "no"
            yield f"| `{entry.name}` | {entry.type} | {content} |"
    yield from ("", "## Former names", "")
    yield from ("| former | use instead |", "|---|---|")
    for entry in table.attributes.values():
        if entry.replaced_by is not None:
            yield f"| `{entry.name}` | `{entry.replaced_by}` |"

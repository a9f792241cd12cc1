"""What the command line shows: tables for people, JSON for programs."""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from lazycore.sandbox._guarantees import Guarantee
from lazycore.sandbox._output import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lazycore.sandbox._attacks._attack import Attack
    from lazycore.sandbox._attacks._corpus import Finding
    from lazycore.sandbox._errors import SandboxError
    from lazycore.sandbox._explain import Explanation
    from lazycore.sandbox._guarantees import BackendReport
    from lazycore.sandbox._result import SandboxResult


def coloured(stream: TextIO) -> bool:
    """Tell whether a stream takes colour: a terminal, and NO_COLOR not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def paint(text: str, code: int) -> str:
    """Colour `text` where stdout takes colour."""
    return f"\033[{code}m{text}\033[0m" if coloured(sys.stdout) else text


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Align cells by their columns; the last column is left as it is."""
    kept = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        .rstrip()
        for row in kept
    ]  # fmt: skip


def write_json(value: object) -> None:
    """Write one JSON document to stdout."""
    print(json.dumps(value, indent=2, sort_keys=True))


def one_error(error: SandboxError) -> str:
    """Return the text of an error, safe for a terminal."""
    return printable(str(error))


def _stream(data: bytes, *, truncated: bool, total: int) -> dict[str, object]:
    """Show bytes as text where they are text, else in base64."""
    shown: dict[str, object] = {"truncated": truncated, "total_bytes": total}
    try:
        shown["text"] = data.decode("utf-8")
    except UnicodeDecodeError:
        shown["base64"] = base64.b64encode(data).decode("ascii")
    return shown


def result_json(result: SandboxResult) -> dict[str, object]:
    """Describe a run completely."""
    return {
        "argv": list(result.argv),
        "backend": result.backend,
        "degraded": sorted(result.degraded),
        "duration_s": round(result.duration_s, 6),
        "guarantees": sorted(result.guarantees),
        "policy_digest": result.policy_digest,
        "returncode": result.returncode,
        "signal": result.signal,
        "stderr": _stream(
            result.stderr,
            truncated=result.stderr_truncated,
            total=result.stderr_total_bytes,
        ),
        "stdout": _stream(
            result.stdout,
            truncated=result.stdout_truncated,
            total=result.stdout_total_bytes,
        ),
        "timed_out": result.timed_out,
        "usage": {
            "cpu_system_s": result.usage.cpu_system_s,
            "cpu_user_s": result.usage.cpu_user_s,
            "max_rss_bytes": result.usage.max_rss_bytes,
            "processes": result.usage.processes,
        },
        "violations": [
            {"kind": item.kind, "detail": item.detail, "count": item.count}
            for item in result.violations
        ],
    }


def show_result(result: SandboxResult) -> None:
    """Pass on what the command printed; say on stderr what the sandbox did."""
    pass_on(result.stdout, sys.stdout)
    pass_on(result.stderr, sys.stderr)
    notes = [
        f"{item.kind}: {item.detail}" + (f" x{item.count}" if item.count > 1 else "")
        for item in result.violations
    ]
    if result.degraded:
        notes.append(f"ran without {', '.join(sorted(result.degraded))}")
    if result.signal is not None:
        notes.append(f"ended by signal {result.signal}")
    for note in notes:
        print(f"lazycore-sandbox: {printable(note)}", file=sys.stderr)


def pass_on(data: bytes, stream: TextIO) -> None:
    """Write untrusted bytes: as they are to a pipe, neutralised to a terminal."""
    if stream.isatty():
        stream.write(printable(data.decode("utf-8", "replace")))
    else:
        raw: BinaryIO = stream.buffer
        stream.flush()
        raw.write(data)
        raw.flush()


def doctor_json(
    reports: Sequence[BackendReport], needed: frozenset[Guarantee]
) -> dict[str, object]:
    """Describe every backend of this host."""
    return {
        "needed_by_the_empty_policy": sorted(needed),
        "backends": [
            {
                "backend": report.backend,
                "available": report.available,
                "guarantees": sorted(report.guarantees),
                "lacks": sorted(frozenset(Guarantee) - report.guarantees),
                "reason": report.reason,
                "remedy": report.remedy,
                "notes": dict(report.notes),
                "residuals": residuals(report),
            }
            for report in reports
        ],
    }


def residuals(report: BackendReport) -> list[dict[str, str]]:
    """List the rows of the corpus that this backend does not promise to stop."""
    from lazycore.sandbox._attacks._corpus import CORPUS

    found = []
    for attack in CORPUS:
        missing = sorted(attack.needs - report.guarantees)
        reason = attack.reason or f"does not promise {', '.join(missing)}"
        if report.available and (attack.reason or missing):
            found.append({"id": attack.id, "name": attack.name, "reason": reason})
    return found


def show_doctor(reports: Sequence[BackendReport], needed: frozenset[Guarantee]) -> None:
    """Show a column per backend and a row per guarantee, then what to mend."""
    head = ("guarantee", *(report.backend for report in reports), "empty policy")
    rows = [head]
    for which in Guarantee:
        cells = ("yes" if which in report.guarantees else "-" for report in reports)
        rows.append((which.value, *cells, "needs it" if which in needed else ""))
    print("\n".join(table(rows)))
    for report in reports:
        print()
        if not report.available:
            print(f"{report.backend}: {paint('not available', 31)}")
            print(f"  reason: {printable(report.reason)}")
        elif needed <= report.guarantees:
            print(f"{report.backend}: {paint('holds the empty policy', 32)}")
        else:
            lacking = ", ".join(sorted(needed - report.guarantees))
            print(f"{report.backend}: {paint('runs, but lacks', 33)} {lacking}")
        if "control-groups" in report.notes:
            print(f"  control groups: {printable(report.notes['control-groups'])}")
        if report.remedy:
            print(f"  to mend: {printable(report.remedy)}")
        known = residuals(report)
        if known:
            print("  rows of the attack corpus that it does not promise to stop:")
            lines = [(f"    {row['id']}", row["name"], row["reason"]) for row in known]
            print("\n".join(table(lines)))


def explanation_json(result: SandboxResult, learnt: Explanation) -> dict[str, object]:
    """Describe what a run needed."""
    return {
        "used": list(learnt.used),
        "missing": list(learnt.missing),
        "refused": list(learnt.refused),
        "run": result_json(result),
    }


def show_explanation(result: SandboxResult, learnt: Explanation) -> None:
    """Show the options a run used, those it missed, and each refusal."""
    for title, lines in (
        ("granted and used", learnt.used),
        ("wanted and not granted", learnt.missing),
        ("refused", learnt.refused),
    ):
        print(f"{title}:")
        for line in lines or ("nothing",):
            print(f"  {printable(line)}")
    end = f"signal {result.signal}" if result.signal else f"{result.returncode}"
    print(f"the command ended with {'its timeout' if result.timed_out else end}")


def show_corpus(corpus: Sequence[Attack], *, as_json: bool) -> None:
    """Show the rows of the corpus."""
    rows: list[dict[str, Any]] = [
        {
            "id": attack.id,
            "name": attack.name,
            "expected": attack.expected,
            "mechanism": attack.mechanism,
            "needs": sorted(attack.needs),
        }
        for attack in corpus
    ]
    if as_json:
        write_json(rows)
        return
    cells = [("id", "attack", "expected", "mechanism", "needs")]
    cells += [
        (row["id"], row["name"], row["expected"], row["mechanism"],
         " ".join(row["needs"]) or "every backend")
        for row in rows
    ]  # fmt: skip
    print("\n".join(table(cells)))


def findings_json(backend: str, findings: Sequence[Finding]) -> dict[str, object]:
    """Describe how every row ended."""
    return {
        "backend": backend,
        "breaches": [found.attack.id for found in findings if found.breach],
        "residuals": [found.attack.id for found in findings if found.residual],
        "rows": [
            {
                "id": found.attack.id,
                "name": found.attack.name,
                "expected": found.attack.expected,
                "mechanism": found.attack.mechanism,
                "outcome": found.verdict.outcome.value,
                "detail": found.verdict.detail,
                "residual": found.residual,
                "breach": found.breach,
            }
            for found in findings
        ],
    }


def show_findings(backend: str, findings: Sequence[Finding]) -> None:
    """Show the matrix, then the count, then what got through."""
    rows = [("id", "attack", "mechanism", "outcome", "seen")]
    for found in findings:
        outcome = found.verdict.outcome.value
        if found.breach:
            outcome = outcome.upper()
        elif found.residual:
            outcome = "residual"
        seen = printable(found.residual or found.verdict.detail).replace("\n", " ")
        attack = found.attack
        rows.append((attack.id, attack.name, attack.mechanism, outcome, seen[:60]))
    print("\n".join(table(rows)))
    held = sum(found.verdict.outcome == "held" for found in findings)
    absent = sum(found.verdict.outcome == "absent" for found in findings)
    known = sum(bool(found.residual) for found in findings)
    broken = [found.attack.id for found in findings if found.breach]
    print()
    print(
        f"{backend}: {len(findings)} rows, {held} held, {known} known residuals, "
        f"{absent} not applicable here"
    )
    if broken:
        print(paint(f"GOT THROUGH OR BROKEN: {', '.join(broken)}", 31))
    else:
        print(paint("nothing got through but known residuals", 32))

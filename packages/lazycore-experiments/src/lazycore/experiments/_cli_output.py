"""What every command prints alike: JSON, counts, verdicts; and the exit codes."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from lazycore.experiments._paired_result import Comparison
    from lazycore.experiments._reader import RunRecord

__all__ = [
    "BLOCKED",
    "FAILED_CELLS",
    "INTERRUPTED",
    "OK",
    "UNVERIFIED",
    "USAGE",
    "counter",
    "print_json",
    "print_verdict",
]

OK, USAGE, BLOCKED, FAILED_CELLS, UNVERIFIED, INTERRUPTED = 0, 2, 3, 4, 5, 130


def print_json(value: object) -> None:
    """Print one JSON document for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


class counter:  # noqa: N801 - used like a function
    """Show a count on a terminal's stderr once work takes longer than a moment."""

    def __init__(self, what: str, things: str, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._what, self._things = what, things
        self._began = time.monotonic()
        self._shown = False

    def __enter__(self) -> Callable[[int, int], None]:
        return self._show

    def _show(self, done: int, planned: int) -> None:
        if not self._stream.isatty() or time.monotonic() - self._began < 1:
            return
        self._shown = True
        text = f"\r{self._what}: {done:,} of {planned:,} {self._things}"
        self._stream.write(text)
        self._stream.flush()

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._stream.write("\n")


def print_verdict(
    options: argparse.Namespace, record: RunRecord, comparison: Comparison
) -> None:
    """Print what a run found, its digests and where its report lies."""
    from lazycore.experiments import _summary

    report = record.path / "report.html"
    if options.json:
        print_json(
            {
                "study": record.study.id,
                "lock": record.lock_digest,
                "results": record.results_digest,
                "planned": record.planned_cells,
                "finished": record.finished_cells,
                "failed": record.failed_cells,
                "complete": record.complete,
                "reason": record.reason,
                "report": str(report),
                "comparison": comparison.to_json(),
            }
        )
        return
    _summary.print_verdict(record, comparison, sys.stdout)
    print(f"lock    {record.lock_digest}")
    print(f"results {record.results_digest}")
    print(f"report  {report}")

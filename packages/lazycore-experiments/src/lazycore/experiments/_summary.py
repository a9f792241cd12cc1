"""Print a run's verdict for people: a headline, a table, what failed.

rich colours it where it is installed and the stream is a terminal.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from lazycore.experiments._numbers import (
    amount,
    duration,
    level_text,
    p_text,
    plural,
    span,
)
from lazycore.experiments._order_check import order_text
from lazycore.experiments._progress import progress
from lazycore.experiments._terminal import on_rich_terminal, printable, safe
from lazycore.experiments._verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazycore.experiments._paired_result import Comparison, PairedResult
    from lazycore.experiments._reader import RunRecord

__all__ = ["print_verdict", "progress"]

_HEADS = ("benchmark", "units", "base", "arm", "diff", "interval", "p")
_UNITS = 1
_STYLES = {
    Verdict.HELPS: "bold cyan",
    Verdict.HARMS: "bold red",
    Verdict.EQUIVALENT: "bold",
}
_SHORT = {
    Verdict.HELPS: "helps",
    Verdict.HARMS: "harms",
    Verdict.EQUIVALENT: "equivalent",
    Verdict.NO_DIFFERENCE: "none shown",
    Verdict.NOT_MEASURED: "not measured",
}


def print_verdict(record: RunRecord, comparison: Comparison, stream: TextIO) -> None:
    """Print the headline, one table per primary metric and arm, and what failed."""
    groups: dict[tuple[str, str], list[PairedResult]] = {}
    for result in comparison.primary:
        groups.setdefault((result.metric, result.arm), []).append(result)
    lines = [_Line(comparison.headline, "bold"), _Line("")]
    for results in groups.values():
        lines += [_Line(_title(results[0])), *_table(results, _width(stream))]
        lines.append(_Line(""))
    lines.append(_Line(_closing(record)))
    if told := order_text(record):
        lines.append(_Line(told))
    if on_rich_terminal(stream):
        _print_styled(lines, stream)
    else:
        stream.writelines(safe(line.text, stream) + "\n" for line in lines)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, the style of its end, and which end: the whole line when None."""

    text: str
    style: str = ""
    styled: str | None = None


def _print_styled(lines: Sequence[_Line], stream: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for line in lines:
        shown = Text(printable(line.text))
        shown.stylize(line.style, len(shown) - len(line.styled or line.text))
        console.print(shown)


def _table(results: Sequence[PairedResult], width: int | None) -> list[_Line]:
    heads: tuple[str, ...] = (*_heads(results[0]), "verdict")
    rows: list[tuple[str, ...]]
    rows = [(*_cells(result), _SHORT[result.verdict]) for result in results]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    if width is not None and _total(widths) > width:
        # Eighty columns hold the table without the number of units.
        heads, *rows = (row[:_UNITS] + row[_UNITS + 1 :] for row in (heads, *rows))
        del widths[_UNITS]
    if width is not None and _total(widths) > width:
        return _stacked(results)
    lines = [_Line(_aligned(heads, widths), "dim")]
    for row, result in zip(rows, results, strict=True):
        style = _STYLES.get(result.verdict, "")
        lines.append(_Line(_aligned(row, widths), style, styled=row[-1]))
    return lines


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *numbers, last = zip(row, widths, strict=True)
    middle = "  ".join(cell.rjust(size) for cell, size in numbers)
    return f"{first[0].ljust(first[1])}  {middle}  {last[0]}"


def _stacked(results: Sequence[PairedResult]) -> list[_Line]:
    """Return the table for a narrow terminal: three short lines per benchmark."""
    lines = []
    for result in results:
        name, units, baseline, arm, difference, interval, p_value = _cells(result)
        verdict = result.verdict.value
        style = _STYLES.get(result.verdict, "")
        lines += [
            _Line(f"{name}: {verdict}", style, styled=verdict),
            _Line(f"  {difference} [{interval}]"),
            _Line(f"  {baseline} to {arm}, n {units}, p {p_value}"),
        ]
    return lines


def _heads(result: PairedResult) -> tuple[str, ...]:
    return tuple(result.arm_title if head == "arm" else head for head in _HEADS)


def _cells(result: PairedResult) -> tuple[str, ...]:
    kind = result.kind
    blank = "\N{EM DASH}"

    def shown(value: float | None, write: Callable[..., str]) -> str:
        return blank if value is None else write(value, kind=kind)

    interval = span(result.interval, kind=kind) if result.interval else blank
    return (
        result.benchmark_title,
        f"{result.units:,}",
        shown(result.baseline_mean, level_text),
        shown(result.candidate_mean, level_text),
        shown(result.difference, amount),
        interval.removesuffix(" pp"),
        p_text(result.p_adjusted).removeprefix("p ").removeprefix("= "),
    )


def _title(result: PairedResult) -> str:
    seeds = f", {plural(result.seeds, 'seed')}" if result.seeds > 1 else ""
    return (
        f"{result.metric_title}: {result.arm_title} minus baseline "
        f"({100 * result.confidence:.4g} % intervals, Holm-adjusted p{seeds})"
    )


def _closing(record: RunRecord) -> str:
    done = f"{record.finished_cells:,} of {plural(record.planned_cells, 'cell')}"
    failed = f"{record.failed_cells:,} failed" if record.failed_cells else "none failed"
    counts = Counter(str(row.failure_class) for row in record.failures)
    classes = ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items()))
    attempts = f" (failed attempts: {classes})" if classes else ""
    time_text = duration(record.wall_s)
    sessions = f" in {record.sessions} sessions" if record.sessions > 1 else ""
    return f"{done}, {failed}{attempts}, {time_text}{sessions}"


def _width(stream: TextIO) -> int | None:
    """Return the columns of a terminal; a pipe or a file takes lines of any length."""
    return shutil.get_terminal_size().columns if stream.isatty() else None

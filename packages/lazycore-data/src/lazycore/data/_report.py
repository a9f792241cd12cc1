"""Say column by column what a conversion shares, copies, changes and loses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ColumnReport", "ConversionPlan", "CopyReport"]

_MESSAGE_COLUMNS = 20


def _size(count: int) -> str:
    """Return a byte count for people."""
    if count < 1000:
        return f"{count} B"
    for unit, width in (("kB", 1e3), ("MB", 1e6)):
        if count < 1000 * width:
            return f"{count / width:.1f} {unit}"
    return f"{count / 1e9:.1f} GB"


def _clean(text: str) -> str:
    """Keep control characters of a foreign name out of a terminal and a table."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReport:
    """What happens, or happened, to one column.

    Attributes:
        name: The column's name as text.
        source_type: The type before, as text.
        target_type: The type after, or an empty string where nothing came out.
        shared: Bytes of the result that lie in buffers of the source.
        copied: Bytes of the result that do not; in a plan, the expected count.
        changed: How the type differs in more than layout; empty when it does not.
        lossy: Whether the change cannot be undone from the result alone.
        unproven: Why the bytes could not be witnessed; empty when they were.
        aliased: Whether the result shares memory that its owner may write to.
        values_checked: Whether sampled values agree; None where none was compared.
        error: Why the column cannot be converted; empty when it can.
        why: The reason for copied or changed bytes.
        fix: What to do about it.

    Example:
        >>> row = ColumnReport(name="a", source_type="int64", target_type="int64")
        >>> row.verdict, row.ok
        ('zero copy', True)
    """

    name: str
    source_type: str
    target_type: str
    shared: int = 0
    copied: int = 0
    changed: str = ""
    lossy: bool = False
    unproven: str = ""
    aliased: bool = False
    values_checked: bool | None = None
    error: str = ""
    why: str = ""
    fix: str = ""

    @property
    def verdict(self) -> str:
        """Name the worst thing that is true of the column."""
        if self.error:
            return "unsupported"
        if self.values_checked is False:
            return "WRONG VALUES"
        if self.lossy:
            return "lossy"
        if self.aliased:
            return "aliased"
        if self.copied:
            return "widens" if self.shared else "copies"
        if self.changed:
            return "changed"
        return "unproven" if self.unproven else "zero copy"

    @property
    def ok(self) -> bool:
        """Tell whether nothing was copied, changed, aliased or left unproven."""
        return self.verdict == "zero copy"

    def line(self) -> str:
        """Return one line for an error message."""
        reasons = [self.error or self.why or self.changed or self.unproven]
        if self.fix:
            reasons.append(self.fix)
        text = "; ".join(part for part in reasons if part)
        target = self.target_type or "nothing"
        return _clean(
            f"{self.name!r}: {self.source_type} -> {target}: {self.verdict}, "
            f"+{self.copied} bytes; {text}"
        )


def _rows(columns: Sequence[ColumnReport]) -> list[tuple[str, ...]]:
    return [
        (
            _clean(c.name),
            _clean(c.source_type),
            _clean(c.target_type or "-"),
            c.verdict,
            _size(c.shared),
            _size(c.copied),
            _clean(c.error or c.why or c.changed or c.unproven),
        )
        for c in columns
    ]


_HEAD = ("column", "from", "to", "verdict", "shared", "new", "reason")


def _text_table(columns: Sequence[ColumnReport]) -> str:
    rows = [_HEAD, *_rows(columns)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD) - 1)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if 4 <= k <= 5 else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _html_table(caption: str, columns: Sequence[ColumnReport]) -> str:
    from html import escape

    head = "".join(f"<th>{escape(cell)}</th>" for cell in _HEAD)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _rows(columns)
    )
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    columns: Mapping[str, ColumnReport] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether every column is zero copy and nothing else was lost."""
        return not self.notes and all(c.ok for c in self.columns.values())

    @property
    def bytes_shared(self) -> int:
        """Bytes of the result that lie in buffers of the source."""
        return sum(column.shared for column in self.columns.values())

    @property
    def bytes_copied(self) -> int:
        """Bytes of the result that are new."""
        return sum(column.copied for column in self.columns.values())

    @property
    def problems(self) -> tuple[ColumnReport, ...]:
        """The columns that are not zero copy, in order."""
        return tuple(c for c in self.columns.values() if not c.ok)

    def vetoes(self, rows: int) -> bool:
        """Tell whether the report is reason enough to refuse before converting.

        Up to two bits a row may be a realigned bitmap of the head alone, and a small
        frame is cheap to convert: there the proof after the conversion decides.
        """
        return bool(self.notes) or any(
            c.verdict not in ("copies", "widens", "zero copy")
            or (rows > 256 and c.copied * 4 > rows)
            for c in self.columns.values()
        )

    def message(self) -> str:
        """Return the refusal: at most twenty columns, each with reason and fix."""
        problems = self.problems
        lines = [*self.notes, *(c.line() for c in problems[:_MESSAGE_COLUMNS])]
        if len(problems) > _MESSAGE_COLUMNS:
            lines.append(f"and {len(problems) - _MESSAGE_COLUMNS} more columns")
        return "not zero copy:\n  " + "\n  ".join(lines)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON and telemetry."""
        from dataclasses import asdict

        return {
            "ok": self.ok,
            "bytes_shared": self.bytes_shared,
            "bytes_copied": self.bytes_copied,
            "notes": list(self.notes),
            "columns": [
                {**asdict(column), "verdict": column.verdict}
                for column in self.columns.values()
            ],
        }

    def _caption(self) -> str:
        good = sum(column.ok for column in self.columns.values())
        return (
            f"{good} of {len(self.columns)} columns zero copy; "
            f"{_size(self.bytes_shared)} shared, {_size(self.bytes_copied)} new"
        )

    def __str__(self) -> str:
        parts = [_text_table(tuple(self.columns.values())), self._caption()]
        return "\n".join([*parts, *(f"note: {_clean(note)}" for note in self.notes)])

    def _repr_html_(self) -> str:
        caption = "; ".join([self._caption(), *map(_clean, self.notes)])
        return _html_table(caption, tuple(self.columns.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport(_Report):
    """What a finished conversion shared and copied, witnessed by address.

    Attributes:
        columns: One `ColumnReport` per column name.
        notes: What was lost beside columns: an index, rows, names.

    Example:
        >>> report = CopyReport()
        >>> report.ok, report.bytes_copied
        (True, 0)
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionPlan(_Report):
    """What a conversion would share and copy, before it touches the data.

    Byte counts are measured on the first rows of each column and scaled.

    Attributes:
        columns: One `ColumnReport` per column name.
        notes: What would be lost beside columns.
        to: The target library.

    Example:
        >>> ConversionPlan(to="polars").ok
        True
    """

    to: str = "polars"

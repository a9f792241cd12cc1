"""Render a run and write the file, small enough whatever the run's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.experiments._atomic import write_atomically
from lazycore.experiments._comparison import compare_run
from lazycore.experiments._report._costs import costs, measure
from lazycore.experiments._report._detail import DETAILS, LIMIT_BYTES
from lazycore.experiments._report._differences import differences
from lazycore.experiments._report._page import page
from lazycore.experiments._report._provenance import methods, provenance
from lazycore.experiments._report._troubles import troubles
from lazycore.experiments._report._units import units

if TYPE_CHECKING:
    from pathlib import Path

    from lazycore.experiments._paired_result import Comparison
    from lazycore.experiments._reader import RunRecord

__all__ = ["render", "write_report"]


def write_report(
    record: RunRecord, path: Path, *, comparison: Comparison | None = None
) -> None:
    """Write the report of a run: one offline HTML file under 300 kB.

    The same run gives the same bytes. A reader of the old file keeps it until the
    new one is whole. A finished run folder is sealed: `lazycore-experiments report`
    writes the page there and seals it, this function writes it anywhere else.

    Args:
        record: A run, finished or not.
        path: The file; its folder exists.
        comparison: What `compare_run` says of the run; made here when None.

    Raises:
        OSError: The file can't be written.

    Examples:
        >>> from pathlib import Path
        >>> from lazycore.experiments import load_run, write_report
        >>> def report(run: Path, page: Path) -> None:
        ...     write_report(load_run(run), page)
    """
    found = compare_run(record) if comparison is None else comparison
    data = render(record, found)
    write_atomically(path, data)


def render(record: RunRecord, comparison: Comparison) -> bytes:
    """Return the document, with as much detail as the size allows."""
    data = b""
    measured = measure(record)
    for detail in DETAILS:
        sections = [
            differences(comparison, detail),
            units(record, comparison, detail),
            costs(record, measured, detail),
            troubles(record, comparison, detail),
            methods(comparison),
            provenance(record),
        ]
        data = page(record, comparison, sections).encode()
        if len(data) <= LIMIT_BYTES:
            break
    return data

"""Write result rows for other programs: CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import dataclasses
import io
from typing import TYPE_CHECKING

from lazycore.experiments._arrow import write_parquet
from lazycore.experiments._atomic import write_atomically
from lazycore.experiments._canonical import canonical
from lazycore.experiments._errors import ValidationError
from lazycore.experiments._results import ResultRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["export_rows"]


def export_rows(rows: Sequence[ResultRow], path: Path) -> None:
    """Write rows in the format that the file's suffix names, whole or not at all.

    In CSV an unknown value is an empty field, never 0.

    Args:
        rows: The rows of a run.
        path: A file ending in ``.csv``, ``.jsonl`` or ``.parquet``.

    Raises:
        ValidationError: Another suffix.
        ExternalDependencyError: Parquet without pyarrow.
    """
    if path.suffix == ".parquet":
        write_parquet(rows, path)
    elif path.suffix == ".jsonl":
        lines = (canonical(dataclasses.asdict(row)) + b"\n" for row in rows)
        write_atomically(path, b"".join(lines))
    elif path.suffix == ".csv":
        names = [field.name for field in dataclasses.fields(ResultRow)]
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(names)
        writer.writerows([getattr(row, name) for name in names] for row in rows)
        write_atomically(path, text.getvalue().encode())
    else:
        raise ValidationError(
            f"{path}: the suffix names no format; want .csv, .jsonl or .parquet"
        )

"""Hand results out as Arrow: a table, a Parquet file, frames by lazycore.data."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import TYPE_CHECKING, Any

from lazycore.experiments._errors import ExternalDependencyError
from lazycore.experiments._results import ResultRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = ["has_arrow", "to_arrow", "to_pandas", "to_polars", "write_parquet"]

_HINT = "pip install 'lazycore-experiments[report]'"
_TYPES = {
    "seed": "int64",
    "value": "float64",
    "attempt": "int64",
    "wall_s": "float64",
    "cpu_s": "float64",
    "max_rss_bytes": "int64",
    "input_tokens": "int64",
    "output_tokens": "int64",
    "cost_usd": "float64",
}


def has_arrow() -> bool:
    """Tell whether pyarrow is installed, without loading it."""
    return importlib.util.find_spec("pyarrow") is not None


def to_arrow(rows: Iterable[ResultRow]) -> Any:  # pyarrow.Table; pyarrow is optional
    """Return rows as a `pyarrow.Table` with one column per field.

    Raises:
        ExternalDependencyError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ExternalDependencyError(f"pyarrow is not installed: {_HINT}") from error
    kept = list(rows)
    names = [field.name for field in dataclasses.fields(ResultRow)]
    schema = pa.schema(
        [(name, getattr(pa, _TYPES.get(name, "large_string"))()) for name in names]
    )
    columns = [
        pa.array([getattr(row, name) for row in kept], schema.field(name).type)
        for name in names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def to_pandas(rows: Iterable[ResultRow]) -> Any:  # pandas.DataFrame
    """Return rows as a pandas frame on the table's own Arrow buffers.

    Raises:
        ExternalDependencyError: pandas or pyarrow is not installed.
    """
    table = to_arrow(rows)
    from lazycore.data import pandas_from_arrow

    return _found(pandas_from_arrow, table)


def to_polars(rows: Iterable[ResultRow]) -> Any:  # polars.DataFrame
    """Return rows as a Polars frame on the table's own Arrow buffers.

    Raises:
        ExternalDependencyError: polars or pyarrow is not installed.
    """
    table = to_arrow(rows)
    from lazycore.data import to_polars_zero_copy

    return _found(to_polars_zero_copy, table)


def _found(convert: Callable[[Any], object], table: Any) -> Any:  # a frame
    """Convert a table; an absent library is an error of this slice too."""
    try:
        return convert(table)
    except ImportError as error:
        raise ExternalDependencyError(str(error)) from error


def write_parquet(rows: Iterable[ResultRow], path: Path) -> None:
    """Write rows as a Parquet file, whole or not at all.

    Raises:
        ExternalDependencyError: pyarrow is not installed.
    """
    table = to_arrow(rows)
    import pyarrow.parquet as pq

    partial = path.with_name(f".{path.name}.partial")
    pq.write_table(table, partial, compression="zstd")
    partial.replace(path)

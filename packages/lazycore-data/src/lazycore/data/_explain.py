"""Say beforehand what a conversion would cost, by trying it on the first rows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lazycore.data._assemble import Categories, assemble
from lazycore.data._buffers import array_buffers, size_of
from lazycore.data._columns import (
    Column,
    columns_of,
    is_pandas,
    is_polars,
    is_table,
    kind_of,
    pandas_column,
    polars_column,
)
from lazycore.data._errors import DataTierError, UnsupportedFrameError
from lazycore.data._from_polars import Strings, arrow_of, pandas_values
from lazycore.data._libraries import library
from lazycore.data._prove import compare_columns
from lazycore.data._report import ColumnReport, ConversionPlan
from lazycore.data._to_polars import (
    Aliasing,
    IndexPolicy,
    choose,
    lost_beside_columns,
)
from lazycore.data._types import has_view

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["explain", "plan_to_pandas", "plan_to_polars"]

_HEAD = 256


_LONG_DICTIONARY = 65_536


def _short_dictionary(chunk: Any) -> Any:
    """Return a chunk whose dictionary, if it was long, holds only what its rows use.

    No kernel encodes every type of value, so the codes are counted anew in Python:
    there are no more than a head has rows.
    """
    from array import array

    pa = library("pyarrow")
    kind = chunk.type
    if not pa.types.is_dictionary(kind) or len(chunk.dictionary) <= _LONG_DICTIONARY:
        return chunk
    codes = chunk.indices.to_pylist()
    used = sorted(set(codes) - {None})
    if not used or has_view(kind):  # pyarrow cannot join views
        return chunk
    new = {code: position for position, code in enumerate(used)}
    values = pa.concat_arrays([chunk.dictionary.slice(code, 1) for code in used])
    # Room for the rows before the slice, so that the validity bits stay shared.
    room = [0] * chunk.offset + [new.get(code, 0) for code in codes]
    narrow = pa.py_buffer(array("q", room))
    full = pa.Array.from_buffers(pa.int64(), len(room), [None, narrow])
    return pa.DictionaryArray.from_buffers(
        kind,
        len(chunk),
        [chunk.buffers()[0], full.cast(kind.index_type).buffers()[1]],
        values,
        offset=chunk.offset,
    )


def _short_list(chunk: Any) -> Any:
    """Return a list chunk over the child's rows that its own rows reach."""
    pa = library("pyarrow")
    kind = chunk.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not len(chunk):
        return chunk
    return pa.Array.from_buffers(
        kind,
        len(chunk),
        chunk.buffers()[:2],
        offset=chunk.offset,
        children=[chunk.values.slice(0, chunk.offsets[-1].as_py())],
    )


def _short_fixed(chunk: Any, origin: Any) -> Any:
    """Return a head of fixed lists over its own child, where the whole has its own.

    Polars refuses a child that is longer than its lists, which the head alone has.
    """
    pa = library("pyarrow")
    kind = chunk.type
    if not pa.types.is_fixed_size_list(kind) or origin.offset:
        return chunk
    if len(origin.values) != len(origin) * kind.list_size:
        return chunk
    child = chunk.values.slice(0, len(chunk) * kind.list_size)
    return pa.Array.from_buffers(
        kind, len(chunk), chunk.buffers()[:1], children=[child]
    )


def _shortened(head: Any, whole: Any) -> Any:
    """Return the head of a column without what only later rows need."""
    pa = library("pyarrow")
    parts = [_short_list(_short_dictionary(chunk)) for chunk in head.chunks]
    if whole is not None:
        origins = [chunk for chunk in whole.chunks if len(chunk)]
        parts = [part for part in parts if len(part)]
        pairs = zip(parts, origins, strict=False)
        parts = [_short_fixed(part, origin) for part, origin in pairs]
    return pa.chunked_array(parts, type=head.type)


def _scaled(report: ColumnReport, rows: int, whole: Any = None) -> ColumnReport:
    head = min(rows, _HEAD)
    if head in (0, rows):
        return report
    factor = rows / head
    shared = round(report.shared * factor)
    if whole is not None:  # no result shares more than the source has
        shared = min(shared, sum(size for _, size in array_buffers(whole)))
    return dataclasses.replace(
        report, shared=shared, copied=round(report.copied * factor)
    )


def _merged(report: ColumnReport, array: Any) -> ColumnReport:
    return dataclasses.replace(
        report,
        shared=0,
        copied=size_of(array),
        why="rechunk=True merges the chunks",
        fix="use rechunk=False",
    )


def _failed(name: str, kind: str, error: Exception) -> ColumnReport:
    return ColumnReport(name=name, source_type=kind, target_type="", error=str(error))


def _heads(frame: Any, aliasing: Aliasing) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield name, type, a maker of the head's column, and the whole Arrow array."""
    copy = aliasing == "copy"
    if is_pandas(frame):
        for position, label in enumerate(frame.columns):
            series = frame.iloc[:, position]
            yield (
                str(label),
                str(series.dtype),
                lambda s=series.iloc[:_HEAD], n=label: pandas_column(s, n, copy=copy),
                getattr(series.array, "_pa_array", None),
            )
        return
    for column in columns_of(frame):
        head = dataclasses.replace(column, array=column.array.slice(0, _HEAD))
        yield column.name, column.kind, lambda h=head: h, column.array


def plan_to_polars(
    frame: Any,
    notes: tuple[str, ...],
    *,
    rechunk: bool,
    categories: Categories,
    aliasing: Aliasing,
) -> ConversionPlan:
    """Return the plan for a pandas frame or a table, one column at a time."""
    rows = frame.num_rows if is_table(frame) else len(frame)
    reports: dict[str, ColumnReport] = {}
    for name, kind, make, whole in _heads(frame, aliasing):
        try:
            column: Column = make()
            column = dataclasses.replace(column, array=_shortened(column.array, whole))
            made = assemble([column], rechunk=False, categories=categories)
            report = compare_columns(column, polars_column(made.to_series(0)))
        except DataTierError as error:
            reports[name] = _failed(name, kind, error)
            continue
        report = _scaled(report, rows, whole)
        if rechunk and whole is not None and whole.num_chunks > 1:
            report = _merged(report, whole)
        reports[name] = report
    return ConversionPlan(columns=reports, notes=notes, to="polars")


def plan_to_pandas(frame: Any, *, strings: Strings) -> ConversionPlan:
    """Return the plan for a Polars frame."""
    reports: dict[str, ColumnReport] = {}
    for series in frame.get_columns():
        head = series.slice(0, _HEAD)
        pd = library("pandas")
        try:
            before = polars_column(head)
            values = pandas_values(arrow_of(head, strings), strings)
        except (
            DataTierError,
            TypeError,
            ValueError,
            NotImplementedError,
        ) as error:
            reports[series.name] = _failed(series.name, str(series.dtype), error)
            continue
        after = pandas_column(pd.Series(values, copy=False), series.name)
        reports[series.name] = _scaled(compare_columns(before, after), frame.height)
    return ConversionPlan(columns=reports, to="pandas")


def explain(
    frame: Any,
    to: str | None = None,
    *,
    index: IndexPolicy = "warn",
    rechunk: bool = False,
    categories: Categories = "categorical",
    aliasing: Aliasing = "copy",
    strings: Strings = "large",
) -> ConversionPlan:
    """Say for every column what a conversion would share, copy, change or refuse.

    The first 256 rows of each column go through the very route that the conversion
    takes; their bytes are accounted for and scaled to the frame. No more of the data
    is read, and the frame is not changed.

    Args:
        frame: A pandas frame, a `pyarrow.Table` or a Polars DataFrame.
        to: ``"polars"`` or ``"pandas"``; by default the other library.
        index: As in `to_polars_zero_copy`.
        rechunk: As in `to_polars_zero_copy`.
        categories: As in `to_polars_zero_copy`.
        aliasing: As in `to_polars_zero_copy`.
        strings: As in `from_polars_zero_copy`.

    Returns:
        The plan; ``str(plan)`` is a table.

    Raises:
        MissingDependencyError: A library is not installed.
        UnsupportedFrameError: The value is no frame of the other library.

    Example:
        >>> import pandas as pd
        >>> values = pd.array([1, 2], dtype="int64[pyarrow]")
        >>> df = pd.DataFrame({"a": values})
        >>> explain(df).columns["a"].verdict
        'zero copy'
    """
    for name in ("pyarrow", "polars", "pandas"):
        library(name)
    wanted = to if to is not None else "pandas" if is_polars(frame) else "polars"
    choose("to", wanted, ("polars", "pandas"))
    choose("strings", strings, ("large", "view", "str"))
    if wanted == "pandas" and is_polars(frame):
        return plan_to_pandas(frame, strings=strings)
    if wanted == "polars" and (is_pandas(frame) or is_table(frame)):
        notes = lost_beside_columns(frame, index) if is_pandas(frame) else []
        return plan_to_polars(
            frame,
            tuple(notes),
            rechunk=rechunk,
            categories=categories,
            aliasing=aliasing,
        )
    message = f"{kind_of(frame)} cannot be explained towards {wanted}"
    raise UnsupportedFrameError(message)

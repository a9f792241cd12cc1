"""Bring Arrow-backed frames into Polars by the one route that never corrupts.

The route is a `pyarrow.Table` of the columns' own chunks through
`polars.from_arrow(rechunk=False)`. The PyCapsule door is never used: it reads
small decimals as garbage.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

from lazycore.data._assemble import Categories, assemble
from lazycore.data._columns import (
    Column,
    check_names,
    columns_of,
    is_pandas,
    is_polars,
    is_table,
    kind_of,
    polars_column,
)
from lazycore.data._errors import (
    DataTierWarning,
    LossyConversionError,
    UnsupportedFrameError,
    ZeroCopyError,
)
from lazycore.data._libraries import library
from lazycore.data._prove import compare_all
from lazycore.data._types import outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.data._receipt import Receipt

__all__ = ["Aliasing", "IndexPolicy", "to_polars_zero_copy"]

IndexPolicy = Literal["warn", "raise", "drop", "columns"]
Aliasing = Literal["allow", "copy", "raise"]


def choose(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse an option's value that is not one of its words.

    Raises:
        ValueError: The value is none of them.
    """
    if value not in allowed:
        words = ", ".join(map(repr, allowed))
        raise ValueError(f"{name}={value!r}: choose one of {words}")


def has_plain_index(frame: Any) -> bool:
    """Tell whether a frame's index is the default one: 0, 1, 2, ... without a name."""
    pd = library("pandas")
    index = frame.index
    return (
        isinstance(index, pd.RangeIndex)
        and index.start == 0
        and index.step == 1
        and index.name is None
    )


def _index_as_columns(frame: Any) -> Any:
    names = [
        f"__index_level_{level}__" if name is None else name
        for level, name in enumerate(frame.index.names)
    ]
    check_names([*names, *frame.columns])
    return frame.reset_index(names=names)


def lost_beside_columns(
    frame: Any, index: IndexPolicy, *, receipt: bool = False
) -> list[str]:
    """Return what a pandas frame holds that Polars has no place for.

    A receipt keeps all of it but rows without columns.
    """
    notes = []
    if not len(frame.columns) and len(frame):
        notes.append(f"{len(frame)} rows without columns have no place in Polars")
    if receipt:
        return notes
    if index in ("warn", "raise") and not has_plain_index(frame):
        notes.append(
            "the index has no place in Polars: choose index='columns' to keep it or "
            "index='drop' to leave it"
        )
    if any(not isinstance(label, str) for label in frame.columns):
        notes.append("column names that are no text become text")
    if frame.attrs:
        notes.append("attrs have no place in Polars")
    return notes


def _warn(columns: Sequence[Column], notes: list[str], categories: Categories) -> None:
    """Say once per kind of loss what the result cannot hold."""
    pa = library("pyarrow")
    lost: dict[str, list[str]] = {}
    for column in columns:
        if column.foreign and not pa.types.is_dictionary(column.array.type):
            continue
        found = outcome(column.array.type)
        kept = categories == "enum" and pa.types.is_dictionary(column.array.type)
        if found.lossy and not kept:
            lost.setdefault(f"{found.changed} ({found.fix})", []).append(column.name)
    for text, names in lost.items():
        shown = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
        warnings.warn(f"{text}: columns {shown}", DataTierWarning, stacklevel=3)
    for note in notes:
        warnings.warn(note, DataTierWarning, stacklevel=3)


def _source_frame(frame: Any) -> Any:
    """Return a frame for what may be a series."""
    if is_pandas(frame, "Series"):
        return frame.to_frame("" if frame.name is None else frame.name)
    if is_pandas(frame) or is_table(frame):
        return frame
    library("pandas")
    if is_polars(frame) or is_polars(frame, "LazyFrame"):
        found = "a Polars frame already"
    else:
        found = f"{kind_of(frame)}"
    message = (
        f"to_polars_zero_copy takes a pandas DataFrame or Series or a pyarrow Table, "
        f"not {found}"
    )
    raise UnsupportedFrameError(message)


def to_polars_zero_copy(  # noqa: C901 - one option after the other
    frame: Any,
    *,
    strict: bool = False,
    index: IndexPolicy = "warn",
    rechunk: bool = False,
    categories: Categories = "categorical",
    aliasing: Aliasing = "copy",
    receipt: bool = False,
) -> Any:
    """Convert a pandas frame to Polars and share every buffer that can be shared.

    Numbers, booleans, dates, times, views, large lists and structs of them share
    all bytes; strings share their text and cost 16 bytes a row; `explain` says it
    for every column beforehand and `prove_zero_copy` afterwards. The source is
    never changed: its chunks, flags and buffers stay as they are.

    Args:
        frame: A pandas DataFrame or Series, or a `pyarrow.Table`. Columns that are
            not Arrow-backed are converted.
        strict: Raise unless every byte is shared and nothing is changed or lost; what
            a receipt keeps (index, names, attrs) is not lost.
        index: What becomes of a pandas index other than 0, 1, 2, ...: leave it with
            a warning, raise, leave it, or keep it as columns.
        rechunk: Merge each column's chunks (a full copy of chunked columns).
        categories: Make dictionaries of text ``Categorical``, or ``Enum``, which
            keeps the order and the categories that no row uses.
        aliasing: Columns of NumPy memory can be written to by their owner, and the
            Polars frame would change with them: copy them, allow it, or raise.
        receipt: Also return a `Receipt` that gives the original back.

    Returns:
        A Polars DataFrame (a Series for a Series); with ``receipt=True`` a pair of
        it and the receipt.

    Raises:
        MissingDependencyError: Polars, pyarrow or pandas is not installed.
        UnsupportedFrameError: The value is no frame.
        UnsupportedArrowTypeError: Polars cannot hold a column, or corrupts it.
        LossyConversionError: Names collide, or ``index="raise"`` met an index.
        ZeroCopyError: ``strict=True`` or ``aliasing="raise"`` cannot be kept.

    Example:
        >>> import pandas as pd
        >>> values = pd.array([1, 2], dtype="int64[pyarrow]")
        >>> df = pd.DataFrame({"a": values})
        >>> to_polars_zero_copy(df, strict=True)["a"].sum()
        3
    """
    library("polars")
    library("pyarrow")
    choose("index", index, ("warn", "raise", "drop", "columns"))
    choose("categories", categories, ("categorical", "enum"))
    choose("aliasing", aliasing, ("allow", "copy", "raise"))
    source = _source_frame(frame)
    notes: list[str] = []
    if is_pandas(source):
        notes = lost_beside_columns(source, index, receipt=receipt)
        if index == "raise" and not has_plain_index(source):
            message = (
                "index='raise', and the index is not the default one: choose "
                "index='columns' to keep it or index='drop' to leave it"
            )
            raise LossyConversionError(message)
    work = (
        _index_as_columns(source)
        if index == "columns" and is_pandas(source) and not has_plain_index(source)
        else source
    )
    if strict:
        from lazycore.data._explain import plan_to_polars

        plan = plan_to_polars(
            work,
            tuple(notes),
            rechunk=rechunk,
            categories=categories,
            aliasing=aliasing,
        )
        if plan.vetoes(work.num_rows if is_table(work) else len(work)):
            raise ZeroCopyError(plan.message(), report=plan)
    columns = columns_of(work, copy=aliasing == "copy")
    result = assemble(columns, rechunk=rechunk, categories=categories)
    if strict or (aliasing == "raise" and any(c.foreign for c in columns)):
        seen = [polars_column(series) for series in result.get_columns()]
        report = compare_all(columns, seen, tuple(notes))
        if strict and not report.ok:
            raise ZeroCopyError(report.message(), report=report)
        if any(column.aliased for column in report.columns.values()):
            message = f"writes to the source would show through: {report.message()}"
            raise ZeroCopyError(message, report=report)
    if not strict:
        _warn([] if receipt else columns, notes, categories)
    given: Receipt | None = None
    if receipt:
        from lazycore.data._receipt import Receipt as Made

        given = Made.issue(source=source, columns=columns, result=result)
    if is_pandas(frame, "Series"):
        result = result.to_series(0)
    return (result, given) if receipt else result

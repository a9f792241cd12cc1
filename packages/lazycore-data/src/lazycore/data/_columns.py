"""Reach the Arrow arrays under frames of pandas, Polars and pyarrow as they lie."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lazycore.data._buffers import addresses, array_buffers, numpy_ranges
from lazycore.data._errors import (
    LossyConversionError,
    UnsupportedArrowTypeError,
    UnsupportedFrameError,
)
from lazycore.data._libraries import library
from lazycore.data._types import cause, is_panic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazycore.data._buffers import Range

__all__ = [
    "Column",
    "columns_of",
    "export",
    "is_pandas",
    "is_polars",
    "is_table",
    "kind_of",
    "pandas_column",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column as Arrow, with what is known of the memory under it.

    Attributes:
        name: The name as text.
        label: The name as the frame has it.
        array: A `pyarrow.ChunkedArray`; held, so that addresses stay taken.
        kind: The type in the words of the owning library.
        ranges: (address, size) of the owner's buffers.
        unproven: Why the owner's own bytes cannot be seen; empty when they can.
        foreign: Whether the owner keeps NumPy memory instead of Arrow buffers.
        held: What else must live so that the addresses in ``ranges`` stay taken.
    """

    name: str
    label: Any
    array: Any
    kind: str
    ranges: dict[Range, None] = field(default_factory=dict)
    unproven: str = ""
    foreign: bool = False
    held: Any = None


def _loaded(name: str) -> Any:
    """Return a library only if it is loaded: else no value can be of its types."""
    return sys.modules.get(name)


def is_pandas(value: object, kind: str = "DataFrame") -> bool:
    """Tell whether a value is a pandas frame (or series), without loading pandas."""
    pd = _loaded("pandas")
    found = getattr(pd, kind, None)
    return found is not None and isinstance(value, found)


def is_polars(value: object, kind: str = "DataFrame") -> bool:
    """Tell whether a value is a Polars frame (or series), without loading Polars."""
    pl = _loaded("polars")
    found = getattr(pl, kind, None)
    return found is not None and isinstance(value, found)


def is_table(value: object) -> bool:
    """Tell whether a value is a `pyarrow.Table`, without loading pyarrow."""
    pa = _loaded("pyarrow")
    found = getattr(pa, "Table", None)
    return found is not None and isinstance(value, found)


def kind_of(value: object) -> str:
    """Name a value's type for an error message."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def export(series: Any, *, views: bool = True) -> Any:
    """Return a Polars series as a `pyarrow.ChunkedArray`, chunks as they lie.

    A one-column frame is exported: `Series.to_arrow` would merge the chunks of
    the caller's series in place.

    Args:
        series: The Polars series; it is not changed.
        views: Keep string views; otherwise they become large strings (a copy).

    Raises:
        UnsupportedArrowTypeError: Arrow, or this pyarrow, has no such type.
    """
    pl = library("polars")
    if any(kind == pl.Object for kind in _dtypes(series.dtype)):
        # The export would hand out the addresses of the objects as bytes.
        message = (
            f"column {series.name!r} of type {series.dtype} holds Python objects, "
            "which Arrow cannot: convert them to one type of value first"
        )
        raise UnsupportedArrowTypeError(message)
    frame = series.to_frame()
    try:
        if hasattr(pl, "CompatLevel"):
            level = pl.CompatLevel
            wanted = level.newest() if views else level.oldest()
            found = frame.to_arrow(compat_level=wanted).column(0)
        else:
            found = frame.to_arrow(future=views).column(0)  # Polars 1.0
    except BaseException as error:
        if isinstance(error, MemoryError) or not (
            isinstance(error, Exception) or is_panic(error)
        ):
            raise
        how = "panics on" if is_panic(error) else "fails at"
        message = (
            f"Polars {pl.__version__} {how} exporting column {series.name!r} of type "
            f"{series.dtype}: {cause(error)}; {_export_fix(series.dtype)}"
        )
        raise UnsupportedArrowTypeError(message) from error
    if not _faithful(series.dtype, found.type):
        message = (
            f"Polars {pl.__version__} exports column {series.name!r} of type "
            f"{series.dtype} as {found.type}: codes and times would lose their "
            "meaning; upgrade Polars"
        )
        raise UnsupportedArrowTypeError(message)
    return found


def _faithful(dtype: Any, kind: Any) -> bool:
    """Tell whether an export kept what values mean.

    Polars 1.0 hands out the bare codes of categories and the bare counts of times
    where they lie in an Array.
    """
    pl, types = library("polars"), library("pyarrow").types
    if isinstance(dtype, pl.List | pl.Array):
        return hasattr(kind, "value_type") and _faithful(dtype.inner, kind.value_type)
    if isinstance(dtype, pl.Struct):
        return types.is_struct(kind) and all(
            _faithful(part.dtype, kind.field(k).type)
            for k, part in enumerate(dtype.fields)
        )
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return bool(types.is_dictionary(kind))
    if dtype.is_temporal():
        return bool(types.is_temporal(kind))
    return True


def _dtypes(dtype: Any) -> Iterator[Any]:
    """Yield a Polars type and every type inside it."""
    yield dtype
    inner = getattr(dtype, "inner", None)
    if inner is not None:
        yield from _dtypes(inner)
    for part in getattr(dtype, "fields", None) or ():
        yield from _dtypes(part.dtype)


def _export_fix(dtype: Any) -> str:
    if any("Int128" in str(kind) for kind in _dtypes(dtype)):
        return "cast it to Decimal(38, 0) or Int64 first"
    return "cast it to a type of Arrow's, or upgrade Polars and pyarrow"


def _is_categorical(series: Any) -> bool:
    pl = library("polars")
    return isinstance(series.dtype, pl.Categorical | pl.Enum)


def polars_column(series: Any) -> Column:
    """Return a Polars series as a column, its buffers witnessed by two exports."""
    array = export(series)
    if _is_categorical(series):
        # The export of categories is made anew on every call; the codes are not.
        codes, again = export(series.to_physical()), export(series.to_physical())
        ranges = {**array_buffers(codes)}
    else:
        codes, again = array, export(series)
        ranges = array_buffers(array)
    stable = addresses(codes) == addresses(again)
    return Column(
        name=series.name,
        label=series.name,
        array=array,
        kind=str(series.dtype),
        ranges=ranges,
        held=codes,
        unproven=""
        if stable
        else "Polars makes this export anew on every call: its own bytes are hidden",
    )


def pandas_column(series: Any, label: Any, *, copy: bool = False) -> Column:
    """Return a pandas series as a column, without a conversion where it is Arrow.

    Args:
        series: The pandas series; it is not changed.
        label: Its name in the frame.
        copy: Copy NumPy memory first, so that later writes do not show through.

    Raises:
        UnsupportedArrowTypeError: The values are nothing that Arrow can hold.
    """
    pa = library("pyarrow")
    values = series.array
    arrow = getattr(values, "_pa_array", None)
    if isinstance(arrow, pa.ChunkedArray):
        return Column(
            name=str(label),
            label=label,
            array=arrow,
            kind=str(series.dtype),
            ranges=array_buffers(arrow),
        )
    ranges = numpy_ranges(series)
    try:
        converted = pa.Array.from_pandas(series.copy(deep=True) if copy else series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        message = (
            f"column {label!r} of dtype {series.dtype} cannot be Arrow: {error}; "
            "convert it to one type of value first"
        )
        raise UnsupportedArrowTypeError(message) from error
    if not isinstance(converted, pa.ChunkedArray):
        converted = pa.chunked_array([converted])
    return Column(
        name=str(label),
        label=label,
        array=converted,
        kind=str(series.dtype),
        ranges=ranges,
        foreign=True,
    )


def _pandas_series(frame: Any) -> Iterator[tuple[Any, Any]]:
    for position, label in enumerate(frame.columns):
        yield label, frame.iloc[:, position]


def check_names(labels: Any) -> None:
    """Refuse names that would collide as text.

    Raises:
        LossyConversionError: Two columns would end under one name.
    """
    seen: dict[str, Any] = {}
    for label in labels:
        text = str(label)
        if text in seen:
            message = (
                f"columns {seen[text]!r} and {label!r} would both be named {text!r}: "
                "rename one first"
            )
            raise LossyConversionError(message)
        seen[text] = label


def columns_of(frame: Any, *, copy: bool = False) -> list[Column]:
    """Return the columns of a pandas or Polars frame, a series or a pyarrow table.

    Raises:
        UnsupportedFrameError: The value is none of these.
        LossyConversionError: Two names are equal as text.
        UnsupportedArrowTypeError: A column is nothing that Arrow can hold.
    """
    if is_pandas(frame):
        check_names(frame.columns)
        return [
            pandas_column(s, label, copy=copy) for label, s in _pandas_series(frame)
        ]
    if is_pandas(frame, "Series"):
        label = "" if frame.name is None else frame.name
        return [pandas_column(frame, label, copy=copy)]
    if is_polars(frame):
        return [polars_column(series) for series in frame.get_columns()]
    if is_polars(frame, "Series"):
        return [polars_column(frame)]
    if is_table(frame):
        check_names(frame.column_names)
        return [
            Column(
                name=name,
                label=name,
                array=array,
                kind=str(array.type),
                ranges=array_buffers(array),
            )
            for name, array in zip(frame.column_names, frame.columns, strict=True)
        ]
    message = (
        f"{kind_of(frame)} is no frame: give a pandas or Polars DataFrame or Series, "
        "or a pyarrow Table"
    )
    raise UnsupportedFrameError(message)

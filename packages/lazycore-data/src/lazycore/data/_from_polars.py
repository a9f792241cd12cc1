"""Bring Polars frames back to Arrow-backed pandas, chunk by chunk, type by type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lazycore.data._buffers import size_of
from lazycore.data._columns import (
    columns_of,
    export,
    is_pandas,
    is_polars,
    is_table,
    kind_of,
)
from lazycore.data._errors import (
    UnsupportedArrowTypeError,
    UnsupportedFrameError,
    ZeroCopyError,
)
from lazycore.data._libraries import library, version_of
from lazycore.data._prove import compare_all
from lazycore.data._to_polars import choose
from lazycore.data._types import has_view, unviewed

if TYPE_CHECKING:
    from lazycore.data._receipt import Receipt

__all__ = ["Strings", "from_polars_zero_copy", "pandas_from_arrow", "to_arrow_table"]

Strings = Literal["large", "view", "str"]
_STRINGS = ("large", "view", "str")


def _signed(array: Any) -> Any:
    """Return a dictionary whose codes pandas can read, over the same code bytes."""
    pa = library("pyarrow")
    kind = array.type
    if not pa.types.is_dictionary(kind) or not pa.types.is_unsigned_integer(
        kind.index_type
    ):
        return array
    width = kind.index_type.bit_width
    longest = max((len(chunk.dictionary) for chunk in array.chunks), default=0)
    if longest > 2 ** (width - 1):
        return array
    signed = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[width]
    # pyarrow 16 and 21 hand no dictionary of large strings on to NumPy.
    values = kind.value_type
    size = max((size_of(chunk.dictionary) for chunk in array.chunks), default=0)
    if values == pa.large_string() and size < 2**31:
        values = pa.string()
    parts = [
        pa.DictionaryArray.from_arrays(
            chunk.indices.view(signed),
            chunk.dictionary.cast(values),
            ordered=kind.ordered,
        )
        for chunk in array.chunks
    ]
    return pa.chunked_array(parts, type=pa.dictionary(signed, values, kind.ordered))


def _unviewed(name: str, array: Any) -> Any:
    """Return an array with its views rebuilt, as pandas can work on it."""
    pa = library("pyarrow")
    wanted = unviewed(array.type)
    try:
        return array.cast(wanted)
    except pa.ArrowNotImplementedError as error:
        if pa.types.is_nested(wanted):
            message = (
                f"column {name!r}: pyarrow {pa.__version__} cannot rebuild views in "
                f"{array.type}: upgrade pyarrow, or ask for strings='view'"
            )
            raise UnsupportedArrowTypeError(message) from error
    # pyarrow 16 casts no views: their values go through Python.
    parts = [pa.array(chunk.to_pylist(), wanted) for chunk in array.chunks]
    return pa.chunked_array(parts, type=wanted)


def _is_text(kind: Any) -> bool:
    return str(kind) in {"string", "large_string", "string_view"}


def arrow_of(series: Any, strings: Strings) -> Any:
    """Return a Polars series as Arrow that pandas can work on."""
    pa, pl = library("pyarrow"), library("polars")
    array = export(series)
    if strings != "view" and has_view(array.type):
        array = export(series, views=False)
        if has_view(array.type):
            message = (
                f"Polars {pl.__version__} leaves views in column {series.name!r} of "
                f"type {series.dtype}, and pandas cannot work on them: upgrade Polars, "
                "or ask for strings='view'"
            )
            raise UnsupportedArrowTypeError(message)
    array = _signed(array)
    if isinstance(series.dtype, pl.Enum) and pa.types.is_dictionary(array.type):
        kind = array.type
        ordered = pa.dictionary(kind.index_type, kind.value_type, ordered=True)
        parts = [
            pa.DictionaryArray.from_arrays(c.indices, c.dictionary, ordered=True)
            for c in array.chunks
        ]
        array = pa.chunked_array(parts, type=ordered)
    return array


def _string_dtype() -> Any:
    """Return pandas' own Arrow string type: the default ``str`` from pandas 3 on."""
    pd = library("pandas")
    if version_of(pd) >= (3,):
        return pd.StringDtype("pyarrow", na_value=float("nan"))
    return pd.StringDtype("pyarrow")


def pandas_values(array: Any, strings: Strings) -> Any:
    """Return a pandas extension array over a chunked array."""
    pd = library("pandas")
    if strings == "str" and _is_text(array.type):
        return _string_dtype().__from_arrow__(array)
    return pd.arrays.ArrowExtensionArray(array)


def build_frame(values: dict[str, Any], rows: int, *, index: Any = None) -> Any:
    """Return a pandas frame over extension arrays, without a copy."""
    pd = library("pandas")
    if not values:
        return pd.DataFrame(index=pd.RangeIndex(rows) if index is None else index)
    series = {
        position: pd.Series(value, index=index, copy=False)
        for position, value in enumerate(values.values())
    }
    frame = pd.DataFrame(series, copy=False)
    frame.columns = list(values)
    return frame


def _polars_frame(frame: Any, asked: str) -> Any:
    if is_polars(frame, "LazyFrame"):
        return frame.collect()
    if is_polars(frame, "Series"):
        return frame.to_frame()
    if is_polars(frame):
        return frame
    library("polars")
    message = (
        f"{asked} takes a Polars DataFrame, LazyFrame or Series, not {kind_of(frame)}"
    )
    raise UnsupportedFrameError(message)


def from_polars_zero_copy(
    frame: Any,
    *,
    strict: bool = False,
    strings: Strings = "large",
    receipt: Receipt | None = None,
) -> Any:
    """Convert a Polars frame to pandas on Arrow types, sharing what can be shared.

    The source keeps its chunks. Everything but text is shared. pandas cannot work
    on Polars' string views (repr, sort, groupby and merge raise), so the caller
    chooses between usable text and shared text.

    Args:
        frame: A Polars DataFrame, LazyFrame (collected) or Series.
        strict: Raise unless every byte is shared and nothing is changed.
        strings: ``"large"`` rebuilds text as ``large_string[pyarrow]``, ``"view"``
            shares it as ``string_view[pyarrow]``, ``"str"`` rebuilds it as pandas'
            own string type (the default of pandas 3).
        receipt: Gives back the original arrays of columns that still lie in the
            buffers that the receipt has recorded.

    Returns:
        A pandas DataFrame of ArrowDtype columns (a Series for a Series).

    Raises:
        MissingDependencyError: pandas, Polars or pyarrow is not installed.
        UnsupportedFrameError: The value is nothing of Polars.
        UnsupportedArrowTypeError: This Polars cannot give a column back.
        ZeroCopyError: ``strict=True`` cannot be kept.

    Example:
        >>> import polars as pl
        >>> df = from_polars_zero_copy(pl.DataFrame({"a": [1, 2]}))
        >>> str(df.dtypes["a"])
        'int64[pyarrow]'
    """
    library("pandas")
    library("pyarrow")
    choose("strings", strings, _STRINGS)
    source = _polars_frame(frame, "from_polars_zero_copy")
    if receipt is not None:
        result = receipt.restore(source, strings=strings)
    else:
        if strict:
            from lazycore.data._explain import plan_to_pandas

            plan = plan_to_pandas(source, strings=strings)
            if plan.vetoes(source.height):
                raise ZeroCopyError(plan.message(), report=plan)
        values = {
            series.name: pandas_values(arrow_of(series, strings), strings)
            for series in source.get_columns()
        }
        result = build_frame(values, source.height)
    if strict:
        report = compare_all(columns_of(source), columns_of(result))
        if receipt is None and not report.ok:
            raise ZeroCopyError(report.message(), report=report)
        if receipt is not None and not receipt.report.ok:
            raise ZeroCopyError(receipt.report.message(), report=receipt.report)
    if not is_polars(frame, "Series"):
        return result
    return result.iloc[:, 0].rename(frame.name or None)  # "" is Polars' "unnamed"


def to_arrow_table(frame: Any, *, strings: Strings = "large") -> Any:
    """Return a frame as a `pyarrow.Table` of its own chunks.

    Args:
        frame: A pandas frame, a Polars DataFrame, LazyFrame or Series, or a table
            (given back as it is). A pandas index is left out; NumPy columns are
            copied.
        strings: ``"view"`` shares the text of Polars; any other rebuilds it as
            large strings, which every reader of Arrow understands.

    Raises:
        MissingDependencyError: pyarrow is not installed.
        UnsupportedFrameError: The value is no frame.

    Example:
        >>> import polars as pl
        >>> to_arrow_table(pl.DataFrame({"a": [1, 2]})).num_rows
        2
    """
    pa = library("pyarrow")
    choose("strings", strings, _STRINGS)
    if is_table(frame):
        return frame
    if any(is_polars(frame, kind) for kind in ("DataFrame", "LazyFrame", "Series")):
        columns = _polars_frame(frame, "to_arrow_table").get_columns()
        arrays = [arrow_of(series, strings) for series in columns]
        return pa.Table.from_arrays(arrays, names=[s.name for s in columns])
    found = columns_of(frame, copy=True)
    return pa.Table.from_arrays(
        [column.array for column in found], names=[column.name for column in found]
    )


def pandas_from_arrow(table: Any, *, strings: Strings = "large") -> Any:
    """Return a `pyarrow.Table` as pandas on Arrow types, over the same buffers.

    Args:
        table: The table; its chunks are shared, views are rebuilt as asked.
        strings: As in `from_polars_zero_copy`; text without views is shared by
            ``"large"`` as it is.

    Raises:
        MissingDependencyError: pandas or pyarrow is not installed.
        UnsupportedFrameError: The value is no table.
        UnsupportedArrowTypeError: This pyarrow cannot rebuild nested views.

    Example:
        >>> import pyarrow as pa
        >>> str(pandas_from_arrow(pa.table({"a": [1]})).dtypes["a"])
        'int64[pyarrow]'
    """
    library("pyarrow")
    library("pandas")
    choose("strings", strings, _STRINGS)
    if not is_table(table) or is_pandas(table):
        message = f"pandas_from_arrow takes a pyarrow Table, not {kind_of(table)}"
        raise UnsupportedFrameError(message)
    values = {}
    for column in columns_of(table):
        array = column.array
        if strings != "view" and has_view(array.type):
            array = _unviewed(column.name, array)
        values[column.name] = pandas_values(_signed(array), strings)
    return build_frame(values, table.num_rows)

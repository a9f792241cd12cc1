"""Make a Polars frame over columns' own chunks, as the running Polars reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lazycore.data._errors import LossyConversionError, UnsupportedArrowTypeError
from lazycore.data._libraries import library
from lazycore.data._prepare import prepared
from lazycore.data._types import cause, is_panic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.data._columns import Column

__all__ = ["Categories", "assemble"]

Categories = Literal["categorical", "enum"]


def _enumerated(series: Any, column: Column) -> Any:
    """Return a categorical series as an Enum of all its categories, in order."""
    pa, pl = library("pyarrow"), library("polars")
    kind = column.array.type
    if not pa.types.is_dictionary(kind):
        return series
    values: dict[str | None, None] = {}
    for chunk in column.array.chunks:
        values.update(dict.fromkeys(chunk.dictionary.to_pylist()))
    values.pop(None, None)  # a null category is a null, not a category
    if any(not isinstance(value, str) for value in values):
        message = (
            f"column {column.label!r}: categories='enum' needs text categories, "
            f"not {kind.value_type}; use categories='categorical'"
        )
        raise LossyConversionError(message)
    return series.cast(pl.Enum(list(values)))


def _read(table: Any, *, rechunk: bool) -> Any:
    """Return a table as a Polars frame.

    A table is read in batches, cut where any column's chunks end. Polars 1.0 panics
    on the slices of nested columns that come of it and loses dictionaries beside
    chunked structs: such tables are read one column at a time.
    """
    pa, pl = library("pyarrow"), library("polars")
    types = pa.types
    kinds = table.schema.types
    coded = any(map(types.is_dictionary, kinds))
    structs = any(map(types.is_struct, kinds))
    layouts = {tuple(map(len, column.chunks)) for column in table.columns}
    unlike = len(layouts) > 1 and (coded or any(map(types.is_nested, kinds)))
    if unlike or (coded and structs):
        parts = [
            pl.from_arrow(table.select([k]), rechunk=rechunk).to_series(0)
            for k in range(table.num_columns)
        ]
        names = dict(zip(table.column_names, parts, strict=True))
        return pl.DataFrame([part.alias(name) for name, part in names.items()])
    return pl.from_arrow(table, rechunk=rechunk)


def assemble(
    columns: Sequence[Column], *, rechunk: bool, categories: Categories
) -> Any:
    """Return a Polars frame over the columns' own chunks.

    Raises:
        UnsupportedArrowTypeError: Polars refused or panicked.
    """
    pa, pl = library("pyarrow"), library("polars")
    arrays = [prepared(column) for column in columns]
    table = pa.Table.from_arrays(arrays, names=[column.name for column in columns])
    if not arrays:
        return pl.DataFrame()
    try:
        frame = _read(table, rechunk=rechunk)
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        message = f"Polars refused the columns: {cause(error)}"
        raise UnsupportedArrowTypeError(message) from error
    if frame.columns != table.column_names:  # "" would become "column_0"
        frame.columns = table.column_names
    if categories == "enum":
        enums = [
            _enumerated(frame.get_column(column.name), column)
            for column in columns
            if pa.types.is_dictionary(column.array.type)
        ]
        frame = frame.with_columns(enums) if enums else frame
    return frame

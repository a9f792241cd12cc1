"""Make a column safe for the running Polars: cast it, rebuild it or refuse it.

Some releases of Polars read certain values wrongly or cannot give them back. What
the running one does is asked once per hazard, on three rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.data._errors import LossyConversionError, UnsupportedArrowTypeError
from lazycore.data._libraries import library
from lazycore.data._types import cause, is_panic, outcome, walk
from lazycore.data._values import inner_arrays, meaning

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.data._columns import Column

__all__ = ["prepared"]


def _structs() -> Any:
    return library("pyarrow").array([{"a": 1}, None, {"a": None}])


def _maps() -> Any:
    pa = library("pyarrow")
    kind = pa.map_(pa.string(), pa.int64())
    return pa.array([[("a", 1)], None, [("b", None)]], kind)


def _categories() -> Any:
    pa = library("pyarrow")
    codes = pa.array([1, 0, 2], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(["b", None, "c"]))


def _fixed_lists() -> Any:
    pa = library("pyarrow")
    return pa.array([[1], None, [2]], pa.list_(pa.int64(), 1)).slice(1)


def _nothing_inside() -> Any:
    pa = library("pyarrow")
    text = pa.array(["x"], pa.string_view()).slice(1)
    return pa.LargeListArray.from_arrays(pa.array([0, 0, 0], pa.int64()), text)


def _slices_inside() -> Any:
    pa = library("pyarrow")
    text = pa.array(["x", None, "z", None]).slice(1)
    return pa.StructArray.from_arrays([text], ["a"])


# Hazard -> three rows that show whether the running Polars has it.
_TRIALS: dict[str, Callable[[], Any]] = {
    "null structs": _structs,
    "slices of structs": lambda: _structs().slice(1),
    "slices inside": _slices_inside,
    "nothing inside": _nothing_inside,
    "null maps": _maps,
    "null categories": _categories,
    "slices of fixed lists": _fixed_lists,
}
_answers: dict[str, bool] = {}


def _survives(hazard: str) -> bool:
    """Ask the running Polars once whether values come through it as they are."""
    from lazycore.data._columns import export

    found = _answers.get(hazard)
    if found is None:
        pa, pl = library("pyarrow"), library("polars")
        rows = _TRIALS[hazard]()
        try:
            frame = pl.from_arrow(pa.table({"c": rows}), rechunk=False)
            series = frame.get_column("c")
            found = meaning(export(series)) == meaning(rows)
            if hazard == "null categories":  # the export shows nulls, Polars text
                found = found and series.to_list() == rows.to_pylist()
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            found = False
        _answers[hazard] = found
    return found


def _cast(column: Column, kind: Any) -> Any:
    pa = library("pyarrow")
    try:
        return column.array.cast(kind)
    except pa.ArrowNotImplementedError as error:
        message = (
            f"column {column.label!r}: {column.array.type} must become {kind} for "
            f"Polars, but pyarrow {pa.__version__} cannot cast it; upgrade pyarrow"
        )
        raise UnsupportedArrowTypeError(message) from error
    except pa.ArrowInvalid as error:
        message = (
            f"column {column.label!r}: a value of {column.array.type} does not fit "
            f"into {kind}, all that Polars has: {cause(error)}; clip the values first"
        )
        raise LossyConversionError(message) from error


def _without_null_categories(chunk: Any) -> Any:
    """Return a dictionary array whose codes of a null category are null."""
    from importlib import import_module

    pa, pc = library("pyarrow"), import_module("pyarrow.compute")
    if not chunk.dictionary.null_count:
        return chunk
    kept = chunk.dictionary.is_valid().take(chunk.indices)
    codes = pc.if_else(kept, chunk.indices, pa.scalar(None, chunk.indices.type))
    return pa.DictionaryArray.from_arrays(
        codes, chunk.dictionary, ordered=chunk.type.ordered
    )


def _refuse_losses(column: Column, part: Any, *, top: bool) -> None:
    types = library("pyarrow").types
    kind = part.type
    what = ""
    if types.is_struct(kind) and part.null_count and not _survives("null structs"):
        what = "null structs, which this Polars turns into structs of nulls"
    elif types.is_map(kind) and part.null_count and not _survives("null maps"):
        what = "null maps, which this Polars turns into empty lists"
    elif (
        types.is_dictionary(kind)
        and not top
        and part.dictionary.null_count
        and not _survives("null categories")
    ):
        what = "a null among nested categories, which this Polars turns into text"
    if what:
        version = library("polars").__version__
        message = (
            f"column {column.label!r} holds {what} (Polars {version}): fill these "
            "rows or upgrade Polars"
        )
        raise LossyConversionError(message)


def _must_move(part: Any) -> bool:
    """Tell whether Polars cannot read, or not give back, a slice in an array."""
    types = library("pyarrow").types
    kind = part.type
    inner: list[Any] = []
    if types.is_struct(kind):
        inner = [part.field(k) for k in range(kind.num_fields)]
    elif types.is_list(kind) or types.is_large_list(kind):
        inner = [part.values]
    if any(c.offset and c.null_count for c in inner) and not _survives("slices inside"):
        return True
    if any(c.offset and not len(c) for c in inner) and not _survives("nothing inside"):
        return True
    if types.is_fixed_size_list(kind):
        # The child stays whole under a slice, and bits without a null count as bits.
        cut = len(part.values) != len(part) * kind.list_size
        bits = part.buffers()[0] is not None
        return cut and bits and not _survives("slices of fixed lists")
    nulls = part.offset and types.is_struct(kind) and part.null_count
    return bool(nulls) and not _survives("slices of structs")


def _safe_chunk(column: Column, chunk: Any) -> Any:
    pa = library("pyarrow")
    if pa.types.is_dictionary(chunk.type) and not _survives("null categories"):
        chunk = _without_null_categories(chunk)
    parts = list(inner_arrays(chunk))
    for part in parts:
        _refuse_losses(column, part, top=part is parts[0])
    if any(map(_must_move, parts)):
        return pa.concat_arrays([chunk])
    return chunk


def _has_hazards(kind: Any) -> bool:
    types = library("pyarrow").types
    return any(
        types.is_struct(part)
        or types.is_map(part)
        or types.is_list(part)
        or types.is_large_list(part)
        or types.is_fixed_size_list(part)
        or types.is_dictionary(part)
        for part in walk(kind)
    )


def prepared(column: Column) -> Any:
    """Return the array that Polars may safely see, shared wherever it may be.

    Raises:
        UnsupportedArrowTypeError: Polars cannot hold the type.
        LossyConversionError: Polars cannot hold a value.
    """
    pa = library("pyarrow")
    found = outcome(column.array.type)
    if found.error:
        message = f"column {column.label!r}: {found.error}; {found.fix}"
        raise UnsupportedArrowTypeError(message)
    array = column.array if found.repair is None else _cast(column, found.repair)
    if len(array) == 0:
        # Polars 1.0 cannot read a dictionary without chunks, nor an empty slice of
        # views.
        return pa.chunked_array([pa.nulls(0, array.type)])
    full = [chunk for chunk in array.chunks if len(chunk)]
    if _has_hazards(array.type):
        full = [_safe_chunk(column, chunk) for chunk in full]
    elif len(full) == array.num_chunks:
        return array
    return pa.chunked_array(full, type=array.type)

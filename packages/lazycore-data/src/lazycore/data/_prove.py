"""Prove by buffer addresses and sampled values what a conversion shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.data._buffers import account, array_buffers
from lazycore.data._columns import Column, columns_of, is_polars
from lazycore.data._errors import UnsupportedFrameError
from lazycore.data._libraries import library
from lazycore.data._report import ColumnReport, CopyReport
from lazycore.data._types import change, has_view, walk
from lazycore.data._values import meaning

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["compare_all", "compare_columns", "prove_zero_copy"]

_SAMPLE = 64


def _sample(array: Any) -> Any:
    """Return the first, middle and last rows of a chunked array, without a copy."""
    pa = library("pyarrow")
    if len(array) <= 3 * _SAMPLE:
        return array
    parts: list[Any] = []
    for start in (0, len(array) // 2, len(array) - _SAMPLE):
        parts += array.slice(start, _SAMPLE).chunks
    return pa.chunked_array(parts, type=array.type)


def _values_agree(before: Any, after: Any) -> bool | None:
    """Compare sampled values; None when they cannot be compared."""
    pa = library("pyarrow")
    if len(before) != len(after):
        return False
    left, right = _sample(before), _sample(after)
    try:
        if left.type == right.type and left.equals(right):
            return True
        # NaN equals itself as text, and 0.0 differs from -0.0.
        return repr(meaning(left)) == repr(meaning(right))
    except (
        ArithmeticError,
        ImportError,
        LookupError,
        NotImplementedError,
        TypeError,
        ValueError,
        pa.ArrowException,
    ):
        return None


def _reason(  # noqa: C901 - a decision table
    before: Column, after: Column, *, shared: int, copied: int
) -> tuple[str, str]:
    """Return why bytes are new, and what to do about it."""
    types = library("pyarrow").types
    old, new = before.array.type, after.array.type
    if before.foreign:
        return (
            f"dtype {before.kind} keeps NumPy memory: converted",
            "use ArrowDtype columns",
        )
    if not copied:
        return "", ""
    if before.array.num_chunks > after.array.num_chunks and not shared:
        return "chunks were merged", "convert with rechunk=False"
    if any(types.is_dictionary(part) for kind in (old, new) for part in walk(kind)):
        return "codes and categories are rebuilt", "a receipt gives the original back"
    if (
        old == new
        and types.is_nested(old)
        and any(chunk.buffers()[0] is not None for chunk in before.array.chunks)
    ):
        return "Polars cannot share this slice with nulls", "convert before slicing"
    if types.is_fixed_size_binary(old):
        return "Polars has no fixed-size binary", "a receipt gives the type back"
    if has_view(new) and not has_view(old):
        long = "text over 12 bytes is shared" if shared else "short text is inlined"
        return f"views: 16 bytes a row, {long}", "keep views at the source"
    if has_view(old) and not has_view(new):
        return "pandas cannot work on views: text is rebuilt", "strings='view'"
    if types.is_list(old):
        return "32-bit offsets are widened", "use large_list at the source"
    if types.is_decimal(old):
        return "widened to 128 bits", "use decimal128 at the source"
    if types.is_temporal(old):
        return f"Polars has no {old}: rewritten as {new}", f"use {new} at the source"
    return f"{old} is stored as {new}", ""


def compare_columns(before: Column, after: Column) -> ColumnReport:
    """Return what one column shares with another, both held alive."""
    shared, copied = account(before.ranges, after.ranges)
    if after.array.type != before.array.type and not after.ranges:
        copied += sum(size for _, size in array_buffers(after.array))
    if before.foreign:
        changed, lossy, fix = "", False, ""
    else:
        changed, lossy, fix = change(before.array.type, after.array.type)
    why, remedy = _reason(before, after, shared=shared, copied=copied)
    agree = _values_agree(before.array, after.array)
    unknown = "the values could not be compared" if agree is None else ""
    return ColumnReport(
        name=after.name,
        source_type=before.kind if before.foreign else str(before.array.type),
        target_type=after.kind,
        shared=shared,
        copied=copied,
        changed=changed,
        lossy=lossy,
        unproven=before.unproven or after.unproven or unknown,
        aliased=before.foreign and shared > 0,
        values_checked=agree,
        why=why,
        fix=fix or remedy,
    )


def compare_all(
    source: Sequence[Column], result: Sequence[Column], notes: tuple[str, ...] = ()
) -> CopyReport:
    """Return the proof for columns that correspond by position."""
    columns = {
        after.name: compare_columns(before, after)
        for before, after in zip(source, result, strict=True)
    }
    return CopyReport(columns=columns, notes=notes)


def prove_zero_copy(source: Any, result: Any) -> CopyReport:
    """Prove which bytes of a result lie in the buffers of its source.

    Every buffer of the result (validity, offsets, children and dictionaries
    included) is looked up by address in the source's buffers. Polars is exported
    twice, as one-column frames: a column whose two exports lie at different places
    is called unproven, not zero copy. Values are compared at the start, in the
    middle and at the end of each column. Nothing is changed in either frame.

    Args:
        source: A pandas or Polars frame or series, or a `pyarrow.Table`.
        result: What a conversion made of it; columns correspond by name, and by
            position where no name fits.

    Returns:
        A report; ``report.ok`` is true only when every byte of every column is
        shared, no type or value changed and nothing stayed unproven.

    Raises:
        UnsupportedFrameError: A value is no frame, or the columns don't correspond.

    Example:
        >>> import pyarrow as pa
        >>> table = pa.table({"a": [1, 2, 3]})
        >>> prove_zero_copy(table, table.slice(1)).bytes_copied
        0
    """
    library("pyarrow")
    before, after = columns_of(source), columns_of(result)
    by_name = {column.name: column for column in before}
    if all(column.name in by_name for column in after):
        before = [by_name[column.name] for column in after]
    elif len(before) != len(after):
        message = (
            f"the source has {len(before)} columns and the result {len(after)}, under "
            "other names: select the same columns first"
        )
        raise UnsupportedFrameError(message)
    notes: tuple[str, ...] = ()
    if not is_polars(source, "Series") and len(by_name) > len(after):
        missing = [name for name in by_name if name not in {c.name for c in after}]
        notes = (
            f"columns that the result lacks: {', '.join(map(repr, missing[:20]))}",
        )
    return compare_all(before, after, notes)

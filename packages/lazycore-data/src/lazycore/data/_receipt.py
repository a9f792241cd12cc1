"""Give the original Arrow arrays back for columns that still lie in their buffers.

A Polars column whose every chunk is a window on recorded buffers *is* a slice of the
original array: the original is sliced instead of converted, so types, chunks and
bytes come back as they were. Where Polars makes every export anew, values decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lazycore.data._buffers import size_of
from lazycore.data._columns import Column, export, is_pandas, is_polars, kind_of
from lazycore.data._errors import UnsupportedFrameError
from lazycore.data._libraries import library
from lazycore.data._report import ColumnReport, CopyReport
from lazycore.data._types import is_panic, walk
from lazycore.data._windows import shift_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.data._from_polars import Strings

__all__ = ["Receipt"]

Window = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """One column's original beside the Polars buffers that stand for it."""

    label: Any
    original: Any  # pyarrow.ChunkedArray
    dtype: Any  # pandas dtype, None for a table
    polars_type: str
    chunks: tuple[Any, ...]  # exported arrays, held: their addresses stay taken
    starts: tuple[int, ...]  # row of each chunk in the original
    foreign: Any = None  # the pandas values where they were not Arrow
    shown: Any = None  # the Polars series where every export lies elsewhere


def _witness(series: Any) -> Any:
    """Return the export whose addresses stay the same from call to call."""
    pl = library("polars")
    if isinstance(series.dtype, pl.Categorical | pl.Enum):
        return export(series.to_physical())
    return export(series)


def _places(recorded: _Recorded, series: Any) -> list[Window] | None:
    """Return the rows of the original that a series shows, None if any is unknown."""
    if str(series.dtype) != recorded.polars_type:
        return None
    windows: list[Window] = []
    for chunk in _witness(series).chunks:
        if not len(chunk):
            continue
        for base, first in zip(recorded.chunks, recorded.starts, strict=True):
            start = shift_of(base, chunk)
            if start is not None:
                windows.append((first + start, len(chunk)))
                break
        else:
            return None
    return windows


def _same_values(recorded: _Recorded, series: Any, rows: Sequence[Window]) -> bool:
    """Tell whether a series shows certain rows of one that no address can witness."""
    if recorded.shown is None or str(series.dtype) != recorded.polars_type:
        return False
    pl = library("polars")
    parts = [recorded.shown.slice(start, count) for start, count in rows]
    if sum(map(len, parts)) != len(series):
        return False
    wanted = pl.concat(parts, rechunk=False) if len(parts) > 1 else parts[0]
    try:
        return bool(series.equals(wanted))
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return False  # this Polars cannot compare the type


def _joined(windows: Sequence[Window]) -> list[Window]:
    """Merge windows that continue each other."""
    found: list[Window] = []
    for start, length in windows:
        if found and found[-1][0] + found[-1][1] == start:
            found[-1] = (found[-1][0], found[-1][1] + length)
        else:
            found.append((start, length))
    return found


def _rows(array: Any, windows: Sequence[Window]) -> Any:
    pa = library("pyarrow")
    parts: list[Any] = []
    for start, length in windows:
        parts += array.slice(start, length).chunks
    return pa.chunked_array(parts, type=array.type)


@dataclass(slots=True, kw_only=True)
class Receipt:
    """What `to_polars_zero_copy` converted, kept so that it can be given back.

    A receipt holds the source's Arrow arrays and the Polars buffers alive for as
    long as it lives. It is issued by ``to_polars_zero_copy(frame, receipt=True)``.

    Attributes:
        report: What the last `restore` gave back as it was and what it converted;
            before that, an empty report.

    Example:
        >>> import pandas as pd
        >>> values = pd.array(["x"], dtype="string[pyarrow]")
        >>> df = pd.DataFrame({"a": values})
        >>> frame, receipt = to_polars_zero_copy(df, receipt=True)
        >>> str(receipt.restore(frame).dtypes["a"])
        'string'
    """

    _columns: dict[str, _Recorded]
    _labels: Any
    _index: Any
    _attrs: dict[Any, Any]
    _height: int
    _index_columns: frozenset[str] = frozenset()
    report: CopyReport = field(default_factory=CopyReport)

    @classmethod
    def issue(cls, *, source: Any, columns: Sequence[Column], result: Any) -> Receipt:
        """Record a conversion; called by `to_polars_zero_copy`."""
        types = library("pyarrow").types
        recorded: dict[str, _Recorded] = {}
        for column in columns:
            series = result.get_column(column.name)
            first, again = _witness(series), _witness(series)
            pairs = zip(first.chunks, again.chunks, strict=True)
            stable = all(shift_of(a, b) == 0 for a, b in pairs if len(a))
            chunks = tuple(first.chunks) if stable else ()
            # 0.0 equals -0.0, so floats cannot be recognised by value.
            inexact = any(map(types.is_floating, walk(column.array.type)))
            starts, row = [], 0
            for chunk in chunks:
                starts.append(row)
                row += len(chunk)
            owner = (
                source[column.label]
                if is_pandas(source) and (column.label in source.columns)
                else None
            )
            recorded[column.name] = _Recorded(
                label=column.label,
                original=column.array,
                dtype=None if owner is None else owner.dtype,
                polars_type=str(series.dtype),
                chunks=chunks,
                starts=tuple(starts),
                shown=None if stable or inexact else series,
                foreign=owner.array.copy()
                if column.foreign and owner is not None
                else None,
            )
        pandas_source = is_pandas(source)
        return cls(
            _columns=recorded,
            _labels=source.columns if pandas_source else None,
            _index=source.index if pandas_source else None,
            _attrs=dict(source.attrs) if pandas_source else {},
            _height=result.height,
            _index_columns=frozenset(
                column.name
                for column in columns
                if pandas_source and column.label not in source.columns
            ),
        )

    def restore(self, frame: Any, *, strings: Strings = "large") -> Any:
        """Return a pandas frame with the original arrays wherever they still lie.

        Columns that were computed anew are converted; the index comes back when all
        recognised columns show the same rows of the source, and columns that held it
        go then.

        Args:
            frame: A Polars DataFrame or LazyFrame made from the receipt's frame.
            strings: For columns that are converted, as in `from_polars_zero_copy`.

        Returns:
            A pandas DataFrame; `report` says per column what was given back.

        Raises:
            UnsupportedFrameError: The value is no Polars frame.

        Example:
            >>> import pandas as pd
            >>> values = pd.array([1, 2, 3], dtype="int64[pyarrow]")
            >>> df = pd.DataFrame({"a": values}, index=["x", "y", "z"])
            >>> frame, receipt = to_polars_zero_copy(df, receipt=True)
            >>> receipt.restore(frame.slice(1, 2)).index.tolist()
            ['y', 'z']
        """
        from lazycore.data._from_polars import arrow_of, pandas_values

        if is_polars(frame, "LazyFrame"):
            frame = frame.collect()
        if not is_polars(frame):
            message = f"restore takes a Polars frame, not {kind_of(frame)}"
            raise UnsupportedFrameError(message)
        found = self._recognised(frame)
        values: dict[str, Any] = {}
        reports: dict[str, ColumnReport] = {}
        for series in frame.get_columns():
            rows = found.get(series.name)
            if rows is None:
                array = arrow_of(series, strings)
                values[series.name] = pandas_values(array, strings)
                reports[series.name] = ColumnReport(
                    name=series.name,
                    source_type=str(series.dtype),
                    target_type=str(array.type),
                    copied=size_of(array),
                    why="not in the recorded buffers: converted",
                )
                continue
            recorded = self._columns[series.name]
            values[series.name] = self._given_back(recorded, rows)
            reports[series.name] = ColumnReport(
                name=series.name,
                source_type=str(series.dtype),
                target_type=str(recorded.original.type),
                shared=size_of(_rows(recorded.original, rows)),
            )
        seen = {tuple(rows) for rows in found.values()}
        self.report = CopyReport(columns=reports)
        return self._framed(frame, values, seen)

    def _recognised(self, frame: Any) -> dict[str, list[Window]]:
        """Return the rows of the source that columns of a frame show, where known.

        What no address can witness is compared by value with the rows that the other
        columns show, or with all.
        """
        found: dict[str, list[Window]] = {}
        hidden: list[tuple[_Recorded, Any]] = []
        for series in frame.get_columns():
            recorded = self._columns.get(series.name)
            if recorded is None:
                continue
            if recorded.shown is not None:
                hidden.append((recorded, series))
                continue
            windows = _places(recorded, series)
            if windows is not None:
                found[series.name] = _joined(windows)
        candidates = [rows for rows in found.values() if rows]
        candidates.append([(0, self._height)])
        for recorded, series in hidden:
            for rows in candidates:
                if _same_values(recorded, series, rows):
                    found[series.name] = rows
                    break
        return found

    @staticmethod
    def _given_back(recorded: _Recorded, rows: Sequence[Window]) -> Any:
        pd = library("pandas")
        if recorded.foreign is not None:
            parts = [recorded.foreign[s : s + n] for s, n in rows or [(0, 0)]]
            if len(parts) == 1:
                return parts[0]
            return type(recorded.foreign)._concat_same_type(parts)  # noqa: SLF001 - pandas' extension interface
        array = _rows(recorded.original, rows)
        if recorded.dtype is not None and not isinstance(recorded.dtype, pd.ArrowDtype):
            return recorded.dtype.__from_arrow__(array)
        return pd.arrays.ArrowExtensionArray(array)

    def _framed(
        self, frame: Any, values: dict[str, Any], seen: set[tuple[Window, ...]]
    ) -> Any:
        from lazycore.data._from_polars import build_frame

        pd = library("pandas")
        index = None
        if self._index is not None and len(seen) == 1:
            windows = next(iter(seen))
            if windows == ((0, len(self._index)),):
                index = self._index
            elif windows:
                parts = [self._index[s : s + n] for s, n in windows]
                index = parts[0].append(parts[1:]) if len(parts) > 1 else parts[0]
            else:
                index = self._index[:0]
        if index is not None:
            values = {n: v for n, v in values.items() if n not in self._index_columns}
        result = build_frame(values, frame.height, index=index)
        labels = [
            self._columns[name].label if name in self._columns else name
            for name in values
        ]
        if self._labels is not None:
            same = list(self._labels) == labels
            result.columns = (
                self._labels if same else pd.Index(labels, tupleize_cols=False)
            )
        result.attrs.update(self._attrs)
        return result

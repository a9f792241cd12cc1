"""The reference adapter: a graph over plain NumPy arrays that keeps its edges."""

from __future__ import annotations

import dataclasses
import operator
from typing import TYPE_CHECKING, Any

from lazycore.data._errors import CopyRequiredError, SparseInvariantError
from lazycore.data._libraries import library
from lazycore.data._sparse_adapter import (
    Direction,
    Duplicates,
    SparseFormat,
    SparseGraphTensorAdapter,
    SparseLayout,
)
from lazycore.data._sparse_check import check_layout
from lazycore.data._sparse_kernels import (
    expand,
    group,
    index_dtype,
    order,
    pointers_of,
    reduce,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ArraySparseAdapter"]

_DUPLICATES = ("keep", "sum", "last", "raise")


def _array(name: str, value: Any) -> Any:
    np = library("numpy")
    try:
        return None if value is None else np.asarray(value)
    except (TypeError, ValueError) as error:
        message = f"{name} is no array: {error}; give equal rows of one type"
        raise SparseInvariantError(message) from error


def _index_array(name: str, value: Any) -> Any:
    """Return positions as an array of signed or short unsigned integers.

    An empty list says nothing of its dtype and would be float64; NumPy 1.26 can
    count nothing by 64-bit unsigned keys.
    """
    np = library("numpy")
    array = _array(name, value)
    if array is None:
        return None
    if not array.size and not np.issubdtype(array.dtype, np.integer):
        return array.astype(np.int64)
    if array.dtype == np.uint64:
        if array.size and int(array.max()) >= 2**63:
            message = f"{name} holds {int(array.max())}, over 2**63 - 1"
            raise SparseInvariantError(message)
        return array.astype(np.int64)
    return array


def _shape(value: Any) -> tuple[int, int]:
    try:
        height, width = (operator.index(length) for length in value)
    except (TypeError, ValueError) as error:
        message = f"shape={value!r}: give two whole numbers, (rows, columns)"
        raise SparseInvariantError(message) from error
    return height, width


class ArraySparseAdapter(SparseGraphTensorAdapter):
    """A sparse graph over NumPy arrays.

    Arrays that are given are shared, never written to; 64-bit unsigned indices
    alone are copied, to ``int64``. Every conversion carries
    ``edge_ids``, the number of each element in the order in which the edges were
    given, so any table of edge attributes can follow.

    Args:
        layout: The components; made by `from_coo`, `from_csr`, `from_csc` or a bridge.
        direction: Whether rows are sources (``"src_dst"``) or targets.

    Example:
        >>> graph = ArraySparseAdapter.from_coo(
        ...     [1, 0, 1], [0, 1, 0], [1.0, 2.0, 3.0], shape=(2, 2)
        ... )  # doctest: +SKIP
        >>> csr = graph.to_csr()  # doctest: +SKIP
        >>> csr.pointers.tolist(), csr.edge_ids.tolist()  # doctest: +SKIP
        ([0, 1, 3], [1, 0, 2])
    """

    __slots__ = ("_direction", "_layout")

    def __init__(
        self, layout: SparseLayout, *, direction: Direction = "src_dst"
    ) -> None:
        if direction not in ("src_dst", "dst_src"):
            raise ValueError(f"direction={direction!r}: choose 'src_dst' or 'dst_src'")
        np = library("numpy")
        parts = {
            name: _index_array(name, getattr(layout, name))
            for name in ("pointers", "rows", "columns", "edge_ids")
        }
        parts["values"] = _array("values", layout.values)
        first = parts["columns"] if parts["rows"] is None else parts["rows"]
        if first is None:
            raise SparseInvariantError("a layout without components holds no graph")
        if parts["edge_ids"] is None:
            parts["edge_ids"] = np.arange(len(first), dtype=index_dtype(len(first)))
        self._layout = dataclasses.replace(layout, **parts, shape=_shape(layout.shape))
        self._direction: Direction = direction
        check_layout(self._layout)

    @classmethod
    def from_coo(
        cls,
        rows: Any,
        columns: Any,
        values: Any = None,
        *,
        shape: tuple[int, int],
        edge_ids: Any = None,
        direction: Direction = "src_dst",
    ) -> ArraySparseAdapter:
        """Return a graph over coordinates, shared where they are arrays.

        Raises:
            SparseInvariantError: Lengths differ or an index lies outside the shape.
        """
        layout = SparseLayout(
            format=SparseFormat.COO,
            shape=shape,
            rows=rows,
            columns=columns,
            values=values,
            edge_ids=edge_ids,
        )
        return cls(layout, direction=direction)

    @classmethod
    def from_csr(
        cls,
        pointers: Any,
        columns: Any,
        values: Any = None,
        *,
        shape: tuple[int, int],
        edge_ids: Any = None,
        direction: Direction = "src_dst",
    ) -> ArraySparseAdapter:
        """Return a graph over compressed rows, shared where they are arrays.

        Raises:
            SparseInvariantError: Pointers fall or an index lies outside the shape.
        """
        layout = SparseLayout(
            format=SparseFormat.CSR,
            shape=shape,
            pointers=pointers,
            columns=columns,
            values=values,
            edge_ids=edge_ids,
        )
        return cls(layout, direction=direction)

    @classmethod
    def from_csc(
        cls,
        pointers: Any,
        rows: Any,
        values: Any = None,
        *,
        shape: tuple[int, int],
        edge_ids: Any = None,
        direction: Direction = "src_dst",
    ) -> ArraySparseAdapter:
        """Return a graph over compressed columns, shared where they are arrays.

        Raises:
            SparseInvariantError: Pointers fall or an index lies outside the shape.
        """
        layout = SparseLayout(
            format=SparseFormat.CSC,
            shape=shape,
            pointers=pointers,
            rows=rows,
            values=values,
            edge_ids=edge_ids,
        )
        return cls(layout, direction=direction)

    @property
    def native_format(self) -> SparseFormat:
        """The layout that the arrays were given in."""
        return self._layout.format

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self._layout.shape

    @property
    def layout(self) -> SparseLayout:
        """The components as they were given, with edge numbers."""
        return self._layout

    @property
    def nnz(self) -> int:
        """The number of stored elements, duplicates and explicit zeros included."""
        return len(self._layout.edge_ids)

    @property
    def direction(self) -> Direction:
        """Whether rows are sources or targets."""
        return self._direction

    @property
    def dtype(self) -> Any:
        """The dtype of the values; None for structure alone."""
        values = self._layout.values
        return None if values is None else values.dtype

    @property
    def index_dtype(self) -> Any:
        """The dtype of the indices."""
        layout = self._layout
        return (layout.columns if layout.rows is None else layout.rows).dtype

    @property
    def device(self) -> str:
        """Where the arrays lie: always ``"cpu"``."""
        return "cpu"

    def to_coo(
        self,
        *,
        duplicates: Duplicates = "keep",
        sort: bool = False,
        copy: bool | None = None,
    ) -> SparseLayout:
        """Return coordinates; ``sort=True`` orders them by row, then column.

        Args:
            duplicates: Keep them, sum them, let the last edge win, or raise.
            sort: Order elements by row, then column.
            copy: False refuses any new array, True makes every array new, None
                shares what need not change.

        Raises:
            CopyRequiredError: ``copy=False`` cannot be kept.
            SparseInvariantError: The duplicates policy cannot be kept.
        """
        return self._converted(SparseFormat.COO, duplicates, sort=sort, copy=copy)

    def to_csr(
        self,
        *,
        duplicates: Duplicates = "keep",
        sort: bool = False,
        copy: bool | None = None,
    ) -> SparseLayout:
        """Return compressed rows; elements keep their edge order within a row.

        Args:
            duplicates: Keep them, sum them, let the last edge win, or raise.
            sort: Also order each row by column.
            copy: False refuses any new array, True makes every array new, None
                shares what need not change.

        Raises:
            CopyRequiredError: ``copy=False`` cannot be kept.
            SparseInvariantError: The duplicates policy cannot be kept.
        """
        return self._converted(SparseFormat.CSR, duplicates, sort=sort, copy=copy)

    def to_csc(
        self,
        *,
        duplicates: Duplicates = "keep",
        sort: bool = False,
        copy: bool | None = None,
    ) -> SparseLayout:
        """Return compressed columns; elements keep their edge order within a column.

        Args:
            duplicates: Keep them, sum them, let the last edge win, or raise.
            sort: Also order each column by row.
            copy: False refuses any new array, True makes every array new, None
                shares what need not change.

        Raises:
            CopyRequiredError: ``copy=False`` cannot be kept.
            SparseInvariantError: The duplicates policy cannot be kept.
        """
        return self._converted(SparseFormat.CSC, duplicates, sort=sort, copy=copy)

    def components(self) -> Mapping[str, Any]:
        """Return the native arrays under binsparse names; each supports DLPack."""
        layout = self._layout
        if layout.format is SparseFormat.COO:
            found = {"indices_0": layout.rows, "indices_1": layout.columns}
        else:
            minor = layout.columns if layout.rows is None else layout.rows
            found = {"pointers_to_1": layout.pointers, "indices_1": minor}
        if layout.values is not None:
            found["values"] = layout.values
        return found

    def validate(self, *, full: bool = False) -> None:
        """Check the components again, with ``full=True`` their stated order too.

        Raises:
            SparseInvariantError: They contradict each other or the shape.
        """
        check_layout(self._layout, full=full)

    def transposed(self) -> ArraySparseAdapter:
        """Return the transposed matrix over the same arrays.

        Rows and columns trade names, CSR becomes CSC, and the direction turns: the
        graph stays the same graph.
        """
        layout = self._layout
        swap = {SparseFormat.CSR: SparseFormat.CSC, SparseFormat.CSC: SparseFormat.CSR}
        turned = dataclasses.replace(
            layout,
            format=swap.get(layout.format, layout.format),
            shape=layout.shape[::-1],
            rows=layout.columns,
            columns=layout.rows,
            sorted=layout.sorted and layout.format is not SparseFormat.COO,
        )
        other: Direction = "dst_src" if self._direction == "src_dst" else "src_dst"
        return type(self)(turned, direction=other)

    def _coordinates(self) -> tuple[Any, Any]:
        layout = self._layout
        if layout.rows is not None and layout.columns is not None:
            return layout.rows, layout.columns
        major = expand(layout.pointers, self.index_dtype)
        if layout.format is SparseFormat.CSR:
            return major, layout.columns
        return layout.rows, major

    def _converted(  # noqa: C901 - one conversion, step by step
        self,
        wanted: SparseFormat,
        duplicates: Duplicates,
        *,
        sort: bool,
        copy: bool | None,
    ) -> SparseLayout:
        if duplicates not in _DUPLICATES:
            words = ", ".join(map(repr, _DUPLICATES))
            raise ValueError(f"duplicates={duplicates!r}: choose one of {words}")
        layout = self._layout
        native = wanted is layout.format
        if native and duplicates == "keep" and (layout.sorted or not sort):
            return self._native(copy=copy)
        if copy is False:
            message = (
                f"copy=False, but {layout.format} to {wanted} with duplicates="
                f"{duplicates!r}, sort={sort} makes new arrays: use copy=None"
            )
            raise CopyRequiredError(message)
        rows, columns = self._coordinates()
        by_row = wanted is not SparseFormat.CSC
        major, minor = (rows, columns) if by_row else (columns, rows)
        counts = self.shape if by_row else self.shape[::-1]
        ordered = sort or duplicates != "keep"
        pointers = None
        permutation = None
        if ordered:
            permutation = order(major, minor, counts)
        elif wanted is not SparseFormat.COO:
            permutation, pointers = group(major, counts[0])
        values, ids = layout.values, layout.edge_ids
        if permutation is not None:
            minor, ids = minor[permutation], ids[permutation]
            values = None if values is None else values[permutation]
            if pointers is None:
                major = major[permutation]
        if duplicates != "keep":
            # Ordering is stable over the stored order, so "last" is the last stored.
            kept, values = reduce(major, minor, values, duplicates)
            if kept is not None:
                major, minor = major[kept], minor[kept]
                ids = None if duplicates == "sum" else ids[kept]
        if wanted is not SparseFormat.COO and pointers is None:
            pointers = pointers_of(major, counts[0], index_dtype(len(minor)))
        return self._made(
            wanted,
            major,
            minor,
            values=values,
            ids=ids,
            pointers=pointers,
            ordered=ordered,
            unique=duplicates != "keep",
            copy=copy,
        )

    def _native(self, *, copy: bool | None) -> SparseLayout:
        if not copy:
            return self._layout
        parts = ("pointers", "rows", "columns", "values", "edge_ids")
        fresh: dict[str, Any] = {
            name: None if (part := getattr(self._layout, name)) is None else part.copy()
            for name in parts
        }
        return dataclasses.replace(self._layout, **fresh)

    def _made(
        self,
        wanted: SparseFormat,
        major: Any,
        minor: Any,
        *,
        values: Any,
        ids: Any,
        pointers: Any,
        ordered: bool,
        unique: bool,
        copy: bool | None,
    ) -> SparseLayout:
        np = library("numpy")
        if copy:  # what was shared so far must not be
            own = self._layout
            given = [own.rows, own.columns, own.values, own.edge_ids]
            held = [part for part in given if part is not None]

            def fresh(part: Any) -> Any:
                shared = part is not None and any(
                    np.may_share_memory(part, other) for other in held
                )
                return part.copy() if shared else part

            major, minor, values, ids = map(fresh, (major, minor, values, ids))
        coo = wanted is SparseFormat.COO
        by_row = wanted is not SparseFormat.CSC
        return SparseLayout(
            format=wanted,
            shape=self.shape,
            pointers=None if coo else pointers,
            rows=major if coo else None if by_row else minor,
            columns=minor if by_row else None,
            values=values,
            edge_ids=ids,
            sorted=ordered,
            unique=unique,
        )

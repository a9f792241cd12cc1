"""The reference adapter: a graph over plain NumPy arrays that keeps its edges."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lazycore.data._binsparse import arrays, components, descriptor
from lazycore.data._errors import SparseInvariantError
from lazycore.data._libraries import library
from lazycore.data._sparse_adapter import (
    Direction,
    Duplicates,
    SparseFormat,
    SparseGraphTensorAdapter,
    SparseLayout,
)
from lazycore.data._sparse_check import check_layout
from lazycore.data._sparse_convert import converted
from lazycore.data._sparse_inputs import as_array, as_indices, as_shape
from lazycore.data._sparse_kernels import index_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ArraySparseAdapter"]


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
        ... )
        >>> csr = graph.to_csr()
        >>> csr.pointers.tolist(), csr.edge_ids.tolist()
        ([0, 1, 3], [1, 0, 2])
    """

    __slots__ = ("_direction", "_layout", "_numbered")

    def __init__(
        self, layout: SparseLayout, *, direction: Direction = "src_dst"
    ) -> None:
        if direction not in ("src_dst", "dst_src"):
            raise ValueError(f"direction={direction!r}: choose 'src_dst' or 'dst_src'")
        np = library("numpy")
        parts = {
            name: as_indices(name, getattr(layout, name))
            for name in ("pointers", "rows", "columns", "edge_ids")
        }
        parts["values"] = as_array("values", layout.values)
        first = parts["columns"] if parts["rows"] is None else parts["rows"]
        if first is None:
            raise SparseInvariantError("a layout without components holds no graph")
        self._numbered = parts["edge_ids"] is None
        if self._numbered:
            parts["edge_ids"] = np.arange(len(first), dtype=index_dtype(len(first)))
        self._layout = dataclasses.replace(
            layout, **parts, shape=as_shape(layout.shape)
        )
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
        return components(self._layout)

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

    def _converted(
        self,
        wanted: SparseFormat,
        duplicates: Duplicates,
        *,
        sort: bool,
        copy: bool | None,
    ) -> SparseLayout:
        return converted(
            self._layout,
            wanted,
            duplicates,
            sort=sort,
            copy=copy,
            numbered=self._numbered,
        )

    def __binsparse_descriptor__(self) -> dict[str, Any]:
        """Describe the arrays of `__binsparse__`, as the draft of the array API has it.

        Raises:
            BufferError: Binsparse has no such matrix: elements out of order, stored
                twice, or values of more than one dimension.
        """
        return descriptor(self._layout)

    def __binsparse__(self) -> dict[str, Any]:
        """Return the arrays under binsparse names, shared; structure gets one value.

        Raises:
            BufferError: As for `__binsparse_descriptor__`.
        """
        return arrays(self._layout)

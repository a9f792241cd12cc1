"""The sparse tier: one interface over graphs that keeps every edge and its number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

__all__ = [
    "Direction",
    "Duplicates",
    "SparseFormat",
    "SparseGraphTensorAdapter",
    "SparseLayout",
]

Duplicates = Literal["keep", "sum", "last", "raise"]
Direction = Literal["src_dst", "dst_src"]


class SparseFormat(StrEnum):
    """How a sparse matrix is laid out; each member equals its lower-case name.

    Example:
        >>> SparseFormat.CSR == "csr"
        True
    """

    COO = "coo"
    CSR = "csr"
    CSC = "csc"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseLayout:
    """The components of a sparse matrix and what is known of their order.

    Attributes:
        format: The layout.
        shape: (rows, columns).
        pointers: For CSR and CSC, ``rows + 1`` or ``columns + 1`` positions; for COO
            None.
        rows: For COO, the row of each element; for CSC the row too; for CSR None.
        columns: For COO and CSR, the column of each element; for CSC None.
        values: One value per element (its first axis), None for structure alone.
        edge_ids: The number of each stored element in the graph's original order,
            so that an ``[E, F]`` table follows by ``table[edge_ids]``. None where
            duplicates were summed: an element then stands for several edges.
        sorted: Whether elements are in row-major (COO, CSR) or column-major (CSC)
            order.
        unique: Whether no coordinate is stored twice.
        explicit_zeros: Whether a zero is stored; None when that is unknown.

    Example:
        >>> layout = SparseLayout(format=SparseFormat.COO, shape=(0, 0))
        >>> layout.pointers is None
        True
    """

    format: SparseFormat
    shape: tuple[int, int]
    pointers: Any = None
    rows: Any = None
    columns: Any = None
    values: Any = None
    edge_ids: Any = None
    sorted: bool = False
    unique: bool = False
    explicit_zeros: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", SparseFormat(self.format))
        wanted = {
            SparseFormat.COO: (False, True, True),
            SparseFormat.CSR: (True, False, True),
            SparseFormat.CSC: (True, True, False),
        }[self.format]
        given = tuple(
            part is not None for part in (self.pointers, self.rows, self.columns)
        )
        if any(given) and given != wanted:
            message = (
                f"{self.format} takes pointers, rows, columns = {wanted}, "
                f"but {given} were given"
            )
            raise ValueError(message)


class SparseGraphTensorAdapter(ABC):
    """What a module implements to hand its graphs to others.

    A conversion is real work, never a relabel, and never loses an edge in silence.
    A subclass gives the two properties and the three conversions; `components` and
    `transposed` are there for adapters that can do more. `ArraySparseAdapter` is
    the reference, and `lazycore.data.testing.check_sparse_adapter` the contract.

    Example:
        >>> issubclass(ArraySparseAdapter, SparseGraphTensorAdapter)
        True
    """

    @property
    @abstractmethod
    def native_format(self) -> SparseFormat:
        """The layout that the graph is held in: its conversion costs nothing."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""

    @abstractmethod
    def to_coo(self) -> Any:
        """Return the graph by coordinates."""

    @abstractmethod
    def to_csr(self) -> Any:
        """Return the graph by compressed rows."""

    @abstractmethod
    def to_csc(self) -> Any:
        """Return the graph by compressed columns."""

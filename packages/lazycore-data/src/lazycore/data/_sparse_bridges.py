"""Carry graphs between NumPy arrays and SciPy, DGL's tuples and Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.data._array_adapter import ArraySparseAdapter
from lazycore.data._columns import kind_of
from lazycore.data._errors import SparseInvariantError, UnsupportedFrameError
from lazycore.data._libraries import library
from lazycore.data._sparse_adapter import Direction, SparseFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "from_arrow_edges",
    "from_scipy",
    "node_counts",
    "to_dgl_tuple",
    "to_scipy",
]


def from_scipy(matrix: Any, *, direction: Direction = "src_dst") -> ArraySparseAdapter:
    """Return a graph over the arrays of a SciPy COO, CSR or CSC matrix, shared.

    Stored elements are taken as they lie: duplicates and explicit zeros stay.

    Raises:
        UnsupportedFrameError: The value is no such matrix.

    Example:
        >>> import scipy.sparse as sp
        >>> from_scipy(sp.csr_array([[0, 1]])).nnz
        1
    """
    name = getattr(matrix, "format", None)
    if name not in ("coo", "csr", "csc") or not kind_of(matrix).startswith("scipy."):
        message = f"from_scipy takes a COO, CSR or CSC matrix, not {kind_of(matrix)}"
        raise UnsupportedFrameError(f"{message}: convert it with .tocoo() first")
    shape = (int(matrix.shape[0]), int(matrix.shape[1]))
    if name == "coo":
        return ArraySparseAdapter.from_coo(
            matrix.row, matrix.col, matrix.data, shape=shape, direction=direction
        )
    make = ArraySparseAdapter.from_csr if name == "csr" else ArraySparseAdapter.from_csc
    return make(
        matrix.indptr, matrix.indices, matrix.data, shape=shape, direction=direction
    )


def to_scipy(graph: ArraySparseAdapter, *, layout: str | None = None) -> Any:
    """Return a SciPy sparse array over the graph's arrays, duplicates kept.

    Structure without values gets ones. SciPy may copy indices of mixed widths.

    Args:
        graph: The graph.
        layout: ``"coo"``, ``"csr"`` or ``"csc"``; the native one by default, which
            is shared.

    Raises:
        MissingDependencyError: SciPy is not installed.

    Example:
        >>> graph = ArraySparseAdapter.from_coo([0, 1], [1, 0], [2.0, 3], shape=(2, 2))
        >>> to_scipy(graph, layout="csr").nnz
        2
    """
    from importlib import import_module

    library("scipy")
    sparse, np = import_module("scipy.sparse"), library("numpy")
    wanted = SparseFormat(layout or graph.native_format)
    convert = {"coo": graph.to_coo, "csr": graph.to_csr, "csc": graph.to_csc}[wanted]
    found = convert()
    values = np.ones(graph.nnz) if found.values is None else found.values
    if wanted is SparseFormat.COO:
        place = (found.rows, found.columns)
        return sparse.coo_array((values, place), shape=graph.shape)
    make = sparse.csr_array if wanted is SparseFormat.CSR else sparse.csc_array
    minor = found.columns if found.rows is None else found.rows
    return make((values, minor, found.pointers), shape=graph.shape)


def to_dgl_tuple(
    graph: ArraySparseAdapter, *, layout: str = "csr"
) -> tuple[str, tuple[Any, ...]]:
    """Return the tuple that ``dgl.graph`` takes, with edge ids; DGL is not needed.

    Example:
        >>> graph = ArraySparseAdapter.from_coo([0, 1], [1, 0], [2.0, 3], shape=(2, 2))
        >>> to_dgl_tuple(graph)[0]
        'csr'
    """
    wanted = SparseFormat(layout)
    source = graph if graph.direction == "src_dst" else graph.transposed()
    if wanted is SparseFormat.COO:
        coo = source.to_coo()
        return "coo", (coo.rows, coo.columns)
    found = source.to_csr() if wanted is SparseFormat.CSR else source.to_csc()
    minor = found.columns if found.rows is None else found.rows
    return str(wanted), (found.pointers, minor, found.edge_ids)


def from_arrow_edges(
    table: Any,
    *,
    source: str,
    target: str,
    value: str | None = None,
    num_nodes: int | tuple[int, int],
) -> ArraySparseAdapter:
    """Return a graph over the columns of a `pyarrow.Table` of edges.

    Columns of one chunk without nulls are shared.

    Raises:
        SparseInvariantError: A column holds nulls, or a node does not exist.

    Example:
        >>> import pyarrow as pa
        >>> table = pa.table({"a": [0, 1, 1], "b": [1, 0, 2]})
        >>> from_arrow_edges(table, source="a", target="b", num_nodes=3).nnz
        3
    """
    library("pyarrow")

    def values_of(name: str) -> Any:
        column = table.column(name)
        if column.null_count:
            message = (
                f"column {name!r} holds {column.null_count} nulls: an edge has none"
            )
            raise SparseInvariantError(message)
        if column.num_chunks == 1:
            return column.chunk(0).to_numpy(zero_copy_only=False)
        return column.to_numpy()

    shape = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
    return ArraySparseAdapter.from_coo(
        values_of(source),
        values_of(target),
        None if value is None else values_of(value),
        shape=shape,
    )


def node_counts(
    graphs: Mapping[tuple[str, str, str], ArraySparseAdapter],
) -> dict[str, int]:
    """Return how many nodes each type of a heterogeneous graph has.

    Args:
        graphs: One graph per (source type, relation, target type).

    Raises:
        SparseInvariantError: Two relations disagree on a type's number of nodes.

    Example:
        >>> graph = ArraySparseAdapter.from_coo([0, 1], [1, 0], [2.0, 3], shape=(2, 2))
        >>> node_counts({("user", "rates", "film"): graph})
        {'user': 2, 'film': 2}
    """
    found: dict[str, int] = {}
    for relation, graph in graphs.items():
        sizes = graph.shape if graph.direction == "src_dst" else graph.shape[::-1]
        for kind, size in zip((relation[0], relation[2]), sizes, strict=True):
            if found.setdefault(kind, size) != size:
                message = (
                    f"{relation} says {size} nodes of type {kind!r}, another relation "
                    f"{found[kind]}: give all the shape of the whole type"
                )
                raise SparseInvariantError(message)
    return found

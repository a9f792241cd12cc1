"""Carry graphs between NumPy arrays and SciPy, torch, PyG, DGL's tuples and Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.data._array_adapter import ArraySparseAdapter
from lazycore.data._errors import SparseInvariantError, UnsupportedFrameError
from lazycore.data._libraries import library
from lazycore.data._sparse_adapter import Direction, SparseFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "from_arrow_edges",
    "from_edge_index",
    "from_scipy",
    "from_torch",
    "node_counts",
    "to_dgl_tuple",
    "to_pyg",
    "to_scipy",
    "to_torch",
]


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def from_scipy(matrix: Any, *, direction: Direction = "src_dst") -> ArraySparseAdapter:
    """Return a graph over the arrays of a SciPy COO, CSR or CSC matrix, shared.

    Stored elements are taken as they lie: duplicates and explicit zeros stay.

    Raises:
        UnsupportedFrameError: The value is no such matrix.

    Example:
        >>> import scipy.sparse as sp  # doctest: +SKIP
        >>> from_scipy(sp.csr_array([[0, 1]])).nnz  # doctest: +SKIP
        1
    """
    name = getattr(matrix, "format", None)
    if name not in ("coo", "csr", "csc") or not _kind(matrix).startswith("scipy."):
        message = f"from_scipy takes a COO, CSR or CSC matrix, not {_kind(matrix)}"
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
        >>> to_scipy(graph, layout="csr").nnz  # doctest: +SKIP
        3
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


def _numpy_of(tensor: Any) -> Any:
    """Return a torch tensor's memory as NumPy, on the host and without a gradient."""
    if tensor.device.type != "cpu":
        message = f"a tensor on {tensor.device} cannot be shared: move it with .cpu()"
        raise SparseInvariantError(message)
    return tensor.detach().numpy()


def from_torch(tensor: Any, *, direction: Direction = "src_dst") -> ArraySparseAdapter:
    """Return a graph over a torch sparse COO, CSR or CSC tensor, memory shared.

    An uncoalesced COO tensor keeps its duplicates.

    Raises:
        MissingDependencyError: torch is not installed.
        UnsupportedFrameError: The tensor is not sparse in two dimensions.
        SparseInvariantError: It lies on another device, or its parts disagree.

    Example:
        >>> from_torch(torch.eye(3).to_sparse_csr()).nnz  # doctest: +SKIP
        3
    """
    torch = library("torch")
    names = {
        torch.sparse_coo: "coo",
        torch.sparse_csr: "csr",
        torch.sparse_csc: "csc",
    }
    name = names.get(getattr(tensor, "layout", None))
    if name is None or len(tensor.shape) < 2:
        message = f"from_torch takes a sparse 2-D tensor, not {_kind(tensor)}"
        raise UnsupportedFrameError(message)
    shape = (int(tensor.shape[0]), int(tensor.shape[1]))
    if name == "coo":
        rows, columns = _numpy_of(tensor._indices())  # noqa: SLF001 - .indices() demands coalescing
        values = _numpy_of(tensor._values())  # noqa: SLF001 - as above
        return ArraySparseAdapter.from_coo(
            rows, columns, values, shape=shape, direction=direction
        )
    values = _numpy_of(tensor.values())
    make: Any
    if name == "csr":
        pointers, minor = tensor.crow_indices(), tensor.col_indices()
        make = ArraySparseAdapter.from_csr
    else:
        pointers, minor = tensor.ccol_indices(), tensor.row_indices()
        make = ArraySparseAdapter.from_csc
    found: ArraySparseAdapter = make(
        _numpy_of(pointers), _numpy_of(minor), values, shape=shape, direction=direction
    )
    return found


def _tensor(array: Any) -> Any:
    np, torch = library("numpy"), library("torch")
    if not array.flags.writeable:  # torch would write to it without a word
        array = array.copy()
    return torch.from_numpy(np.ascontiguousarray(array))


def to_torch(graph: ArraySparseAdapter, *, layout: str | None = None) -> Any:
    """Return a torch sparse tensor; COO stays uncoalesced, so no edge is summed.

    Torch wants both index arrays in one width: the wider of the two is used.

    Raises:
        MissingDependencyError: torch is not installed.

    Example:
        >>> to_torch(graph, layout="csr").layout  # doctest: +SKIP
        torch.sparse_csr
    """
    torch, np = library("torch"), library("numpy")
    wanted = SparseFormat(layout or graph.native_format)
    convert = {"coo": graph.to_coo, "csr": graph.to_csr, "csc": graph.to_csc}[wanted]
    found = convert()
    values = np.ones(graph.nnz, np.float32) if found.values is None else found.values
    if wanted is SparseFormat.COO:
        place = torch.from_numpy(np.stack([found.rows, found.columns]).astype(np.int64))
        return torch.sparse_coo_tensor(
            place, _tensor(values), graph.shape, check_invariants=True
        )
    minor = found.columns if found.rows is None else found.rows
    width = np.result_type(found.pointers.dtype, minor.dtype)
    parts = [
        _tensor(part.astype(width, copy=False)) for part in (found.pointers, minor)
    ]
    make = (
        torch.sparse_csr_tensor
        if wanted is SparseFormat.CSR
        else torch.sparse_csc_tensor
    )
    return make(*parts, _tensor(values), graph.shape, check_invariants=False)


def from_edge_index(
    edge_index: Any,
    edge_attr: Any = None,
    *,
    num_nodes: int | tuple[int, int],
) -> ArraySparseAdapter:
    """Return a graph over a PyG ``edge_index`` of shape (2, E).

    Args:
        edge_index: A torch tensor or an array; row 0 holds sources.
        edge_attr: ``[E]`` or ``[E, F]`` attributes, or None.
        num_nodes: How many nodes there are; it is not guessed, because isolated
            nodes at the end would vanish. A pair for two kinds of node.

    Raises:
        SparseInvariantError: The shape is not (2, E), or a node does not exist.

    Example:
        >>> from_edge_index([[0, 1], [1, 2]], num_nodes=4).shape  # doctest: +SKIP
        (4, 4)
    """
    np = library("numpy")

    def host(value: Any) -> Any:
        return _numpy_of(value) if hasattr(value, "detach") else np.asarray(value)

    index = host(edge_index)
    if index.ndim != 2 or index.shape[0] != 2:
        message = f"edge_index has shape {index.shape}, not (2, number of edges)"
        raise SparseInvariantError(message)
    shape = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
    values = None if edge_attr is None else host(edge_attr)
    return ArraySparseAdapter.from_coo(index[0], index[1], values, shape=shape)


def to_pyg(graph: ArraySparseAdapter) -> tuple[Any, Any]:
    """Return ``(edge_index, edge_attr)`` as PyG takes them, sources in row 0.

    Raises:
        MissingDependencyError: torch is not installed.

    Example:
        >>> edge_index, edge_attr = to_pyg(graph)  # doctest: +SKIP
    """
    np = library("numpy")
    torch = library("torch")
    found = graph.to_coo()
    pair = [found.rows, found.columns]
    if graph.direction == "dst_src":
        pair.reverse()
    index = torch.from_numpy(np.stack(pair).astype(np.int64))
    return index, None if found.values is None else _tensor(found.values)


def to_dgl_tuple(
    graph: ArraySparseAdapter, *, layout: str = "csr"
) -> tuple[str, tuple[Any, ...]]:
    """Return the tuple that ``dgl.graph`` takes, with edge ids; DGL is not needed.

    Example:
        >>> to_dgl_tuple(graph)[0]  # doctest: +SKIP
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
        >>> from_arrow_edges(t, source="a", target="b", num_nodes=3)  # doctest: +SKIP
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
        >>> node_counts({("user", "rates", "film"): graph})  # doctest: +SKIP
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

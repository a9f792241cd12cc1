"""Carry graphs between NumPy arrays and torch or PyTorch Geometric."""

from __future__ import annotations

from typing import Any

from lazycore.data._array_adapter import ArraySparseAdapter
from lazycore.data._columns import kind_of
from lazycore.data._errors import SparseInvariantError, UnsupportedFrameError
from lazycore.data._libraries import library
from lazycore.data._sparse_adapter import Direction, SparseFormat

__all__ = ["from_edge_index", "from_torch", "to_pyg", "to_torch"]


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
        >>> import torch
        >>> from_torch(torch.eye(3).to_sparse_csr()).nnz
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
        message = f"from_torch takes a sparse 2-D tensor, not {kind_of(tensor)}"
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
        >>> graph = ArraySparseAdapter.from_coo([0, 1], [1, 0], [2.0, 3], shape=(2, 2))
        >>> to_torch(graph, layout="csr").layout
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
        >>> from_edge_index([[0, 1], [1, 2]], num_nodes=4).shape
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
        >>> graph = ArraySparseAdapter.from_coo([0, 1], [1, 0], [2.0, 3], shape=(2, 2))
        >>> edge_index, edge_attr = to_pyg(graph)
        >>> edge_index.tolist()
        [[0, 1], [1, 0]]
    """
    np = library("numpy")
    torch = library("torch")
    found = graph.to_coo()
    pair = [found.rows, found.columns]
    if graph.direction == "dst_src":
        pair.reverse()
    index = torch.from_numpy(np.stack(pair).astype(np.int64))
    return index, None if found.values is None else _tensor(found.values)

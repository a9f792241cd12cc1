"""Real SciPy, torch and torch_geometric take and give graphs without losing edges."""

from __future__ import annotations

from typing import Any

import pytest

from lazycore.data import (
    ArraySparseAdapter,
    SparseInvariantError,
    UnsupportedFrameError,
    from_arrow_edges,
    from_edge_index,
    from_scipy,
    from_torch,
    to_pyg,
    to_scipy,
    to_torch,
)

np: Any = pytest.importorskip("numpy", reason="numpy is not installed")


@pytest.fixture
def graph() -> ArraySparseAdapter:
    """Five edges: a duplicate (0, 1), an explicit zero at (2, 2), an empty row."""
    return ArraySparseAdapter.from_coo(
        np.array([0, 0, 1, 2, 2]),
        np.array([1, 1, 0, 2, 0]),
        np.array([1.0, 2.0, 3.0, 0.0, 5.0]),
        shape=(4, 4),
    )


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_scipy_keeps_duplicates_and_zeros_both_ways(
    layout: str, graph: ArraySparseAdapter
) -> None:
    pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    matrix = to_scipy(graph, layout=layout)
    assert (matrix.format, matrix.nnz, matrix.shape) == (layout, 5, (4, 4))
    back = from_scipy(matrix)
    assert (back.native_format, back.nnz) == (layout, 5)
    assert np.shares_memory(back.layout.values, matrix.data)
    assert np.array_equal(matrix.toarray(), to_scipy(back, layout="csr").toarray())


def test_scipy_formats_without_arrays_are_refused() -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    with pytest.raises(UnsupportedFrameError, match="tocoo"):
        from_scipy(sparse.lil_array((2, 2)))


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support is in beta")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_torch_keeps_duplicates_and_shares_values(
    layout: str, graph: ArraySparseAdapter
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = to_torch(graph, layout=layout)
    assert tensor._nnz() == 5
    back = from_torch(tensor)
    assert (back.native_format, back.nnz) == (layout, 5)
    stored = tensor._values() if layout == "coo" else tensor.values()
    assert back.layout.values.ctypes.data == stored.data_ptr()
    assert torch.equal(tensor.to_dense(), to_torch(back, layout="coo").to_dense())
    with pytest.raises(UnsupportedFrameError, match="sparse"):
        from_torch(torch.zeros(2, 2))


def test_read_only_values_never_reach_torch_writable(graph: ArraySparseAdapter) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    values = graph.layout.values
    values.flags.writeable = False
    tensor = to_torch(graph, layout="coo")
    tensor._values().fill_(7)
    assert values.tolist() == [1.0, 2.0, 3.0, 0.0, 5.0]


def test_pyg_gets_every_edge_and_trailing_nodes_stay(graph: ArraySparseAdapter) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    geometric = pytest.importorskip(
        "torch_geometric.data", reason="torch is not installed"
    )
    index, attributes = to_pyg(graph)
    data = geometric.Data(edge_index=index, edge_attr=attributes, num_nodes=4)
    assert (data.num_edges, data.num_nodes) == (5, 4)
    assert data.validate()
    back = from_edge_index(data.edge_index, data.edge_attr, num_nodes=4)
    assert (back.shape, back.nnz) == ((4, 4), 5)
    turned, _ = to_pyg(graph.transposed())
    assert turned.tolist() == index.tolist()


def test_arrow_edges_are_shared_and_nulls_refused() -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pa.table({"a": [0, 1, 1], "b": [1, 0, 0], "w": [1.0, 2.0, 3.0]})
    graph = from_arrow_edges(table, source="a", target="b", value="w", num_nodes=3)
    assert graph.nnz == 3
    address = table["w"].chunk(0).buffers()[1].address
    assert graph.layout.values.ctypes.data == address
    with pytest.raises(SparseInvariantError, match="nulls"):
        from_arrow_edges(
            pa.table({"a": [0, None], "b": [0, 1]}), source="a", target="b", num_nodes=3
        )

"""Graphs cross the draft protocol of sparse arrays shared and checked."""

from __future__ import annotations

from typing import Any

import pytest

from lazycore.data import (
    ArraySparseAdapter,
    SparseInvariantError,
    UnsupportedFrameError,
    from_binsparse,
)

np: Any = pytest.importorskip("numpy", reason="numpy is not installed")


def graph(layout: str, values: Any = (1.0, 2.0, 3.0)) -> ArraySparseAdapter:
    made = ArraySparseAdapter.from_coo(
        np.array([0, 1, 2]),
        np.array([1, 2, 0]),
        None if values is None else np.array(values),
        shape=(3, 4),
    )
    convert = {"coo": made.to_coo, "csr": made.to_csr, "csc": made.to_csc}[layout]
    return ArraySparseAdapter(convert())


@pytest.mark.parametrize(
    "values",
    [(1.0, 2.0, 3.0), (True, False, True), (1j, 2, 3), None],
    ids=["float", "bool", "complex", "structure"],
)
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_graphs_come_back_as_they_were(layout: str, values: Any) -> None:
    given = graph(layout, values)
    back = from_binsparse(given)
    assert back.native_format == layout
    assert back.shape == (3, 4)
    assert back.to_coo(sort=True).columns.tolist() == [1, 2, 0]
    if values is None:
        assert back.layout.values.tolist() == [1, 1, 1]
    else:
        assert back.layout.values.dtype == np.array(values).dtype
        assert np.shares_memory(back.layout.values, given.layout.values)


def test_the_descriptor_names_format_shape_and_types() -> None:
    described = graph("csr", (True, False, True)).__binsparse_descriptor__()
    assert described["binsparse"] == {
        "version": "0.1",
        "format": "CSR",
        "shape": [3, 4],
        "number_of_stored_values": 3,
        "data_types": {
            "pointers_to_1": "int32",
            "indices_1": "int64",
            "values": "bint8",
        },
    }
    kinds = graph("coo", None).__binsparse_descriptor__()["binsparse"]["data_types"]
    assert kinds["values"] == "iso[int8]"


def test_a_reader_of_the_protocol_builds_the_same_scipy_matrix() -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    given = graph("csr")
    found, parts = given.__binsparse_descriptor__()["binsparse"], given.__binsparse__()
    matrix = sparse.csr_array(
        (parts["values"], parts["indices_1"], parts["pointers_to_1"]),
        shape=found["shape"],
    )
    wanted = [[0, 1, 0, 0], [0, 0, 2, 0], [3, 0, 0, 0]]
    assert matrix.toarray().tolist() == wanted


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: ([0, 0], [1, 1], [1.0, 2.0]), "stored twice"),
        (lambda: ([1, 0], [0, 1], [1.0, 2.0]), "out of order"),
        (lambda: ([0, 1], [0, 1], np.zeros((2, 3))), "2 dimensions"),
    ],
    ids=["duplicates", "unsorted", "tables"],
)
def test_what_binsparse_cannot_say_is_refused(make: Any, reason: str) -> None:
    rows, columns, values = make()
    made = ArraySparseAdapter.from_coo(rows, columns, values, shape=(2, 2))
    with pytest.raises(BufferError, match=reason):
        made.__binsparse__()
    with pytest.raises(BufferError, match=reason):
        made.__binsparse_descriptor__()


class Foreign:
    def __init__(self, **changes: Any) -> None:
        made = graph("csr")
        self.described = made.__binsparse_descriptor__()
        self.described["binsparse"].update(changes)
        self.parts = made.__binsparse__()

    def __binsparse_descriptor__(self) -> Any:
        return self.described

    def __binsparse__(self) -> Any:
        return self.parts


@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        ({"version": "0.2"}, UnsupportedFrameError, "version '0.2'"),
        ({"format": "DMAT"}, UnsupportedFrameError, "'DMAT'"),
        ({"format": {"custom": {}}}, UnsupportedFrameError, "custom"),
        ({"shape": [3]}, SparseInvariantError, "two dimensions"),
        ({"shape": [2, 4]}, SparseInvariantError, "3 are needed"),
        ({"number_of_stored_values": 9}, SparseInvariantError, "9 are described"),
    ],
    ids=["version", "dense", "custom", "vector", "short shape", "count"],
)
def test_descriptions_that_do_not_fit_are_named(
    changes: Any, error: Any, reason: str
) -> None:
    with pytest.raises(error, match=reason):
        from_binsparse(Foreign(**changes))
    with pytest.raises(UnsupportedFrameError, match="no __binsparse__"):
        from_binsparse([[0, 1]])

"""The interface of the sparse tier needs no library."""

from __future__ import annotations

from typing import Any

import pytest

from lazycore.data import SparseFormat, SparseGraphTensorAdapter, SparseLayout


def test_formats_equal_their_names() -> None:
    assert [SparseFormat.COO, SparseFormat.CSR, SparseFormat.CSC] == [
        "coo",
        "csr",
        "csc",
    ]
    assert str(SparseFormat("csr")) == "csr"


def test_adapter_names_what_a_subclass_must_give() -> None:
    assert SparseGraphTensorAdapter.__abstractmethods__ == {
        "native_format",
        "shape",
        "to_coo",
        "to_csc",
        "to_csr",
    }


def test_a_minimal_adapter_needs_no_library() -> None:
    class Edges(SparseGraphTensorAdapter):
        @property
        def native_format(self) -> SparseFormat:
            return SparseFormat.COO

        @property
        def shape(self) -> tuple[int, int]:
            return (2, 2)

        def to_coo(self) -> Any:
            return ([0], [1])

        def to_csr(self) -> Any:
            return ([0, 1, 1], [1])

        def to_csc(self) -> Any:
            return ([0, 0, 1], [0])

    assert Edges().native_format == "coo"


@pytest.mark.parametrize("name", ["coo", "csr", "csc"])
def test_layout_refuses_components_of_another_format(name: str) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "coo": {"pointers": [0]},
        "csr": {"rows": [0]},
        "csc": {"columns": [0]},
    }
    with pytest.raises(ValueError, match="takes pointers, rows, columns"):
        SparseLayout(format=SparseFormat(name), shape=(1, 1), **wrong[name])

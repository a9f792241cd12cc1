"""Graphs keep every edge, its number and its meaning through each conversion."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from lazycore.data import (
    ArraySparseAdapter,
    ConformanceError,
    CopyRequiredError,
    SparseFormat,
    SparseInvariantError,
    SparseLayout,
    _sparse_kernels,
    from_edge_index,
    node_counts,
    to_dgl_tuple,
)
from lazycore.data.testing import check_sparse_adapter

np: Any = pytest.importorskip("numpy", reason="numpy is not installed")


def coo(rows: Any, columns: Any, values: Any, shape: Any) -> ArraySparseAdapter:
    return ArraySparseAdapter.from_coo(rows, columns, values, shape=shape)


def csr(rows: Any, columns: Any, values: Any, shape: Any) -> ArraySparseAdapter:
    return ArraySparseAdapter(coo(rows, columns, values, shape).to_csr())


def csc(rows: Any, columns: Any, values: Any, shape: Any) -> ArraySparseAdapter:
    return ArraySparseAdapter(coo(rows, columns, values, shape).to_csc())


@pytest.mark.parametrize("factory", [coo, csr, csc])
def test_reference_adapter_keeps_the_contract(factory: Any) -> None:
    assert len(check_sparse_adapter(factory, far_indices=factory is coo)) >= 250


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("scipy", [True, False])
def test_every_way_to_order_elements_gives_the_same(
    monkeypatch: pytest.MonkeyPatch, *, vectors: bool, scipy: bool
) -> None:
    monkeypatch.setattr(_sparse_kernels, "_sorts_by_vectors", lambda: vectors)
    if not scipy:
        monkeypatch.setattr(_sparse_kernels, "find", lambda _: None)
    assert len(check_sparse_adapter(coo)) >= 250
    rng = np.random.default_rng(1)
    for rows, columns, size in [(9, 5, 400), (2**20, 2**20, 999), (2**33, 3, 50)]:
        i, j = rng.integers(0, rows, size), rng.integers(0, columns, size)
        wanted = np.lexsort((j, i))
        found = coo(i, j, None, (rows, columns)).to_coo(sort=True)
        assert found.edge_ids.tolist() == wanted.tolist()
        if rows < 2**33:
            plain = coo(i, j, None, (rows, columns)).to_csr()
            assert plain.edge_ids.tolist() == np.argsort(i, kind="stable").tolist()


class LosesDuplicates(ArraySparseAdapter):
    def to_csr(self, **_: Any) -> SparseLayout:
        return super().to_csr(duplicates="last")


class ForgetsNumbers(ArraySparseAdapter):
    def to_csc(self, **_: Any) -> SparseLayout:
        import dataclasses

        return dataclasses.replace(super().to_csc(), edge_ids=None)


class Relabels(ArraySparseAdapter):
    def to_csc(self, **_: Any) -> SparseLayout:
        import dataclasses

        return dataclasses.replace(super().to_csc(), format="csr")  # type: ignore[arg-type]


class Transposes(ArraySparseAdapter):
    def to_coo(self, **_: Any) -> SparseLayout:
        return ArraySparseAdapter.transposed(self)._layout


class Shrinks(ArraySparseAdapter):
    @property
    def shape(self) -> tuple[int, int]:
        return (len(np.unique(self.layout.rows)), super().shape[1])


class Casts(ArraySparseAdapter):
    def to_csr(self, **_: Any) -> SparseLayout:
        import dataclasses

        found = super().to_csr()
        if found.values is None:
            return found
        return dataclasses.replace(found, values=found.values.astype("f8"))


class Writes(ArraySparseAdapter):
    def to_coo(self, **_: Any) -> SparseLayout:
        self.layout.rows.sort()
        return super().to_coo()


class ClaimsCopy(ArraySparseAdapter):
    def to_coo(self, *, copy: bool | None = None, **_: Any) -> SparseLayout:
        del copy
        return super().to_coo()


class Wraps(ArraySparseAdapter):
    """Narrows indices to 32 bits without a look at them."""

    def to_csr(self, **options: Any) -> SparseLayout:
        import dataclasses

        found = super().to_csr(**options)
        return dataclasses.replace(found, columns=found.columns.astype("i4"))


class Forgets(ArraySparseAdapter):
    """Gives the edges in another order every time."""

    def to_coo(self, **_: Any) -> SparseLayout:
        found = super().to_coo(copy=True)
        self.layout.edge_ids[:] = self.layout.edge_ids[::-1].copy()
        return found


class Misnames(ArraySparseAdapter):
    @property
    def native_format(self) -> SparseFormat:
        return SparseFormat.CSR


class Scribbles(ArraySparseAdapter):
    def to_csc(self, **options: Any) -> SparseLayout:
        if self.layout.values is not None and self.layout.values.size:
            self.layout.values[:1] = 0
        return super().to_csc(**options)


class NeverRaises(ArraySparseAdapter):
    def to_csr(self, *, duplicates: Any = "keep", **_: Any) -> SparseLayout:
        return super().to_csr(
            duplicates="keep" if duplicates == "raise" else duplicates
        )


class AlwaysCopies(ArraySparseAdapter):
    def to_csr(self, *, copy: bool | None = None, **options: Any) -> SparseLayout:
        return super().to_csr(copy=copy or None, **options)


class TurnsNothing(ArraySparseAdapter):
    def transposed(self) -> Any:
        return self


class Unpicklable(ArraySparseAdapter):
    def __reduce__(self) -> Any:
        raise TypeError("holds an open file")


class DropsZeros(ArraySparseAdapter):
    def to_coo(self, **options: Any) -> SparseLayout:
        import dataclasses

        found = super().to_coo(**options)
        if found.values is None or found.values.ndim > 1:
            return found
        kept = np.flatnonzero(found.values)
        parts = ("rows", "columns", "values", "edge_ids")
        return dataclasses.replace(found, **{n: getattr(found, n)[kept] for n in parts})


class SortsRows(ArraySparseAdapter):
    """Sorts columns within rows and leaves values where they are."""

    def to_csr(self, **options: Any) -> SparseLayout:
        import dataclasses

        found = super().to_csr(**options)
        return dataclasses.replace(found, columns=super().to_csr(sort=True).columns)


class SumsAlways(ArraySparseAdapter):
    def to_csr(self, *, duplicates: Any = "keep", **_: Any) -> SparseLayout:
        return super().to_csr(duplicates="sum" if duplicates == "last" else duplicates)


@pytest.mark.parametrize(
    ("wrong", "finding"),
    [
        (LosesDuplicates, "elements instead of"),
        (ForgetsNumbers, "edge_ids are missing"),
        (Relabels, "takes pointers, rows, columns"),
        (Transposes, "do not follow edge_ids|shape"),
        (Shrinks, "shape"),
        (Casts, "values became"),
        (Writes, "wrote to its source|do not follow"),
        (ClaimsCopy, "copy=True is new memory"),
        (SumsAlways, "duplicates=last"),
        (Wraps, r"past 2\*\*31: to_csr: columns do not follow"),
        (Forgets, "to_coo again|do not follow"),
        (Misnames, "under native_format csr"),
        (Scribbles, "wrote to its source"),
        (NeverRaises, "duplicates=raise: did not raise"),
        (AlwaysCopies, "converted all the same"),
        (TurnsNothing, "transposed"),
        (Unpicklable, "holds an open file"),
        (DropsZeros, "explicit zeros: to_coo: 0 elements instead of 5"),
        (SortsRows, "columns do not follow edge_ids"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_kit_catches_a_wrong_adapter(wrong: Any, finding: str) -> None:
    def factory(rows: Any, columns: Any, values: Any, shape: Any) -> Any:
        return wrong.from_coo(rows, columns, values, shape=shape)

    with pytest.raises(ConformanceError, match=finding):
        check_sparse_adapter(factory, far_indices=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: coo([-1], [0], None, (2, 2)), "spans -1"),
        (lambda: coo([2], [0], None, (2, 2)), "spans 2 to 2"),
        (lambda: coo([0], [2**40], None, (2, 2)), "the shape allows 0 to 1"),
        (lambda: coo([0, 1], [0], None, (2, 2)), "entries beside"),
        (lambda: coo([0], [0], [1, 2], (2, 2)), "values has 2 entries"),
        (lambda: coo([0.5], [0], None, (2, 2)), "integers"),
        (lambda: coo([[0]], [[0]], None, (2, 2)), "1-D"),
        (lambda: coo([], [], None, (-1, 2)), "negative"),
        (
            lambda: ArraySparseAdapter.from_csr([0, 2, 1, 2], [0, 1], shape=(3, 2)),
            "pointers fall at group 1",
        ),
        (
            lambda: ArraySparseAdapter.from_csr([0, 1], [0, 1], shape=(1, 2)),
            "not from 0 to 2",
        ),
        (
            lambda: ArraySparseAdapter.from_csc([0, 1, 2], [0, 1], shape=(2, 3)),
            "4 are needed",
        ),
        (lambda: from_edge_index([[0, 1]], num_nodes=2), "edge_index has shape"),
    ],
    ids=[
        "negative index",
        "index out of range",
        "index beyond 2**31",
        "ragged",
        "values ragged",
        "float index",
        "2-D index",
        "negative shape",
        "falling pointers",
        "pointers that end early",
        "too few pointers",
        "edge index of one row",
    ],
)
def test_components_that_disagree_are_refused(make: Any, message: str) -> None:
    with pytest.raises(SparseInvariantError, match=message):
        make()


def test_full_validation_finds_a_false_claim_of_order() -> None:
    layout = SparseLayout(
        format=SparseFormat.COO,
        shape=(2, 2),
        rows=np.array([1, 0]),
        columns=np.array([0, 1]),
        sorted=True,
    )
    graph = ArraySparseAdapter(layout)
    graph.validate()
    with pytest.raises(SparseInvariantError, match="says sorted"):
        graph.validate(full=True)


def test_native_conversion_shares_and_copy_tells_the_truth() -> None:
    values = np.arange(3.0)
    graph = coo([1, 0, 1], [0, 1, 0], values, (2, 2))
    assert np.shares_memory(graph.to_coo(copy=False).values, values)
    assert not np.shares_memory(graph.to_coo(copy=True).values, values)
    with pytest.raises(CopyRequiredError, match="copy=None"):
        graph.to_csr(copy=False)
    with pytest.raises(CopyRequiredError, match="copy=None"):
        graph.to_coo(duplicates="last", copy=False)


def test_edge_tables_follow_by_edge_ids() -> None:
    table = np.arange(10).reshape(5, 2)
    graph = coo([2, 0, 1, 0, 2], [0, 1, 1, 0, 0], None, (3, 2))
    for found in (graph.to_csr(), graph.to_csc(), graph.to_coo(sort=True)):
        assert sorted(table[found.edge_ids][:, 0].tolist()) == [0, 2, 4, 6, 8]
    ordered = graph.to_csr(sort=True)
    assert ordered.columns.tolist() == [0, 1, 1, 0, 0]
    assert ordered.edge_ids.tolist() == [3, 1, 2, 0, 4]


def test_transposition_turns_the_direction_and_shares() -> None:
    graph = csr([0, 1], [1, 2], np.ones(2), (2, 3))
    turned = graph.transposed()
    assert (turned.native_format, turned.shape, turned.direction) == (
        "csc",
        (3, 2),
        "dst_src",
    )
    assert np.shares_memory(turned.layout.values, graph.layout.values)
    assert turned.transposed().direction == "src_dst"


def test_components_have_binsparse_names_and_support_dlpack() -> None:
    graph = csr([0, 1], [1, 2], np.ones(2), (2, 3))
    assert set(graph.components()) == {"pointers_to_1", "indices_1", "values"}
    for part in graph.components().values():
        assert np.from_dlpack(part).shape == part.shape
    assert set(coo([0], [0], None, (1, 1)).components()) == {"indices_0", "indices_1"}


def test_summing_without_values_is_refused() -> None:
    graph = coo([0, 0], [1, 1], None, (2, 2))
    with pytest.raises(SparseInvariantError, match="needs values"):
        graph.to_csr(duplicates="sum")
    with pytest.raises(ValueError, match="choose one of"):
        graph.to_csr(duplicates="mean")  # type: ignore[arg-type]


def test_dgl_tuple_carries_the_edge_numbers() -> None:
    kind, (pointers, columns, ids) = to_dgl_tuple(coo([1, 0], [0, 1], None, (2, 2)))
    assert (kind, pointers.tolist(), columns.tolist(), ids.tolist()) == (
        "csr",
        [0, 1, 2],
        [1, 0],
        [1, 0],
    )


def test_node_counts_agree_over_relations_or_are_refused() -> None:
    rates = coo([0], [0], None, (5, 3))
    follows = coo([0], [1], None, (5, 5))
    graphs = {("user", "rates", "film"): rates, ("user", "follows", "user"): follows}
    assert node_counts(graphs) == {"user": 5, "film": 3}
    graphs["film", "like", "film"] = coo([0], [0], None, (4, 4))
    with pytest.raises(SparseInvariantError, match="'film'"):
        node_counts(graphs)


@pytest.mark.parametrize("policy", ["keep", "last", "raise"])
def test_ordering_coordinates_costs_memory_by_elements_not_by_the_shape(
    policy: Any,
) -> None:
    graph = ArraySparseAdapter.from_coo([2**26, 5], [3, 2**26], shape=(2**27, 2**27))
    tracemalloc.start()
    try:
        layout = graph.to_coo(sort=True, duplicates=policy)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert layout.rows.tolist() == [5, 2**26]
    assert peak < 2**24


@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_unsigned_indices_of_64_bits_convert_to_every_format(form: str) -> None:
    rows, columns = np.array([1, 0], np.uint64), np.array([0, 1], np.uint64)
    graph = ArraySparseAdapter.from_coo(rows, columns, shape=(2, 2))
    layout = getattr(graph, f"to_{form}")(sort=True)
    assert layout.edge_ids.tolist() in ([1, 0], [0, 1])
    with pytest.raises(SparseInvariantError, match=r"2\*\*63"):
        ArraySparseAdapter.from_coo(np.array([2**63], np.uint64), [0], shape=(2, 2))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"edge_ids": [-5, 0]}, "numbered from 0"),
        ({"edge_ids": [0.5, 1.0]}, "integers"),
        ({"edge_ids": [1, 1]}, "two elements alike"),
        ({"values": [[1], [2, 3]]}, "values"),
        ({"shape": (1.5, 2)}, "whole numbers"),
        ({"shape": "ab"}, "whole numbers"),
        ({"shape": None}, "whole numbers"),
        ({"shape": (2, 2, 2)}, "whole numbers"),
    ],
    ids=str,
)
def test_edge_numbers_values_and_shapes_that_make_no_sense_are_named(
    options: dict[str, Any], reason: str
) -> None:
    wanted: dict[str, Any] = {"shape": (2, 2), **options}
    with pytest.raises(SparseInvariantError, match=reason):
        ArraySparseAdapter.from_coo([0, 1], [1, 0], **wanted).validate(full=True)


def test_empty_lists_are_integer_indices_in_every_layout() -> None:
    graph = ArraySparseAdapter.from_coo([], [], shape=(3, 3))
    for layout in (graph.to_coo(), graph.to_csr(), graph.to_csc()):
        for part in (layout.pointers, layout.rows, layout.columns, layout.edge_ids):
            assert part is None or part.dtype.kind == "i"

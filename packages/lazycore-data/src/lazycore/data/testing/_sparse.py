"""Hold a sparse adapter to its contract: no edge lost, moved, summed or renamed."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazycore.data._errors import ConformanceError, DataTierError
from lazycore.data._libraries import library
from lazycore.data._sparse_adapter import (
    SparseFormat,
    SparseGraphTensorAdapter,
    SparseLayout,
)
from lazycore.data._sparse_kernels import expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["check_sparse_adapter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    name: str
    rows: Any
    columns: Any
    values: Any
    shape: tuple[int, int]
    formats: tuple[SparseFormat, ...] = tuple(SparseFormat)


def _far() -> _Case:
    """Return a graph with an index that 32 bits would wrap."""
    np = library("numpy")
    return _Case(
        name="past 2**31",
        rows=np.zeros(3, np.int64),
        columns=np.array([2**31 + 6, 3, 2**31 + 6]),
        values=np.arange(3.0),
        shape=(1, 2**31 + 7),
        formats=(SparseFormat.COO, SparseFormat.CSR),
    )


def _cases() -> Iterator[_Case]:
    np = library("numpy")
    rng = np.random.default_rng(20260101)

    def case(
        name: str,
        rows: Any,
        columns: Any,
        values: Any,
        shape: Any,
        *,
        index: str = "i8",
    ) -> _Case:
        return _Case(
            name=name,
            rows=np.asarray(rows, index),
            columns=np.asarray(columns, index),
            values=values,
            shape=shape,
        )

    one_to_five = np.arange(1.0, 6.0)
    rows, columns = [0, 0, 1, 2, 2], [1, 1, 0, 2, 0]
    yield case("0 x 0", [], [], np.zeros(0), (0, 0))
    yield case("no elements", [], [], np.zeros(0), (3, 2))
    yield case("one row", [0, 0, 0], [4, 1, 2], np.arange(3.0), (1, 5))
    yield case("one column", [4, 1, 2], [0, 0, 0], np.arange(3.0), (5, 1))
    yield case("duplicates", rows, columns, one_to_five, (4, 4))
    yield case("explicit zeros", rows, [1, 2, 0, 2, 0], one_to_five * 0, (4, 4))
    yield case("self loops", [0, 1, 1], [0, 1, 1], np.arange(3.0), (2, 2))
    yield case("empty last rows", [0], [0], np.ones(1), (9, 1))
    yield case("empty last columns", [0], [0], np.ones(1), (1, 9))
    yield case("wide", [1, 0], [6, 3], np.arange(2.0), (2, 7))
    yield case("tall", [6, 3], [1, 0], np.arange(2.0), (7, 2))
    yield case("no values", rows, columns, None, (4, 4))
    yield case("bool", rows, columns, one_to_five > 2, (4, 4))
    yield case("complex", rows, columns, one_to_five * 1j, (4, 4))
    yield case("float32", rows, columns, one_to_five.astype("f4"), (4, 4))
    yield case("two-dimensional", rows, columns, np.arange(10.0).reshape(5, 2), (4, 4))
    yield case("sorted", [0, 1, 2], [0, 1, 2], np.arange(3.0), (3, 3))
    yield case("reversed", [2, 1, 0], [2, 1, 0], np.arange(3.0), (3, 3))
    yield case("int32 indices", rows, columns, one_to_five, (4, 4), index="i4")
    yield case("one edge, many times", [1] * 9, [2] * 9, np.arange(9.0), (3, 3))
    yield case("full", [0, 0, 1, 1], [0, 1, 0, 1], np.arange(4.0), (2, 2))
    yield case("integers", rows, columns, np.arange(5) - 2**62, (4, 4))
    yield case("nan", [1, 0], [0, 1], np.array([np.nan, 1.0]), (2, 2))
    yield case(
        "random",
        rng.integers(0, 70_000, 500),
        rng.integers(0, 70_000, 500),
        rng.random(500),
        (70_000, 70_001),
    )


def _coordinates(found: Any, wanted: SparseFormat) -> tuple[Any, Any]:
    np = library("numpy")
    if wanted is SparseFormat.COO:
        return np.asarray(found.rows), np.asarray(found.columns)
    major = expand(np.asarray(found.pointers), np.int64)
    if wanted is SparseFormat.CSR:
        return major, np.asarray(found.columns)
    return np.asarray(found.rows), major


def _content(case: _Case, found: Any, wanted: SparseFormat) -> str:  # noqa: C901, PLR0912 - a table
    """Return what is wrong with a conversion, an empty string when nothing is."""
    np = library("numpy")
    if str(found.format) != str(wanted):
        return f"says it is {found.format}"
    if tuple(found.shape) != case.shape:
        return f"shape {found.shape} instead of {case.shape}"
    if wanted is not SparseFormat.COO:
        groups = case.shape[0 if wanted is SparseFormat.CSR else 1]
        pointers = np.asarray(found.pointers)
        if len(pointers) != groups + 1 or (np.diff(pointers) < 0).any():
            return f"{len(pointers)} pointers for {groups} groups, or they fall"
    rows, columns = _coordinates(found, wanted)
    if len(rows) != len(case.rows):
        return f"{len(rows)} elements instead of {len(case.rows)}"
    ids = found.edge_ids
    if ids is None:
        return "edge_ids are missing"
    ids = np.asarray(ids)
    if not np.array_equal(np.sort(ids), np.arange(len(rows))):
        return "edge_ids are no permutation of the edges"
    if not np.array_equal(rows, case.rows[ids]):
        return "rows do not follow edge_ids"
    if not np.array_equal(columns, case.columns[ids]):
        return "columns do not follow edge_ids"
    if (case.values is None) != (found.values is None):
        return "values appeared or vanished"
    if case.values is not None:
        values = np.asarray(found.values)
        if values.dtype != case.values.dtype:
            return f"values became {values.dtype}"
        if values.tobytes() != case.values[ids].tobytes():
            return "values do not follow edge_ids"
    return ""


def _policies(adapter: Any, case: _Case) -> Iterator[tuple[str, str]]:
    """Check the duplicates policies of an adapter that has them."""
    np = library("numpy")
    expected: dict[str, dict[tuple[int, int], float]] = {"sum": {}, "last": {}}
    for row, column, value in zip(case.rows, case.columns, case.values, strict=True):
        place = (int(row), int(column))
        expected["sum"][place] = expected["sum"].get(place, 0.0) + float(value)
        expected["last"][place] = float(value)
    for policy, wanted in expected.items():
        found = adapter.to_csr(duplicates=policy)
        rows, columns = _coordinates(found, SparseFormat.CSR)
        got = {
            (int(r), int(c)): float(v)
            for r, c, v in zip(rows, columns, np.asarray(found.values), strict=True)
        }
        good = got == wanted and len(rows) == len(wanted)
        yield f"duplicates={policy}", "" if good else f"gave {got}, not {wanted}"
    try:
        adapter.to_csr(duplicates="raise")
    except (DataTierError, ValueError):
        yield "duplicates=raise", ""
    else:
        yield "duplicates=raise", "did not raise"


def _copies(adapter: Any) -> Iterator[tuple[str, str]]:
    """Check that ``copy=`` tells the truth, for an adapter that has it."""
    np = library("numpy")
    wanted = SparseFormat(str(adapter.native_format))
    native = {"coo": adapter.to_coo, "csr": adapter.to_csr, "csc": adapter.to_csc}
    shared = native[wanted](copy=False)
    again = native[wanted](copy=True)
    for name in ("values", "rows", "columns"):
        one, two = getattr(shared, name), getattr(again, name)
        if one is not None and two is not None and np.may_share_memory(one, two):
            yield "copy=True is new memory", f"{name} is shared"
            return
    yield "copy=True is new memory", ""
    other = "csr" if wanted is not SparseFormat.CSR else "csc"
    try:
        native[other](copy=False)
    except (DataTierError, ValueError):
        yield "copy=False refuses a conversion", ""
    else:
        yield "copy=False refuses a conversion", "converted all the same"


def _misnamed(adapter: Any, case: _Case) -> str:
    """Return how components contradict ``native_format``, an empty string if not."""
    coo = str(adapter.native_format) == "coo"
    wanted = {"indices_0" if coo else "pointers_to_1", "indices_1"}
    wanted |= set() if case.values is None else {"values"}
    found = set(adapter.components())
    if found != wanted:
        return f"{sorted(found)} under native_format {adapter.native_format}"
    sizes = {len(adapter.components()[name]) for name in wanted - {"pointers_to_1"}}
    return "" if sizes == {len(case.rows)} else f"have {sorted(sizes)} entries"


def _around(case: _Case, factory: Callable[..., Any]) -> str:
    """Return what is lost on the way COO, CSR, CSC, COO, each by a new adapter."""
    np = library("numpy")
    rows, columns, values = case.rows, case.columns, case.values
    ids = np.arange(len(rows))
    for wanted in (SparseFormat.CSR, SparseFormat.CSC, SparseFormat.COO):
        adapter = factory(rows, columns, values, case.shape)
        found = getattr(adapter, f"to_{wanted}")()
        if found.edge_ids is None:
            return "edge_ids are missing"
        rows, columns = _coordinates(found, wanted)
        values, ids = found.values, ids[np.asarray(found.edge_ids)]
    layout = SparseLayout(
        format=SparseFormat.COO,
        shape=case.shape,
        rows=rows,
        columns=columns,
        values=values,
        edge_ids=ids,
    )
    return _content(case, layout, SparseFormat.COO)


def _one(case: _Case, factory: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    parts = [case.rows, case.columns]
    if case.values is not None:
        parts.append(case.values)
    before = [part.tobytes() for part in parts]
    adapter = factory(case.rows, case.columns, case.values, case.shape)
    for wanted in case.formats:
        found = getattr(adapter, f"to_{wanted}")()
        yield f"to_{wanted}", _content(case, found, wanted)
        again = getattr(adapter, f"to_{wanted}")()
        yield f"to_{wanted} again", _content(case, again, wanted)
    if SparseFormat.CSC in case.formats:
        yield "around by CSR and CSC", _around(case, factory)
    native = str(adapter.native_format)
    known = {str(member) for member in SparseFormat}
    yield "native_format", "" if native in known else f"is {native!r}"
    if hasattr(adapter, "components"):
        wrong = _misnamed(adapter, case)
        yield "components", wrong
    shape = tuple(adapter.shape)
    yield "shape", "" if shape == case.shape else f"is {shape}"
    copied = pickle.loads(pickle.dumps(adapter))  # noqa: S301 - our own bytes
    wrong = _content(case, copied.to_csr(), SparseFormat.CSR)
    yield "pickled", wrong
    if hasattr(adapter, "transposed"):
        turned = adapter.transposed()
        mirrored = _Case(
            name=case.name,
            rows=case.columns,
            columns=case.rows,
            values=case.values,
            shape=case.shape[::-1],
        )
        wrong = _content(mirrored, turned.to_coo(), SparseFormat.COO)
        yield "transposed", wrong
    same = all(part.tobytes() == old for part, old in zip(parts, before, strict=True))
    yield "source unchanged", "" if same else "the conversion wrote to its source"
    options = getattr(type(adapter).to_csr, "__kwdefaults__", None) or {}
    if case.name == "duplicates" and "duplicates" in options:
        yield from _policies(adapter, case)
    if case.name == "random" and "copy" in options:
        yield from _copies(adapter)


def check_sparse_adapter(
    factory: Callable[..., SparseGraphTensorAdapter],
    *,
    far_indices: bool = False,
) -> tuple[str, ...]:
    """Check an adapter on twenty-five graphs, ten to fifteen rules each.

    The conversions must return objects with the fields of `SparseLayout`. Duplicate
    policies, ``copy=`` and transposition are checked where the adapter has them.

    Args:
        factory: Called as ``factory(rows, columns, values, shape)`` with NumPy
            arrays in edge order (values may be None); returns the adapter.
        far_indices: Also hand over a column past 2**31, which an adapter that counts
            columns when it is made would need 16 GB for.

    Returns:
        The names of the checks that passed.

    Raises:
        ConformanceError: The broken rules, all of them.
        MissingDependencyError: NumPy is not installed.

    Example:
        >>> def factory(rows, columns, values, shape):
        ...     return ArraySparseAdapter.from_coo(rows, columns, values, shape=shape)
        >>> len(check_sparse_adapter(factory)) > 250
        True
    """
    passed: list[str] = []
    broken: list[str] = []
    for case in [*_cases(), *([_far()] if far_indices else [])]:
        try:
            for rule, wrong in _one(case, factory):
                name = f"{case.name}: {rule}"
                if wrong:
                    broken.append(f"{name}: {wrong}")
                else:
                    passed.append(name)
        except Exception as error:  # noqa: BLE001 - whatever an adapter raises is a finding
            broken.append(f"{case.name}: raised {error!r}")
    if broken:
        shown = "\n  ".join(broken[:40])
        raise ConformanceError(f"{len(broken)} rules are broken:\n  {shown}")
    return tuple(passed)

"""A receipt gives the original arrays back: no bytes, exact types, index, names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lazycore.data import (
    DataTierWarning,
    LossyConversionError,
    UnsupportedFrameError,
    ZeroCopyError,
    from_polars_zero_copy,
    to_polars_zero_copy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pd: Any = pytest.importorskip("pandas", reason="pandas is not installed")
pl: Any = pytest.importorskip("polars", reason="polars is not installed")
pa: Any = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

ROWS = 400


@pytest.fixture
def source(arrow_frame: Callable[..., Any]) -> Any:
    text = [f"value number {k}" if k % 5 else None for k in range(ROWS)]
    frame = arrow_frame(
        i=pa.array([k if k % 7 else None for k in range(ROWS)]),
        s=pa.array(text, pa.large_string()),
        short=pa.array([str(k) for k in range(ROWS)]),
        day=pa.array([k * 86_400_000 for k in range(ROWS)]).cast(pa.date64()),
        cat=pa.array([str(k % 7) for k in range(ROWS)]).dictionary_encode(),
        flag=pa.array([k % 3 == 0 for k in range(ROWS)]),
        nested=pa.array([[k, k] for k in range(ROWS)], pa.large_list(pa.int64())),
        fixed=pa.array([[k, k] for k in range(ROWS)], pa.list_(pa.int64(), 2)),
        pair=pa.array([{"a": k, "b": k % 2 == 0} for k in range(ROWS)]),
    )
    frame.index = pd.Index([f"row {k}" for k in range(ROWS)], name="key")
    frame["plain"] = range(ROWS)
    frame.attrs["unit"] = "kg"
    return frame


def test_an_untouched_frame_comes_back_identical(source: Any) -> None:
    polars, receipt = to_polars_zero_copy(source, receipt=True)
    restored = receipt.restore(polars)
    pd.testing.assert_frame_equal(restored, source)
    assert restored.attrs == source.attrs
    assert receipt.report.bytes_copied == 0
    assert all(c.shared or c.ok for c in receipt.report.columns.values())


OPERATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "slice": (lambda p: p.slice(13, 100), lambda d: d.iloc[13:113]),
    "head": (lambda p: p.head(3), lambda d: d.head(3)),
    "no rows": (lambda p: p.head(0), lambda d: d.head(0)),
    "lazy": (lambda p: p.lazy().slice(7, 50).collect(), lambda d: d.iloc[7:57]),
    "select": (lambda p: p.select("s", "i"), lambda d: d[["s", "i"]]),
    "slice of a slice": (
        lambda p: p.slice(10, 100).slice(5, 20),
        lambda d: d.iloc[15:35],
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_windows_on_the_original_come_back_without_a_copy(
    name: str, source: Any
) -> None:
    on_polars, on_pandas = OPERATIONS[name]
    polars, receipt = to_polars_zero_copy(source, receipt=True)
    restored = receipt.restore(on_polars(polars))
    pd.testing.assert_frame_equal(restored, on_pandas(source))
    assert receipt.report.bytes_copied == 0


def test_stacked_pieces_come_back_in_their_order(source: Any) -> None:
    frame = source.drop(columns=["pair", "flag", "day"])
    polars, receipt = to_polars_zero_copy(frame, receipt=True)
    stacked = pl.concat([polars.head(10), polars.tail(5)], rechunk=False)
    pd.testing.assert_frame_equal(
        receipt.restore(stacked), pd.concat([frame.head(10), frame.tail(5)])
    )


def test_computed_columns_are_converted_and_named_in_the_report(source: Any) -> None:
    polars, receipt = to_polars_zero_copy(source, receipt=True)
    changed = polars.with_columns(
        (pl.col("i") + 1).alias("more"), pl.col("s").str.to_uppercase()
    )
    restored = receipt.restore(changed)
    assert receipt.report.columns["more"].copied > 0
    assert receipt.report.columns["s"].copied > 0
    assert receipt.report.columns["i"].copied == 0
    assert restored["s"].tolist()[1] == "VALUE NUMBER 1"
    assert restored["more"].tolist()[1] == 2
    pd.testing.assert_series_equal(restored["day"], source["day"])


def test_filtered_rows_never_pass_for_the_original(source: Any) -> None:
    polars, receipt = to_polars_zero_copy(source, receipt=True)
    kept = polars.filter(pl.col("i") % 2 == 0)
    restored = receipt.restore(kept)
    assert restored["i"].tolist() == kept["i"].to_list()
    assert restored["cat"].tolist() == kept["cat"].cast(pl.String).to_list()
    assert restored["plain"].tolist() == kept["plain"].to_list()


def test_another_column_under_the_old_name_is_not_mistaken(source: Any) -> None:
    polars, receipt = to_polars_zero_copy(source, receipt=True)
    swapped = polars.select(pl.col("plain").alias("i"), pl.col("short").alias("s"))
    restored = receipt.restore(swapped)
    assert restored["i"].tolist() == list(range(ROWS))
    assert restored["s"].tolist() == [str(k) for k in range(ROWS)]


def test_nulls_put_in_later_are_seen(source: Any) -> None:
    polars, receipt = to_polars_zero_copy(source[["plain", "flag"]], receipt=True)
    emptied = polars.with_columns(
        pl.when(pl.col("plain") > 5).then(None).otherwise(pl.col("flag")).alias("flag")
    )
    assert receipt.restore(emptied)["flag"].isna().sum() == ROWS - 6


def test_receipt_of_the_way_back_and_bad_input(source: Any) -> None:
    polars, receipt = to_polars_zero_copy(source, receipt=True)
    pd.testing.assert_frame_equal(
        from_polars_zero_copy(polars, receipt=receipt), source
    )
    with pytest.raises(UnsupportedFrameError, match="dict"):
        receipt.restore({})


NESTED: dict[str, Callable[[], Any]] = {
    "slice of a list": lambda: pa.array([[1, None], None, [], [2]]).slice(1),
    "list of text": lambda: pa.array([["a"], None, ["b" * 20]]),
    "slice of a struct": lambda: pa.array(
        [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 7, "b": "zz"}]
    ).slice(1),
    "struct of a list": lambda: pa.array([{"a": [1]}, {"a": [2, 3]}]),
    "slice of a fixed list": lambda: pa.array(
        [[1, 2], None, [3, None]], pa.list_(pa.int64(), 2)
    ).slice(1),
    "far second": lambda: pa.array([1, None, 3], pa.timestamp("s")),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_columns_come_back_in_their_own_type(
    name: str, arrow_frame: Callable[..., Any]
) -> None:
    frame = arrow_frame(c=NESTED[name]())
    polars, receipt = to_polars_zero_copy(frame, receipt=True)
    pd.testing.assert_frame_equal(receipt.restore(polars), frame)
    assert receipt.report.bytes_copied == 0
    tail = receipt.restore(polars.slice(1))
    assert tail["c"].dtype == frame["c"].dtype
    assert tail["c"].tolist() == frame["c"].tolist()[1:]


@pytest.mark.parametrize("shape", ["list", "struct"])
def test_nested_categories_come_back_by_value(
    shape: str, arrow_frame: Callable[..., Any]
) -> None:
    coded = pa.array(["a", "b", "a"]).dictionary_encode()
    if shape == "list":
        array = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), coded)
    else:
        array = pa.StructArray.from_arrays([coded], ["x"])
    polars, receipt = to_polars_zero_copy(arrow_frame(c=array), receipt=True)
    restored = receipt.restore(polars)["c"].array.__arrow_array__()
    assert restored.to_pylist() == array.to_pylist()
    exact = restored.type == array.type
    assert exact == (receipt.report.columns["c"].copied == 0)


def test_nulls_put_into_a_struct_later_are_seen(
    arrow_frame: Callable[..., Any],
) -> None:
    rows = pa.array([{"a": k} for k in range(8)])
    polars, receipt = to_polars_zero_copy(arrow_frame(c=rows), receipt=True)
    emptied = polars.with_columns(
        pl.when(pl.int_range(pl.len()) > 5).then(None).otherwise(pl.col("c")).alias("c")
    )
    restored = receipt.restore(emptied)["c"].array.__arrow_array__()
    assert restored.to_pylist() == emptied.to_arrow()["c"].to_pylist()


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["x", "y", "z"], name="key"),
        pd.MultiIndex.from_tuples([(1, "a"), (2, "b"), (3, "c")], names=["k", None]),
    ],
    ids=["one level", "two levels"],
)
def test_an_index_kept_as_columns_comes_back_as_the_index_alone(
    index: Any, arrow_frame: Callable[..., Any]
) -> None:
    frame = arrow_frame(a=pa.array([1, 2, 3])).set_axis(index)
    polars, receipt = to_polars_zero_copy(frame, index="columns", receipt=True)
    pd.testing.assert_frame_equal(receipt.restore(polars), frame)
    pd.testing.assert_frame_equal(receipt.restore(polars.tail(2)), frame.tail(2))
    computed = receipt.restore(polars.reverse())
    assert len(computed.columns) == 1 + index.nlevels


def test_strict_grants_what_the_receipt_keeps(arrow_frame: Callable[..., Any]) -> None:
    frame = arrow_frame(a=pa.array([1, 2])).set_axis(["x", "y"])
    frame.columns = pd.Index([7])
    frame.attrs["unit"] = "kg"
    polars, receipt = to_polars_zero_copy(frame, strict=True, receipt=True)
    pd.testing.assert_frame_equal(receipt.restore(polars), frame)
    with pytest.raises(LossyConversionError, match="index"):
        to_polars_zero_copy(frame, index="raise", receipt=True)
    bare = pd.DataFrame(index=pd.RangeIndex(2))
    with pytest.raises(ZeroCopyError, match="rows without columns"):
        to_polars_zero_copy(bare, strict=True, receipt=True)
    with pytest.warns(DataTierWarning, match="rows without columns"):
        to_polars_zero_copy(bare, receipt=True)


@pytest.mark.parametrize("kind", ["string_view", "binary_view"])
def test_views_come_back_and_are_counted(
    kind: str, arrow_frame: Callable[..., Any]
) -> None:
    array = pa.array(["a", None, "more than twelve bytes"]).cast(pa.binary())
    views = (
        pa.array(array.to_pylist(), getattr(pa, kind)())
        if kind[0] == "b"
        else (pa.array(["a", None, "more than twelve bytes"], pa.string_view()))
    )
    polars, receipt = to_polars_zero_copy(arrow_frame(c=views), receipt=True)
    restored = receipt.restore(polars)["c"].array.__arrow_array__()
    assert (restored.type, restored.to_pylist()) == (views.type, views.to_pylist())
    assert receipt.report.columns["c"].shared > 0


HIDDEN: dict[str, Callable[[], Any]] = {
    "list of categories": lambda: pa.ListArray.from_arrays(
        pa.array(range(ROWS + 1), pa.int32()), words()
    ),
    "struct of categories": lambda: pa.StructArray.from_arrays([words()], ["x"]),
    "map": lambda: pa.array(
        [[(str(k), k)] for k in range(ROWS)], pa.map_(pa.string(), pa.int64())
    ),
}


def words() -> Any:
    return pa.array([str(k % 7) for k in range(ROWS)]).dictionary_encode()


@pytest.mark.parametrize("name", HIDDEN)
def test_columns_that_no_address_witnesses_come_back_by_value(
    name: str, arrow_frame: Callable[..., Any]
) -> None:
    frame = arrow_frame(c=HIDDEN[name](), i=pa.array(range(ROWS)))
    polars, receipt = to_polars_zero_copy(frame, receipt=True)
    for part, rows in (
        (polars, frame),
        (polars.slice(5, 20), frame.iloc[5:25]),
        (polars.select("c"), frame[["c"]]),
    ):
        back = receipt.restore(part)
        assert receipt.report.bytes_copied == 0
        assert back.dtypes.equals(rows.dtypes)
        given = back["c"].array.__arrow_array__()
        assert given.to_pylist() == rows["c"].array.__arrow_array__().to_pylist()


@pytest.mark.parametrize("name", HIDDEN)
def test_columns_compared_by_value_are_converted_once_they_change(
    name: str, arrow_frame: Callable[..., Any]
) -> None:
    frame = arrow_frame(c=HIDDEN[name](), i=pa.array(range(ROWS)))
    polars, receipt = to_polars_zero_copy(frame, receipt=True)
    turned = polars.with_columns(pl.col("c").reverse())
    back = receipt.restore(turned)
    assert receipt.report.columns["c"].copied > 0
    assert back["i"].tolist() == list(range(ROWS))
    if name != "map":  # before Polars 2 maps are lists of structs
        wanted = frame["c"].array.__arrow_array__().to_pylist()[::-1]
        assert back["c"].array.__arrow_array__().to_pylist() == wanted

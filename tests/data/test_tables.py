"""Frames between pandas and Polars: shared, refused with reasons, or given back."""

from __future__ import annotations

import decimal
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.data import (
    DataTierWarning,
    LossyConversionError,
    UnsupportedArrowTypeError,
    UnsupportedFrameError,
    ZeroCopyError,
    explain,
    from_polars_zero_copy,
    is_arrow_backed_pandas,
    pandas_arrow_dtypes,
    pandas_from_arrow,
    prove_zero_copy,
    to_arrow_table,
    to_polars_zero_copy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pd: Any = pytest.importorskip("pandas", reason="pandas is not installed")
pl: Any = pytest.importorskip("polars", reason="polars is not installed")
pa: Any = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pc: Any = pytest.importorskip("pyarrow.compute", reason="pyarrow is not installed")

ROWS = 500
LONG = [f"value number {k}" for k in range(ROWS)]


def chunked(array: Any, parts: int) -> Any:
    size = len(array) // parts
    return pa.chunked_array(
        [array.slice(k * size, size) for k in range(parts - 1)]
        + [array.slice((parts - 1) * size)]
    )


SHARED = {
    "int8": lambda: pa.array([k % 100 for k in range(ROWS)], pa.int8()),
    "uint64": lambda: pa.array(range(ROWS), pa.uint64()),
    "int64 with nulls": lambda: pa.array([k if k % 3 else None for k in range(ROWS)]),
    "float32": lambda: pa.array([k / 2 for k in range(ROWS)], pa.float32()),
    "float64 with NaN and null": lambda: pa.array([float("nan"), None, 1.0] * 100),
    "bool with nulls": lambda: pa.array([True, None, False] * 100),
    "bool sliced at bit 3": lambda: pa.array([True, False, True] * 100)[3:],
    "date32": lambda: pa.array(range(ROWS), pa.int32()).cast(pa.date32()),
    "time64[ns]": lambda: pa.array(range(ROWS), pa.int64()).cast(pa.time64("ns")),
    "timestamp[us, UTC]": lambda: pa.array(range(ROWS), pa.timestamp("us", "UTC")),
    "timestamp[ns, zone]": lambda: pa.array(
        range(ROWS), pa.timestamp("ns", "Europe/Berlin")
    ),
    "duration[ms]": lambda: pa.array(range(ROWS), pa.duration("ms")),
    "decimal128": lambda: pa.array(
        [decimal.Decimal(k).scaleb(-2) for k in range(ROWS)], pa.decimal128(20, 2)
    ),
    "large_list": lambda: pa.array(
        [[k, k] for k in range(ROWS)], pa.large_list(pa.int64())
    ),
    "fixed_size_list": lambda: pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float32(), 2)),
    "struct": lambda: pa.array([{"a": k, "b": k / 2} for k in range(ROWS)]),
    "string_view": lambda: pa.array(LONG, pa.string_view()),
    "null": lambda: pa.nulls(ROWS),
    "four chunks": lambda: chunked(pa.array(range(ROWS)), 4),
    "four sliced chunks": lambda: chunked(pa.array([None, *range(ROWS)])[3:], 4),
}


@pytest.mark.parametrize("name", SHARED)
def test_strict_conversion_shares_every_byte(
    name: str, arrow_frame: Callable[..., Any]
) -> None:
    frame = arrow_frame(c=SHARED[name]())
    source = frame["c"].array.__arrow_array__()
    result = to_polars_zero_copy(frame, strict=True)
    report = prove_zero_copy(frame, result)
    assert report.ok, str(report)
    assert report.bytes_copied == 0
    assert result["c"].n_chunks() == source.num_chunks
    after = frame["c"].array.__arrow_array__()
    assert [
        c.buffers()[-1].address if c.buffers()[-1] else 0 for c in after.chunks
    ] == [c.buffers()[-1].address if c.buffers()[-1] else 0 for c in source.chunks]


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "string": (lambda: pa.array(LONG), "views: 16 bytes a row"),
    "short string": (lambda: pa.array(["a", "b"]), "short text is inlined"),
    "list": (lambda: pa.array([[1], [2]]), "32-bit offsets"),
    "dictionary": (lambda: pa.array(["a", "b"]).dictionary_encode(), "codes"),
    "time32": (lambda: pa.array([1], pa.time32("s")), "rewritten as time64"),
    "date64": (lambda: pa.array([0], pa.date64()), "becomes timestamp"),
    "fixed-size binary": (lambda: pa.array([b"ab"], pa.binary(2)), "fixed-size binary"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_strict_conversion_refuses_with_column_type_bytes_and_reason(
    name: str, arrow_frame: Callable[..., Any]
) -> None:
    make, reason = REFUSED[name]
    frame = arrow_frame(c=make())
    with pytest.raises(ZeroCopyError, match=reason) as caught:
        to_polars_zero_copy(frame, strict=True)
    assert "'c': " in str(caught.value)
    assert caught.value.report is not None
    assert not caught.value.report.ok


UNSUPPORTED: dict[str, tuple[Callable[[], Any], str]] = {
    "decimal256": (lambda: pa.array([1], pa.decimal256(50, 0)), "decimal128"),
    "fixed offset": (lambda: pa.array([1], pa.timestamp("us", "+05:30")), "UTC"),
    "zone that does not exist": (
        lambda: pa.array([1], pa.timestamp("us", "Mars/Olympus")),
        "time zone",
    ),
    "calendar interval": (
        lambda: pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        "calendar intervals",
    ),
    "run ends": (
        lambda: pc.run_end_encode(pa.array([1, 1])),
        "run-end",
    ),
    "list view": (lambda: pa.array([[1]], pa.list_view(pa.int64())), "list views"),
    "nested decimal256": (
        lambda: pa.array([[1]], pa.large_list(pa.decimal256(50, 0))),
        "decimal128",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
@pytest.mark.parametrize("strict", [True, False])
def test_what_polars_cannot_hold_is_a_named_error(
    name: str, arrow_frame: Callable[..., Any], *, strict: bool
) -> None:
    make, remedy = UNSUPPORTED[name]
    frame = arrow_frame(good=pa.array([1]), c=make())
    wanted = ZeroCopyError if strict else UnsupportedArrowTypeError
    with pytest.raises(wanted, match=remedy):
        to_polars_zero_copy(frame, strict=strict)
    assert explain(frame).columns["c"].verdict == "unsupported"


def test_small_decimals_keep_their_values(arrow_frame: Callable[..., Any]) -> None:
    cents = [decimal.Decimal("1.00"), None, decimal.Decimal("-2.50")]
    kinds = {"wide": pa.decimal128(7, 2)}
    if hasattr(pa, "decimal32"):  # pyarrow 18 and later
        kinds |= {"small": pa.decimal32(7, 2), "middle": pa.decimal64(15, 2)}
    flat = {name: pa.array(cents, kind) for name, kind in kinds.items()}
    nested = {
        f"nested {name}": pa.array([[c] for c in cents], pa.large_list(kind))
        for name, kind in kinds.items()
    }
    result = to_polars_zero_copy(arrow_frame(**flat, **nested))
    for name in flat:
        assert result[name].to_list() == cents
        assert result[f"nested {name}"].to_list() == [[c] for c in cents]


def test_decimal_values_too_wide_for_a_float_survive(
    arrow_frame: Callable[..., Any],
) -> None:
    value = decimal.Decimal("12345678901234567890.12")
    frame = arrow_frame(c=pa.array([value], pa.decimal128(30, 2)))
    assert to_polars_zero_copy(frame)["c"].to_list() == [value]


def test_numpy_columns_do_not_change_with_their_owner_unless_asked() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "f": [1.0, 2.0, 3.0]})
    safe = to_polars_zero_copy(frame)
    shared = to_polars_zero_copy(frame, aliasing="allow")
    with pytest.raises(ZeroCopyError, match="show through"):
        to_polars_zero_copy(frame, aliasing="raise")
    assert prove_zero_copy(frame, shared).columns["f"].aliased
    frame.loc[0, "a"] = 99
    frame.loc[0, "f"] = 99.0
    assert safe["a"].to_list() == [1, 2, 3]
    assert safe["f"].to_list() == [1.0, 2.0, 3.0]


def test_arrow_columns_are_safe_from_writes_to_the_source(
    arrow_frame: Callable[..., Any],
) -> None:
    frame = arrow_frame(a=pa.array([1, 2, 3]))
    result = to_polars_zero_copy(frame, strict=True)
    frame.loc[0, "a"] = 99
    assert result["a"].to_list() == [1, 2, 3]


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([5, 6], name="key"),
        pd.Index(["x", "y"]),
        pd.RangeIndex(1, 3),
        pd.MultiIndex.from_tuples([(1, "a"), (2, "b")], names=["k", None]),
    ],
    ids=["named", "text", "shifted range", "multi"],
)
def test_an_index_is_never_dropped_in_silence(
    index: Any, arrow_frame: Callable[..., Any]
) -> None:
    frame = arrow_frame(a=pa.array([1, 2])).set_axis(index)
    with pytest.warns(DataTierWarning, match="index"):
        to_polars_zero_copy(frame)
    with pytest.raises(LossyConversionError, match="index"):
        to_polars_zero_copy(frame, index="raise")
    with pytest.raises(ZeroCopyError, match="index"):
        to_polars_zero_copy(frame, strict=True)
    assert to_polars_zero_copy(frame, index="drop").columns == ["a"]
    kept = to_polars_zero_copy(frame, index="columns")
    assert kept.width == 1 + index.nlevels
    assert kept["a"].to_list() == [1, 2]


@pytest.mark.parametrize("labels", [["a", "a"], [1, "1"], [("x",), "('x',)"]], ids=str)
def test_names_that_collide_as_text_are_refused(
    labels: list[Any], arrow_frame: Callable[..., Any]
) -> None:
    frame = arrow_frame(a=pa.array([1]), b=pa.array([2]))
    frame.columns = pd.Index(labels, tupleize_cols=False)
    with pytest.raises(LossyConversionError, match="rename one"):
        to_polars_zero_copy(frame)


def test_names_that_are_no_text_become_text_with_a_warning_and_come_back(
    arrow_frame: Callable[..., Any],
) -> None:
    frame = arrow_frame(a=pa.array([1]), b=pa.array([2]))
    frame.columns = pd.MultiIndex.from_tuples([("x", "a"), ("x", "b")])
    with pytest.warns(DataTierWarning, match="become text"):
        assert to_polars_zero_copy(frame).columns == ["('x', 'a')", "('x', 'b')"]
    polars, receipt = to_polars_zero_copy(frame, receipt=True)
    pd.testing.assert_frame_equal(receipt.restore(polars), frame)


def test_empty_frames_convert_both_ways(arrow_frame: Callable[..., Any]) -> None:
    assert to_polars_zero_copy(pd.DataFrame()).shape == (0, 0)
    frame = arrow_frame(a=pa.array([], pa.int64()), s=pa.array([], pa.large_string()))
    result = to_polars_zero_copy(frame)
    assert result.shape == (0, 2)
    assert from_polars_zero_copy(result).shape == (0, 2)
    assert from_polars_zero_copy(pl.DataFrame()).shape == (0, 0)
    with pytest.warns(DataTierWarning, match="rows without columns"):
        to_polars_zero_copy(pd.DataFrame(index=pd.RangeIndex(2)))


@pytest.mark.parametrize("value", [1, "frame", {"a": [1]}, None], ids=repr)
def test_what_is_no_frame_is_refused_by_name(value: object) -> None:
    for function in (
        to_polars_zero_copy,
        from_polars_zero_copy,
        explain,
        to_arrow_table,
    ):
        with pytest.raises(UnsupportedFrameError, match=type(value).__name__):
            function(value)
    with pytest.raises(UnsupportedFrameError, match=type(value).__name__):
        is_arrow_backed_pandas(value)


def test_a_frame_of_the_wrong_library_is_refused(
    arrow_frame: Callable[..., Any],
) -> None:
    with pytest.raises(UnsupportedFrameError, match="a Polars frame already"):
        to_polars_zero_copy(pl.DataFrame({"a": [1]}))
    with pytest.raises(UnsupportedFrameError, match="pandas"):
        from_polars_zero_copy(arrow_frame(a=pa.array([1])))


def test_objects_that_cannot_be_arrow_are_named() -> None:
    frame = pd.DataFrame({"fine": [1], "mixed": pd.Series([object()], dtype=object)})
    with pytest.raises(UnsupportedArrowTypeError, match="'mixed'"):
        to_polars_zero_copy(frame)


@pytest.mark.parametrize("option", ["index", "categories", "aliasing"])
def test_an_unknown_option_is_refused(
    option: str, arrow_frame: Callable[..., Any]
) -> None:
    options: dict[str, Any] = {option: "maybe"}
    with pytest.raises(ValueError, match="choose one of"):
        to_polars_zero_copy(arrow_frame(a=pa.array([1])), **options)


def test_ordered_categories_warn_and_enum_keeps_order_and_unused_ones(
    arrow_frame: Callable[..., Any],
) -> None:
    dictionary = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, 1], pa.int32()), pa.array(["z", "b", "never"]), ordered=True
    )
    frame = arrow_frame(c=dictionary)
    with pytest.warns(DataTierWarning, match="order of the categories"):
        to_polars_zero_copy(frame)
    result = to_polars_zero_copy(frame, categories="enum")
    assert result["c"].dtype.categories.to_list() == ["z", "b", "never"]
    assert result["c"].to_list() == ["b", "z", "b"]
    back = from_polars_zero_copy(result)["c"]
    assert back.dtype.pyarrow_dtype.ordered


def test_plain_columns_warn_of_nothing(arrow_frame: Callable[..., Any]) -> None:
    frame = arrow_frame(a=pa.array([1]), s=pa.array(["x"]), f=pa.array([1.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_polars_zero_copy(to_polars_zero_copy(frame))


@pytest.mark.parametrize("strings", ["large", "view", "str"])
def test_the_way_back_keeps_chunks_of_the_source_and_stays_on_arrow(
    strings: Any,
) -> None:
    frame = pl.concat(
        [
            pl.DataFrame({"s": LONG, "n": list(range(ROWS))}),
            pl.DataFrame({"s": ["x", None], "n": [1, None]}),
        ],
        rechunk=False,
    )
    result = from_polars_zero_copy(frame, strings=strings)
    assert frame.n_chunks() == 2
    assert is_arrow_backed_pandas(result, accept=("arrow", "string"))
    table = to_arrow_table(result)
    assert table["n"].to_pylist() == [*range(ROWS), 1, None]
    assert table["s"].to_pylist() == [*LONG, "x", None]
    if strings != "view":
        assert repr(result)
        assert len(result.sort_values("s")) == ROWS + 2
        assert result.groupby("s").size().sum() == ROWS + 1
    else:
        assert prove_zero_copy(frame, result).ok
        assert from_polars_zero_copy(frame, strict=True, strings="view") is not None


def test_strict_way_back_refuses_rebuilt_text_with_the_remedy() -> None:
    with pytest.raises(ZeroCopyError, match="strings='view'"):
        from_polars_zero_copy(pl.DataFrame({"s": LONG}), strict=True)


def test_categories_come_back_usable() -> None:
    frame = pl.DataFrame({"c": pl.Series(["a", "b", "a"], dtype=pl.Categorical)})
    back = from_polars_zero_copy(frame)["c"]
    assert repr(back)
    assert back.tolist() == ["a", "b", "a"]


def test_lazy_frames_and_series_convert(arrow_frame: Callable[..., Any]) -> None:
    lazy = pl.DataFrame({"a": [1, 2, 3]}).lazy().filter(pl.col("a") > 1)
    assert from_polars_zero_copy(lazy)["a"].tolist() == [2, 3]
    series = from_polars_zero_copy(pl.Series("a", [1, 2]))
    assert (series.name, series.tolist()) == ("a", [1, 2])
    back = to_polars_zero_copy(arrow_frame(a=pa.array([1, 2]))["a"])
    assert (back.name, back.to_list()) == ("a", [1, 2])
    table = pa.table({"a": [1, 2]})
    assert to_polars_zero_copy(table, strict=True)["a"].to_list() == [1, 2]
    assert pandas_from_arrow(table)["a"].tolist() == [1, 2]
    assert prove_zero_copy(table, pandas_from_arrow(table)).ok


def test_arrow_backed_is_told_apart_from_numpy_and_text_dtypes(
    arrow_frame: Callable[..., Any],
) -> None:
    arrow = arrow_frame(a=pa.array([1]))
    assert is_arrow_backed_pandas(arrow)
    assert is_arrow_backed_pandas(pd.DataFrame())
    text = pd.DataFrame({"s": pd.array(["x"], dtype="string[pyarrow]")})
    assert not is_arrow_backed_pandas(text)
    assert is_arrow_backed_pandas(text, accept=("arrow", "string"))
    assert not is_arrow_backed_pandas(pd.DataFrame({"a": [1]}), accept=("string",))
    with pytest.raises(ValueError, match="accept"):
        is_arrow_backed_pandas(arrow, accept=("numpy",))


def test_dtypes_list_only_arrow_columns_and_tell_of_collisions(
    arrow_frame: Callable[..., Any],
) -> None:
    frame = arrow_frame(a=pa.array([1]), s=pa.array(["x"])).assign(n=1)
    assert pandas_arrow_dtypes(frame) == {"a": "int64", "s": "string"}
    clash = arrow_frame(a=pa.array([1]), b=pa.array([1.0]))
    clash.columns = pd.Index([1, "1"], dtype=object)
    with pytest.warns(DataTierWarning, match="keys='raw'"):
        pandas_arrow_dtypes(clash)
    assert pandas_arrow_dtypes(clash, keys="raw") == {1: "int64", "1": "double"}


def test_the_proof_catches_a_copy_a_change_and_a_wrong_value(
    arrow_frame: Callable[..., Any],
) -> None:
    frame = arrow_frame(a=pa.array([1, 2, 3]))
    copied = pl.DataFrame({"a": [1, 2, 3]})
    report = prove_zero_copy(frame, copied)
    assert (report.columns["a"].verdict, report.bytes_copied) == ("copies", 24)
    wrong = prove_zero_copy(frame, pl.DataFrame({"a": [1, 2, 4]}))
    assert wrong.columns["a"].verdict == "WRONG VALUES"
    shorter = prove_zero_copy(frame, to_polars_zero_copy(frame).head(2))
    assert shorter.columns["a"].verdict == "WRONG VALUES"
    with pytest.raises(UnsupportedFrameError, match="columns"):
        prove_zero_copy(frame, pl.DataFrame({"x": [1], "y": [2]}))


def test_the_plan_agrees_with_the_proof(arrow_frame: Callable[..., Any]) -> None:
    frame = arrow_frame(
        i=pa.array(range(5000)),
        s=pa.array([f"value number {k % 9}" for k in range(5000)]),
        l=pa.array([[k] for k in range(5000)]),
        d=pa.array([0] * 5000, pa.date64()),
    )
    plan = explain(frame)
    proof = prove_zero_copy(frame, to_polars_zero_copy(frame, receipt=True)[0])
    for name, column in proof.columns.items():
        assert plan.columns[name].verdict == column.verdict
        assert plan.columns[name].copied == pytest.approx(column.copied, rel=0.01)


def test_reports_are_tables_for_people_programs_and_notebooks(
    arrow_frame: Callable[..., Any],
) -> None:
    frame = arrow_frame(**{"a<b>": pa.array([1]), "line\nbreak": pa.array(["x"])})
    report = explain(frame)
    text = str(report)
    assert text.splitlines()[0].split() == [
        "column",
        "from",
        "to",
        "verdict",
        "shared",
        "new",
        "reason",
    ]
    assert "line\\x0abreak" in text
    assert "1 of 2 columns zero copy" in text
    assert "&lt;b&gt;" in report._repr_html_()
    import json

    assert json.loads(json.dumps(report.to_dict()))["ok"] is False


def test_rechunk_is_planned_as_the_copy_it_is(arrow_frame: Callable[..., Any]) -> None:
    frame = arrow_frame(c=chunked(pa.array(range(ROWS)), 4))
    assert explain(frame, rechunk=True).columns["c"].copied == ROWS * 8
    assert to_polars_zero_copy(frame, rechunk=True)["c"].n_chunks() == 1
    assert frame["c"].array.__arrow_array__().num_chunks == 4

"""What users of other routes reported, and what happens here instead."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.data import (
    HandoffError,
    LossyConversionError,
    UnsupportedArrowTypeError,
    ZeroCopyError,
    check_dlpack,
    from_polars_zero_copy,
    is_arrow_backed_pandas,
    pandas_from_arrow,
    prove_zero_copy,
    to_arrow_table,
    to_polars_zero_copy,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

pd: Any = pytest.importorskip("pandas", reason="pandas is not installed")
pl: Any = pytest.importorskip("polars", reason="polars is not installed")
pa: Any = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def stacked(**columns: Any) -> Any:
    return pl.concat([pl.DataFrame(columns), pl.DataFrame(columns)], rechunk=False)


def test_polars_24951_the_way_back_shares_all_but_text() -> None:
    frame = pl.DataFrame({"n": [1, 2], "f": [0.5, None], "b": [True, False]})
    assert prove_zero_copy(frame, from_polars_zero_copy(frame)).ok


def test_polars_21738_the_callers_frame_is_not_rechunked() -> None:
    frame = stacked(n=[1, 2], s=["a", "b"])
    from_polars_zero_copy(frame)
    to_arrow_table(frame)
    prove_zero_copy(frame, frame)
    assert frame.n_chunks("all") == [2, 2]


def test_polars_17409_text_over_twelve_bytes_is_shared(
    arrow_frame: Callable[..., Any],
) -> None:
    text = ["more than twelve bytes of text"] * 1000
    frame = arrow_frame(s=pa.array(text, pa.large_string()))
    column = prove_zero_copy(frame, to_polars_zero_copy(frame)).columns["s"]
    assert column.shared >= sum(map(len, text))
    assert column.copied <= 16 * 1000 + 8


def test_polars_17425_a_wide_decimal_is_an_exception_not_an_abort(
    arrow_frame: Callable[..., Any],
) -> None:
    frame = arrow_frame(c=pa.array([1], pa.decimal256(60, 2)))
    with pytest.raises(UnsupportedArrowTypeError, match="decimal256"):
        to_polars_zero_copy(frame)


def test_polars_10977_unsigned_codes_become_readable_in_pandas() -> None:
    frame = pl.DataFrame({"c": pl.Series(["a", None, "a"], dtype=pl.Categorical)})
    back = from_polars_zero_copy(frame)["c"]
    assert "uint" not in str(back.dtype)
    assert back.to_numpy().tolist()[0] == "a"


def test_polars_23068_a_table_is_read_by_columns_not_as_structs() -> None:
    result = to_polars_zero_copy(pa.table({"a": [1], "b": ["x"]}))
    assert result.columns == ["a", "b"]


@pytest.mark.parametrize("kind", ["categorical", "decimal", "time", "date"])
def test_polars_21660_series_of_every_kind_come_back(kind: str) -> None:
    import datetime as dt
    import decimal

    values: dict[str, Any] = {
        "categorical": pl.Series("c", ["a", "b"], dtype=pl.Categorical),
        "decimal": pl.Series("c", [decimal.Decimal("1.50"), None]),
        "time": pl.Series("c", [dt.time(1, 2), None]),
        "date": pl.Series("c", [dt.date(2024, 1, 2), None]),
    }
    series = values[kind]
    found = to_arrow_table(from_polars_zero_copy(series).to_frame())
    assert found["c"].to_pylist() == series.to_list()


def test_polars_27472_concurrent_exports_of_one_frame_do_not_lock() -> None:
    frame = stacked(n=list(range(1000)), s=["text"] * 1000)
    done: list[int] = []

    def convert() -> None:
        done.extend(len(from_polars_zero_copy(frame)) for _ in range(20))

    threads = [threading.Thread(target=convert, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == [2000] * 160


def test_pandas_59883_large_strings_print_and_sort() -> None:
    back = from_polars_zero_copy(pl.DataFrame({"s": ["b", "a"]}))
    assert "large_string" in str(back.dtypes["s"])
    assert back.sort_values("s")["s"].tolist() == ["a", "b"]
    assert repr(back)


def test_duckdb_15379_nan_and_null_stay_apart(arrow_frame: Callable[..., Any]) -> None:
    frame = arrow_frame(f=pa.array([float("nan"), None, 1.0]))
    result = to_polars_zero_copy(frame, strict=True)["f"]
    assert result.null_count() == 1
    assert result.is_nan().sum() == 1


def test_polars_7007_a_round_trip_by_receipt_copies_nothing(
    arrow_frame: Callable[..., Any],
) -> None:
    frame = arrow_frame(s=pa.array(["text over twelve bytes"] * 99, pa.large_string()))
    polars, receipt = to_polars_zero_copy(frame, receipt=True)
    receipt.restore(polars)
    assert receipt.report.bytes_copied == 0


@pytest.mark.parametrize("width", ["decimal32", "decimal64"])
def test_polars_22946_duckdb_17713_small_decimals_keep_their_values(
    width: str, arrow_frame: Callable[..., Any]
) -> None:
    if not hasattr(pa, width):
        pytest.skip("this pyarrow has no 32-bit decimals")
    values = [Decimal("1.00"), Decimal("2.00"), None]
    frame = arrow_frame(c=pa.array(values, getattr(pa, width)(7, 2)))
    assert to_polars_zero_copy(frame)["c"].to_list() == values


def test_polars_25156_views_reach_pandas_without_a_crash(
    run_python: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(
        "import polars as pl\n"
        "from lazycore.data import from_polars_zero_copy, prove_zero_copy\n"
        "frame = pl.DataFrame({'s': ['a', 'text of more than twelve bytes', None]})\n"
        "back = from_polars_zero_copy(frame, strict=True, strings='view')\n"
        "print(prove_zero_copy(frame, back).ok, back['s'].to_list())"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True ['a', 'text of")


def test_polars_9184_decimals_that_lie_unaligned_are_read_right(
    arrow_frame: Callable[..., Any],
) -> None:
    values = [Decimal(k).scaleb(-2) for k in range(50)]
    whole = pa.array(values, pa.decimal128(20, 2))
    moved = pa.py_buffer(b"\x00" * 8 + whole.buffers()[1].to_pybytes()).slice(8)
    array = pa.Array.from_buffers(whole.type, len(whole), [None, moved])
    frame = arrow_frame(c=array)
    result = to_polars_zero_copy(frame)
    assert result["c"].to_list() == values
    assert prove_zero_copy(frame, result).columns["c"].values_checked


@pytest.mark.parametrize("offset", ["+05:30", "-08:00", "+00:00"])
def test_polars_12893_fixed_offsets_are_refused_and_utc_keeps_the_instants(
    offset: str, arrow_frame: Callable[..., Any]
) -> None:
    array = pa.array([0, 10**15], pa.timestamp("us", offset))
    with pytest.raises(UnsupportedArrowTypeError, match="UTC"):
        to_polars_zero_copy(arrow_frame(c=array))
    utc = to_polars_zero_copy(arrow_frame(c=array.cast(pa.timestamp("us", "UTC"))))
    assert utc["c"].dt.timestamp("us").to_list() == [0, 10**15]


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int64"])
def test_polars_12582_pandas_58913_writing_pandas_leaves_polars_alone(
    dtype: str,
) -> None:
    frame = pd.DataFrame({"a": pd.array([1, 0, 1], dtype=dtype)})
    result = to_polars_zero_copy(frame)
    before = result["a"].to_list()
    frame.loc[0, "a"] = 0
    frame.iloc[2, 0] = 0
    assert result["a"].to_list() == before


def test_polars_16025_no_column_vanishes_among_zero_and_text_zero() -> None:
    frame = pd.DataFrame([[1, 2]])
    frame.columns = pd.Index([0, "0"], dtype=object)
    with pytest.raises(LossyConversionError, match="rename one"):
        to_polars_zero_copy(frame)


def test_polars_15938_an_index_under_a_taken_name_is_refused_not_ignored(
    arrow_frame: Callable[..., Any],
) -> None:
    frame = arrow_frame(key=pa.array([1, 2])).set_axis(pd.Index([7, 8], name="key"))
    with pytest.raises(LossyConversionError, match="'key'"):
        to_polars_zero_copy(frame, index="columns")


def test_polars_18130_every_level_of_an_index_becomes_a_column(
    arrow_frame: Callable[..., Any],
) -> None:
    index = pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["a", "b"])
    frame = arrow_frame(v=pa.array([0.5, 1.5])).set_axis(index)
    result = to_polars_zero_copy(frame, index="columns")
    assert result.rows() == [("x", 1, 0.5), ("y", 2, 1.5)]


@pytest.mark.parametrize("width", ["uint8", "uint16", "uint32"])
def test_polars_2445_arrow_47022_unsigned_codes_reach_pandas_usable(
    width: str,
) -> None:
    codes = pa.array([1, None, 0], getattr(pa, width)())
    table = pa.table({"c": pa.DictionaryArray.from_arrays(codes, ["b", "a"])})
    back = pandas_from_arrow(table)["c"]
    assert repr(back)
    assert back.isna().tolist() == [False, True, False]
    assert back.dropna().tolist() == ["a", "b"]


@pytest.mark.parametrize("kind", ["string", "large_string"])
def test_polars_5497_15589_a_string_comes_back_as_the_string_it_was(
    kind: str, arrow_frame: Callable[..., Any]
) -> None:
    frame = arrow_frame(s=pa.array(["a", None], getattr(pa, kind)()))
    polars, receipt = to_polars_zero_copy(frame, receipt=True)
    assert receipt.restore(polars).dtypes.equals(frame.dtypes)


def test_polars_7577_pandas_is_converted_by_eight_threads_at_once() -> None:
    frame = pd.DataFrame({"n": range(500), "s": ["text"] * 500, "f": [0.5] * 500})
    wanted = to_polars_zero_copy(frame)
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(to_polars_zero_copy, frame) for _ in range(80)]
        assert all(job.result(60).equals(wanted) for job in jobs)


def test_polars_14519_25221_a_read_only_array_is_named_before_a_write() -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    array = pl.Series([1.0, 2.0]).to_numpy(allow_copy=False)
    if array.flags.writeable:
        assert check_dlpack(array) is array
    else:
        with pytest.raises(HandoffError, match="read-only"):
            check_dlpack(array)


def test_pandas_60068_views_become_usable_text_or_stay_views_as_asked() -> None:
    table = pa.table({"s": pa.array(["b", None, "a"], pa.string_view())})
    assert pandas_from_arrow(table)["s"].sort_values().tolist()[:2] == ["a", "b"]
    kept = pandas_from_arrow(table, strings="view")
    assert prove_zero_copy(table, kept).ok


@pytest.mark.parametrize("kind", ["binary_view", "list", "struct"])
def test_pandas_60068_views_of_bytes_and_inside_columns_become_usable(
    kind: str,
) -> None:
    views = pa.array(["b", None, "a"], pa.string_view())
    arrays = {
        "binary_view": pa.array([b"b", None, b"a"], pa.binary_view()),
        "list": pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), views),
        "struct": pa.StructArray.from_arrays([views], ["x"]),
    }
    table = pa.table({"c": arrays[kind]})
    try:
        back = pandas_from_arrow(table)["c"]
    except UnsupportedArrowTypeError as error:
        assert "upgrade pyarrow" in str(error)  # noqa: PT017 - one of two outcomes
        return
    assert "_view" not in str(back.dtype)
    assert repr(back)
    assert back.array.__arrow_array__().to_pylist() == arrays[kind].to_pylist()


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.array(["a", "b", None]).dictionary_encode(),
        lambda: pa.array([[1, 2], None, []]),
        lambda: pa.array([{"a": 1}, {"a": None}]),
        lambda: pa.array([[{"a": "x"}], None]),
    ],
    ids=["58207 dictionary", "60927 list", "60927 struct", "60927 list of structs"],
)
def test_pandas_58207_57395_60927_arrow_types_survive_table_and_back(
    make: Any, arrow_frame: Callable[..., Any]
) -> None:
    frame = arrow_frame(c=make())
    back = pandas_from_arrow(to_arrow_table(frame))
    assert back.dtypes.equals(frame.dtypes)
    assert prove_zero_copy(frame, back).ok
    assert back["c"].array.__arrow_array__().equals(frame["c"].array.__arrow_array__())


def test_pandas_50074_pandas_own_strings_come_back_as_they_were() -> None:
    frame = pd.DataFrame({"s": pd.array(["a", None], dtype="string[pyarrow]")})
    polars, receipt = to_polars_zero_copy(frame, receipt=True)
    pd.testing.assert_frame_equal(receipt.restore(polars), frame)


def test_arrow_35802_strict_is_zero_copy_only_with_arrow_types() -> None:
    frame = pl.DataFrame({"n": [1, None], "t": ["a text", None]})
    shared = from_polars_zero_copy(frame.select("n"), strict=True)
    assert str(shared.dtypes["n"]) == "int64[pyarrow]"
    with pytest.raises(ZeroCopyError, match="'t'"):
        from_polars_zero_copy(frame, strict=True)


def test_arrow_39313_44046_pandas_59057_first_imports_take_turns(
    run_python: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(
        "import sys, threading, time\n"
        "from lazycore.data._libraries import library\n"
        "inside, most = [0], [0]\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('pyarrow', 'numpy', 'pandas', 'polars'):\n"
        "            inside[0] += 1; most[0] = max(most[0], inside[0])\n"
        "            time.sleep(0.05); inside[0] -= 1\n"
        "sys.meta_path.insert(0, Slow())\n"
        "import numpy\n"  # pandas imports it too, inside its own turn
        "start = threading.Barrier(2)\n"
        "def go(name):\n"
        "    start.wait(); library(name)\n"
        "ts = [threading.Thread(target=go, args=[n]) for n in ('pyarrow', 'polars')]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "print(most[0])"
    )
    assert done.stdout.strip() == "1", done.stderr


def test_ray_63017_a_table_becomes_pandas_without_leaving_arrow() -> None:
    table = pa.table({"i": [1, None], "b": [True, None], "t": ["x", None]})
    frame = pandas_from_arrow(table)
    assert is_arrow_backed_pandas(frame)
    assert prove_zero_copy(table, frame).ok

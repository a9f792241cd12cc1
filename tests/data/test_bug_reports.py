"""What users of other routes reported, and what happens here instead."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.data import (
    UnsupportedArrowTypeError,
    from_polars_zero_copy,
    prove_zero_copy,
    to_arrow_table,
    to_polars_zero_copy,
)

if TYPE_CHECKING:
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

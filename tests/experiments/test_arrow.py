"""Rows leave as Arrow, and lazycore.data carries them to pandas and Polars."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import ExternalDependencyError, ResultRow
from lazycore.experiments._arrow import (
    _TYPES,
    to_arrow,
    to_pandas,
    to_polars,
    write_parquet,
)
from lazycore.experiments._export import export_rows

if TYPE_CHECKING:
    from pathlib import Path


def row(value: float | None) -> ResultRow:
    return ResultRow(
        cell="0" * 64,
        benchmark="b",
        unit="u",
        seed=1,
        arm="no_op",
        metric="score",
        value=value,
        status="failed" if value is None else "succeeded",
        failure_class="crash" if value is None else None,
        attempt=1,
        wall_s=0.5,
        cpu_s=None,
        max_rss_bytes=None,
        request_digest="1" * 64,
        response_digest=None,
    )


ROWS = [row(0.5), row(None)]


def test_a_table_has_one_column_per_field_and_keeps_nulls(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = to_arrow(ROWS)
    assert table.column_names == list(ResultRow.__slots__)
    assert table.column("value").to_pylist() == [0.5, None]
    assert table.column("max_rss_bytes").to_pylist() == [None, None]
    assert str(table.schema.field("seed").type) == "int64"
    write_parquet(ROWS, tmp_path / "r.parquet")
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "r.parquet").equals(table)
    assert [path.name for path in tmp_path.iterdir()] == ["r.parquet"]


def test_no_rows_are_a_table_too() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert to_arrow([]).num_rows == 0


def test_exported_parquet_opens_on_the_tables_own_buffers(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    from lazycore.data import pandas_from_arrow, prove_zero_copy, to_polars_zero_copy

    export_rows(ROWS, tmp_path / "rows.parquet")
    table = pq.read_table(tmp_path / "rows.parquet")
    pytest.importorskip("pandas", reason="pandas is not installed")
    assert prove_zero_copy(table, pandas_from_arrow(table)).ok
    pytest.importorskip("polars", reason="polars is not installed")
    report = prove_zero_copy(table, to_polars_zero_copy(table))
    # Polars keeps text as views of 16 bytes, which it makes; the text is shared.
    texts = [name for name in table.column_names if name not in _TYPES]
    assert report.bytes_copied == 16 * len(ROWS) * len(texts)
    copied = {name for name, column in report.columns.items() if column.copied}
    assert copied == set(texts)


def test_a_record_hands_out_frames_on_arrow_buffers() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pandas", reason="pandas is not installed")
    from lazycore.data import is_arrow_backed_pandas

    frame = to_pandas(ROWS)
    assert is_arrow_backed_pandas(frame)
    assert frame["value"].tolist()[0] == 0.5
    pytest.importorskip("polars", reason="polars is not installed")
    assert to_polars(ROWS)["value"].to_list() == [0.5, None]


def test_without_pyarrow_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ExternalDependencyError, match=r"lazycore-experiments\[report\]"
    ):
        to_arrow(ROWS)

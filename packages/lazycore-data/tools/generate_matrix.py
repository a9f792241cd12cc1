"""Write what every Arrow type costs between pandas and Polars on this stack.

    python packages/lazycore-data/tools/generate_matrix.py > matrix.md

Run it once in an environment of each stack; the tables in docs/data/matrix.md are
its output.
"""

from __future__ import annotations

import decimal
import sys
import warnings
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lazycore.data import (
    DataTierError,
    from_polars_zero_copy,
    prove_zero_copy,
    to_polars_zero_copy,
)

ROWS = 1000


def nested(text: list[str]) -> dict[str, Any]:
    """Return one array per nested type."""
    numbers = list(range(ROWS))
    found: dict[str, Any] = {}
    pairs = [[k, k] for k in numbers]
    found["list<int64>"] = pa.array(pairs)
    found["large_list<int64>"] = pa.array(pairs, pa.large_list(pa.int64()))
    found["fixed_size_list<int64>[2]"] = pa.array(pairs, pa.list_(pa.int64(), 2))
    found["list_view<int64>"] = pa.array(pairs[:2], pa.list_view(pa.int64()))
    found["struct<int64, float64>"] = pa.array([{"a": k, "b": k / 2} for k in numbers])
    found["struct<int64, string>"] = pa.array(
        [{"a": k, "b": t} for k, t in zip(numbers, text, strict=True)]
    )
    found["map<string, int64>"] = pa.array(
        [[(t, 1)] for t in text], pa.map_(pa.string(), pa.int64())
    )
    words = pa.array(text).dictionary_encode()
    ends = pa.array(range(ROWS + 1), pa.int32())
    found["list<dictionary>"] = pa.ListArray.from_arrays(ends, words)
    found["struct<dictionary>"] = pa.StructArray.from_arrays([words], ["a"])
    found["list<map<string, int64>>"] = pa.ListArray.from_arrays(
        ends, found["map<string, int64>"]
    )
    found["map<string, dictionary>"] = pa.MapArray.from_arrays(
        ends, pa.array(text), words
    )
    instants = pa.array([k % 100 for k in numbers], pa.timestamp("us"))
    for name, inner in {"dictionary": words, "timestamp[us]": instants}.items():
        found[f"fixed_size_list<{name}>[1]"] = pa.FixedSizeListArray.from_arrays(
            inner, 1
        )
    return found


def cases() -> dict[str, Any]:
    """Return one array per Arrow type that this pyarrow has."""
    numbers = list(range(ROWS))
    small = [k % 100 for k in numbers]
    text = [f"value number {k % 100}" for k in numbers]
    cents = [decimal.Decimal(k).scaleb(-2) for k in small]
    found: dict[str, Any] = {}
    names = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64"
    for name in names.split():
        found[name] = pa.array(small, getattr(pa, name)())
    found["float16"] = pa.array(small, pa.float32()).cast(pa.float16())
    found["int64 with nulls"] = pa.array([k or None for k in small])
    found["bool"] = pa.array([k % 2 == 0 for k in numbers])
    found["bool, offset 3"] = pa.array([k % 2 == 0 for k in [*numbers, 0, 0, 0]])[3:]
    for name in ["string", "large_string", "binary", "large_binary"]:
        found[name] = pa.array(text).cast(getattr(pa, name)())
    found["string, 12 bytes or less"] = pa.array([f"s{k}" for k in small])
    found["string_view"] = pa.array(text, pa.string_view())
    found["fixed_size_binary[16]"] = pa.array(
        [b"0123456789abcdef"] * ROWS, pa.binary(16)
    )
    found["dictionary<int32, string>"] = pa.array(text).dictionary_encode()
    codes = pa.array([k % 2 for k in numbers], pa.int32())
    found["dictionary, ordered"] = pa.DictionaryArray.from_arrays(
        codes, pa.array(["b", "a"]), ordered=True
    )
    found["dictionary<int32, int64>"] = pa.DictionaryArray.from_arrays(
        codes, pa.array([7, 8])
    )
    found["date32"] = pa.array(small, pa.int32()).cast(pa.date32())
    found["date64"] = pa.array([k * 86_400_000 for k in small]).cast(pa.date64())
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        found[str(kind)] = pa.array(small, kind)
    for unit in ("s", "ms", "us", "ns"):
        found[f"timestamp[{unit}]"] = pa.array(small, pa.timestamp(unit))
        found[f"duration[{unit}]"] = pa.array(small, pa.duration(unit))
    for zone in ("UTC", "Europe/Berlin", "+05:30"):
        found[f"timestamp[us, {zone}]"] = pa.array(small, pa.timestamp("us", zone))
    widths = {"decimal32": 7, "decimal64": 15, "decimal128": 20, "decimal256": 50}
    for name, digits in widths.items():
        if hasattr(pa, name):
            found[name] = pa.array(cents, getattr(pa, name)(digits, 2))
    found |= nested(text)
    found["null"] = pa.nulls(ROWS)
    found["run_end_encoded"] = pc.run_end_encode(pa.array(small))
    found["month_day_nano_interval"] = pa.array(
        [(1, 2, 3)] * 3, pa.month_day_nano_interval()
    )
    quarter = ROWS // 4
    number, lines = pa.array(numbers), pa.array(text).cast(pa.large_string())
    for name, array in {
        "int64, 4 chunks": number,
        "large_string, 4 chunks": lines,
    }.items():
        found[name] = pa.chunked_array(
            [array.slice(k * quarter, quarter) for k in range(4)]
        )
    return found


def cell(make: Any) -> str:
    """Return one verdict, or the refusal."""
    try:
        report = make()
    except DataTierError as error:
        return "refused: " + str(error).partition(": ")[2].partition(";")[0][:60]
    except (NotImplementedError, TypeError, pa.ArrowException) as error:
        return f"pandas: {type(error).__name__}"
    column = next(iter(report.columns.values()))
    rows = ROWS
    text = str(column.verdict)
    if column.copied:
        text += f", +{column.copied / rows:.3g} B/row"
    if column.changed:
        text += f", {column.changed}"
    return text + (", unproven" if column.unproven else "")


def main() -> None:
    """Print the matrix of the running stack."""
    warnings.simplefilter("ignore")
    out = sys.stdout.write
    out(f"## pandas {pd.__version__}, Polars {pl.__version__}, ")
    out(f"pyarrow {pa.__version__}\n\n")
    out('| Arrow type | pandas to Polars | back, `strings="large"` | by receipt |\n')
    out("|---|---|---|---|\n")
    for name, array in cases().items():
        chunked = (
            array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
        )
        values = pd.arrays.ArrowExtensionArray(chunked)
        frame = pd.DataFrame({"c": pd.Series(values, copy=False)}, copy=False)

        def forward(frame: Any = frame) -> Any:
            return prove_zero_copy(frame, to_polars_zero_copy(frame))

        def back(frame: Any = frame) -> Any:
            polars = to_polars_zero_copy(frame)
            return prove_zero_copy(polars, from_polars_zero_copy(polars))

        def again(frame: Any = frame) -> Any:
            polars, receipt = to_polars_zero_copy(frame, receipt=True)
            receipt.restore(polars)
            return receipt.report

        out(f"| {name} | {cell(forward)} | {cell(back)} | {cell(again)} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

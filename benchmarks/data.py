"""Frames between pandas and Polars: ours beside the raw and the stock routes.

    python benchmarks/data.py [--rows 10000000] [--json]

Best of interleaved rounds. Numbers: two columns of numbers (int64, float64).
Mixed: eight columns, text and categories among them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

try:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
except ImportError as error:
    print(f"nothing measured: {error.name} is not installed")
    sys.exit()

from lazycore.data import (
    from_polars_zero_copy,
    prove_zero_copy,
    to_polars_zero_copy,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def numbers(rows: int) -> Any:
    """Return a table of two number columns."""
    base = pa.array(range(1000), pa.int64())
    column = pa.concat_arrays([base] * (rows // 1000))
    return pa.table({"i": column, "f": column.cast(pa.float64())})


def mixed(rows: int) -> Any:
    """Return a table of eight columns."""
    table = numbers(rows)
    text = pa.array([f"value number {k:06d}" for k in range(1000)], pa.large_string())
    long = pa.concat_arrays([text] * (rows // 1000))
    words = pa.array([str(k % 50) for k in range(1000)]).dictionary_encode()
    codes = pa.concat_arrays([words] * (rows // 1000))
    whole = table["i"].combine_chunks()
    extra = {
        "t": whole.cast(pa.timestamp("us", "UTC")),
        "day": pa.array([0] * 1000, pa.date64()),
        "s": long,
        "s2": long,
        "c": codes,
        "flag": pa.compute.greater(whole, 500),
    }
    extra["day"] = pa.concat_arrays([extra["day"]] * (rows // 1000))
    for name, array in extra.items():
        table = table.append_column(name, array)
    return table


def as_pandas(table: Any) -> Any:
    """Return a table as pandas over the same chunks."""
    values = {
        name: pd.Series(pd.arrays.ArrowExtensionArray(column), copy=False)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pd.DataFrame(values, copy=False)


def best(routes: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the best milliseconds per route, rounds interleaved."""
    found = dict.fromkeys(routes, float("inf"))
    for _ in range(rounds):
        for name, route in routes.items():
            began = time.perf_counter()
            result = route()
            found[name] = min(found[name], (time.perf_counter() - began) * 1e3)
            del result
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import pyarrow.compute  # noqa: F401 - pa.compute is used above

    plain, frame = as_pandas(numbers(options.rows)), as_pandas(mixed(options.rows))
    table = pa.table({n: plain[n].array.__arrow_array__() for n in plain.columns})
    polars, receipt = to_polars_zero_copy(frame, receipt=True)
    receipt.restore(polars)
    measured = {
        "to Polars, numbers": best(
            {
                "raw: table -> pl.from_arrow": lambda: pl.from_arrow(
                    table, rechunk=False
                ),
                "ours": lambda: to_polars_zero_copy(plain),
                "ours, strict": lambda: to_polars_zero_copy(plain, strict=True),
                "pl.from_pandas": lambda: pl.from_pandas(plain),
            },
            options.rounds * 3,
        ),
        "to Polars, mixed": best(
            {
                "ours": lambda: to_polars_zero_copy(frame, receipt=True),
                "pl.from_pandas": lambda: pl.from_pandas(frame, rechunk=False),
            },
            options.rounds,
        ),
        "back to pandas, mixed": best(
            {
                "ours, by receipt": lambda: receipt.restore(polars),
                "ours, views": lambda: from_polars_zero_copy(polars, strings="view"),
                "ours, large strings": lambda: from_polars_zero_copy(polars),
                "stock to_pandas": lambda: pl.from_arrow(
                    polars.to_arrow(), rechunk=False
                ).to_pandas(use_pyarrow_extension_array=True),
            },
            max(3, options.rounds // 2),
        ),
        "proof, mixed": best({"ours": lambda: prove_zero_copy(frame, polars)}, 3),
    }
    if options.json:
        print(json.dumps(measured))
        return
    print(f"pandas {pd.__version__}, Polars {pl.__version__}, pyarrow {pa.__version__}")
    for title, routes in measured.items():
        print(f"\n{title}, {options.rows:.0e} rows: x of ours | best ms")
        ours = next(ms for name, ms in routes.items() if name.startswith("ours"))
        for name, ms in sorted(routes.items(), key=lambda item: item[1]):
            print(f"  {ms / ours:8.2f}x {ms:10.3f}  {name}")


if __name__ == "__main__":
    main()

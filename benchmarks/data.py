"""Frames between pandas and Polars: ours beside the raw and the stock routes.

    python benchmarks/data.py [--rows 10000000] [--json]

Best of interleaved rounds, and peak memory above the inputs. Numbers: two columns
of numbers (int64, float64). Mixed: eight columns, text and categories among them.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
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


def status(key: str) -> int:
    """Return a line of this process's status in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0


def peak(route: Callable[[], Any]) -> float:
    """Return the megabytes that a call takes above what is held already."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS")
    result = route()
    found = (status("VmHWM") - before) / 1e6
    del result
    return found


def peers_there(frame: Any) -> dict[str, Callable[[], Any]]:
    """Return the other libraries' ways to Polars that are installed."""
    found: dict[str, Callable[[], Any]] = {
        "pl.from_pandas": lambda: pl.from_pandas(frame),
        "PyCapsule: pl.DataFrame(stream)": lambda: pl.DataFrame(
            pa.RecordBatchReader.from_stream(frame)
        ),
    }
    try:
        narwhals = import_module("narwhals")
        found["narwhals"] = lambda: narwhals.from_native(frame).to_polars()
    except ImportError:
        pass
    try:
        duckdb = import_module("duckdb")
        found["duckdb"] = lambda: duckdb.from_df(frame).pl()
    except ImportError:
        pass
    return found


def peers_back(frame: Any) -> dict[str, Callable[[], Any]]:
    """Return the other libraries' ways to pandas that are installed."""
    found: dict[str, Callable[[], Any]] = {
        "to_arrow then types_mapper": lambda: frame.to_arrow().to_pandas(
            types_mapper=pd.ArrowDtype
        ),
        "stock to_pandas": lambda: pl.DataFrame(frame.get_columns()).to_pandas(
            use_pyarrow_extension_array=True
        ),
    }
    try:
        narwhals = import_module("narwhals")
        found["narwhals (to NumPy)"] = lambda: narwhals.from_native(frame).to_pandas()
    except ImportError:
        pass
    return found


def peak_alone(rows: int, title: str, name: str) -> float:
    """Return a route's peak in a process that has run nothing else before.

    Elsewhere the pools of pyarrow and Polars would hold what earlier routes freed.
    """
    command = [sys.executable, __file__, "--rows", str(rows), "--peak", title, name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def best(routes: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the best milliseconds per route, rounds interleaved."""
    found = dict.fromkeys(routes, float("inf"))
    order = list(routes.items())
    for turn in range(rounds):
        # Each is first in turn: what one frees, the next need not ask the kernel for.
        at = turn % len(order)
        for name, route in order[at:] + order[:at]:
            began = time.perf_counter()
            result = route()
            found[name] = min(found[name], (time.perf_counter() - began) * 1e3)
            del result
    return found


def routes_of(rows: int) -> dict[str, dict[str, Callable[[], Any]]]:
    """Return every route by title; conversions are made once to warm imports up."""
    plain, frame = as_pandas(numbers(rows)), as_pandas(mixed(rows))
    table = pa.table({n: plain[n].array.__arrow_array__() for n in plain.columns})
    few = frame.head(10)
    polars, receipt = to_polars_zero_copy(frame, receipt=True)
    for route in (*peers_there(few).values(), *peers_back(polars.head(10)).values()):
        route()
    prove_zero_copy(few, to_polars_zero_copy(few))
    return {
        "to Polars, numbers": {
            "ours": lambda: to_polars_zero_copy(plain),
            "ours, strict": lambda: to_polars_zero_copy(plain, strict=True),
            "raw: table -> pl.from_arrow": lambda: pl.from_arrow(table, rechunk=False),
            **peers_there(plain),
        },
        "to Polars, mixed": {
            "ours, with a receipt": lambda: to_polars_zero_copy(frame, receipt=True),
            **peers_there(frame),
        },
        "back to pandas, mixed": {
            "ours, by receipt": lambda: receipt.restore(polars),
            "ours, views": lambda: from_polars_zero_copy(polars, strings="view"),
            "ours, large strings": lambda: from_polars_zero_copy(polars),
            **peers_back(polars),
        },
        "proof, mixed": {"ours": lambda: prove_zero_copy(frame, polars)},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import pyarrow.compute  # noqa: F401 - pa.compute is used above

    routes = routes_of(options.rows)
    if options.peak:
        title, name = options.peak
        print(peak(routes[title][name]))
        return
    measured = {
        title: {
            name: (ms, peak_alone(options.rows, title, name))
            for name, ms in best(group, options.rounds).items()
        }
        for title, group in routes.items()
    }
    if options.json:
        print(json.dumps(measured))
        return
    print(f"pandas {pd.__version__}, Polars {pl.__version__}, pyarrow {pa.__version__}")
    for title, group in measured.items():
        print(f"\n{title}, {options.rows:.0e} rows: x of ours | best ms | peak MB")
        ours = next(ms for name, (ms, _) in group.items() if name.startswith("ours"))
        for name, (ms, size) in sorted(group.items(), key=lambda item: item[1]):
            print(f"  {ms / ours:8.2f}x {ms:10.3f} {size:8.1f}  {name}")


if __name__ == "__main__":
    main()

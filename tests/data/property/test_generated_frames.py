"""Generated frames: the proof is right, values agree, sources stay as they were."""

from __future__ import annotations

import itertools
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.data import (
    LossyConversionError,
    explain,
    prove_zero_copy,
    to_polars_zero_copy,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

pd: Any = pytest.importorskip("pandas", reason="pandas is not installed")
pl: Any = pytest.importorskip("polars", reason="polars is not installed")
pa: Any = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

SCALARS: dict[str, tuple[Any, Callable[[random.Random], Any]]] = {
    "int8": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "int64": (pa.int64(), lambda r: r.randrange(-(2**63), 2**63)),
    "uint32": (pa.uint32(), lambda r: r.randrange(2**32)),
    "float64": (pa.float64(), lambda r: r.choice([0.5, float("inf"), -0.0, 1e300])),
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "string": (pa.string(), lambda r: "x" * r.randrange(30)),
    "large_string": (pa.large_string(), lambda r: "é" * r.randrange(20)),
    "string_view": (pa.string_view(), lambda r: "v" * r.randrange(30)),
    "binary": (pa.binary(), lambda r: b"\x00\xff" * r.randrange(9)),
    "date32": (pa.date32(), lambda r: r.randrange(20_000)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda r: r.randrange(2**50)),
    "duration": (pa.duration("ns"), lambda r: r.randrange(2**50)),
    "time32": (pa.time32("ms"), lambda r: r.randrange(86_400_000)),
}


def make_array(rng: random.Random, kind: str, rows: int, nulls: float) -> Any:
    arrow, draw = SCALARS[kind]
    return pa.array(
        [None if rng.random() < nulls else draw(rng) for _ in range(rows)], arrow
    )


# Shapes whose nulls some release of Polars turns into something else, and the words
# of the refusal there.
REFUSALS = {
    "null struct": "null structs",
    "null fixed": "null fixed lists",
    "null map": "null maps",
    "null category": "a null among categories",
}


def make_with_nulls(rng: random.Random, shape: str, rows: int) -> Any:
    def some(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    if shape == "null struct":
        kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
        return pa.array(
            [some({"a": some(k), "b": some("x")}) for k in range(rows)], kind
        )
    if shape == "null fixed":
        kind = pa.list_(pa.int64(), 2)
        return pa.array([some([k, some(k)]) for k in range(rows)], kind)
    if shape == "null map":
        kind = pa.map_(pa.string(), pa.int64())
        return pa.array([some([("key", some(k))]) for k in range(rows)], kind)
    codes = pa.array([some(rng.randrange(3)) for _ in range(rows)], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(["a", None, "b"]))


def make_nested(rng: random.Random, rows: int) -> Any:
    inner = make_array(rng, rng.choice(["int64", "float64", "bool"]), rows * 2, 0.1)
    shape = rng.choice(
        ["list", "large_list", "fixed", "struct", "dictionary", *REFUSALS]
    )
    if shape in REFUSALS:
        return make_with_nulls(rng, shape, rows)
    if shape == "struct":
        return pa.StructArray.from_arrays(
            [inner.slice(0, rows), make_array(rng, "string", rows, 0.1)], ["a", "b"]
        )
    if shape == "dictionary":
        return pa.array(
            [rng.choice(["a", "b", None]) for _ in range(rows)]
        ).dictionary_encode()
    if shape == "fixed":
        return pa.FixedSizeListArray.from_arrays(inner, 2)
    offsets = [2 * k for k in range(rows + 1)]
    if shape == "list":
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner)
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), inner)


def make_column(rng: random.Random, rows: int) -> Any:
    lead = rng.choice([0, 0, 1, 3, 9])
    nulls = rng.choice([0.0, 0.0, 0.2, 1.0])
    if rng.random() < 0.3:
        array = make_nested(rng, rows + lead)
    else:
        array = make_array(rng, rng.choice(sorted(SCALARS)), rows + lead, nulls)
    array = array.slice(lead)
    cuts = sorted(rng.randrange(rows + 1) for _ in range(rng.choice([0, 0, 1, 3])))
    edges = [0, *cuts, rows]
    parts = [array.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    return pa.chunked_array(parts, type=array.type)


def make_frame(rng: random.Random, arrow_frame: Callable[..., Any]) -> Any:
    rows = rng.choice([0, 1, 7, 64, 300])
    count = rng.randrange(1, 5)
    return arrow_frame(**{f"c{k}": make_column(rng, rows) for k in range(count)})


def addresses(frame: Any) -> list[list[tuple[int, ...]]]:
    return [
        [
            (
                len(chunk),
                chunk.offset,
                *(b.address if b else 0 for b in chunk.buffers()),
            )
            for chunk in frame[name].array.__arrow_array__().chunks
        ]
        for name in frame.columns
    ]


def texts(values: Any) -> str:
    return repr(values)


def whole(source: Any) -> Any:
    """Copy a column into one array that starts at its first row.

    The codes of null categories become null: Polars 1.0 reads such values as "".
    """
    array = pa.concat_arrays(source.chunks)
    if isinstance(array.type, pa.DictionaryType):
        return array.dictionary_decode().dictionary_encode()
    return array


def buffers_outside(source: Any, result: Any) -> int:
    """Count the result's buffers outside the source, by another walk than ours."""

    def leaves(array: Any) -> list[tuple[int, int]]:
        if isinstance(array.type, pa.DictionaryType):
            return leaves(array.indices) + leaves(array.dictionary)
        return [
            (b.address, b.size) for b in array.buffers() if b is not None and b.size
        ]

    spans = [span for chunk in source.chunks for span in leaves(chunk)]
    return sum(
        not any(low <= start < low + size for low, size in spans)
        for chunk in result.chunks
        for start, _ in leaves(chunk)
    )


# What a release is known not to hold; all else must convert.
UNHELD = {"1.0.0": ("null structs",), "1.33.1": ("null maps",)}


def check_refusal(seed: int, message: str) -> None:
    refused = {words for words in REFUSALS.values() if words in message}
    assert refused, (seed, message)
    assert refused <= set(UNHELD.get(pl.__version__, ())), (seed, message)


def check_one(seed: int, arrow_frame: Callable[..., Any]) -> None:
    rng = random.Random(seed)
    frame = make_frame(rng, arrow_frame)
    before = addresses(frame)
    plan = explain(frame)
    try:
        result, receipt = to_polars_zero_copy(frame, receipt=True)
    except LossyConversionError as error:
        check_refusal(seed, str(error))
        return
    report = prove_zero_copy(frame, result)
    for name in frame.columns:
        source = frame[name].array.__arrow_array__()
        column = report.columns[name]
        assert column.values_checked is True, (seed, str(report))
        exported = result.get_column(name).to_frame()  # a selection may rechunk
        level = getattr(pl, "CompatLevel", None)
        seen = (
            exported.to_arrow(compat_level=level.newest())
            if level
            else exported.to_arrow(future=True)
        ).column(0)
        if column.verdict == "zero copy":
            assert buffers_outside(source, seen) == 0, (seed, name)
        if column.copied == 0 and len(frame) > 256:
            # A sliced bitmap may be realigned in the head alone: bits, not bytes.
            assert plan.columns[name].copied * 4 <= len(frame) + 8, (seed, name)
        assert texts(result[name].to_list()) == texts(
            pl.from_arrow(whole(source)).to_list() if len(source) else []
        ), (seed, name)
    assert addresses(frame) == before, seed
    restored = receipt.restore(result)
    for name in frame.columns:
        assert texts(restored[name].array.__arrow_array__().to_pylist()) == texts(
            frame[name].array.__arrow_array__().to_pylist()
        ), (seed, name)
    assert addresses(frame) == before, seed


@pytest.mark.parametrize("block", range(4))
def test_generated_frames_hold_the_promises(
    block: int, arrow_frame: Callable[..., Any]
) -> None:
    for seed in range(block * 10, block * 10 + 10):
        check_one(seed, arrow_frame)


@pytest.mark.slow
def test_fifteen_hundred_generated_frames_hold_the_promises(
    arrow_frame: Callable[..., Any],
) -> None:
    for seed in range(1000, 2500):
        check_one(seed, arrow_frame)


def test_eight_threads_convert_at_once_with_equal_results(
    arrow_frame: Callable[..., Any],
) -> None:
    frame = arrow_frame(i=pa.array(range(1000)), s=pa.array(["text"] * 1000))
    expected = to_polars_zero_copy(frame)
    found: list[Any] = []

    def convert() -> None:
        found.extend(to_polars_zero_copy(frame).equals(expected) for _ in range(20))

    threads = [threading.Thread(target=convert) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 160


def test_threads_may_be_the_first_to_import(
    run_python: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(
        "import threading\n"
        "from lazycore.data._libraries import library\n"
        "found, start = [], threading.Barrier(4)\n"
        "def go():\n"
        "    start.wait()\n"
        "    found.append(library('pyarrow').array([1, 2]).to_pylist())\n"
        "ts = [threading.Thread(target=go) for _ in range(4)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "print(found == [[1, 2]] * 4)"
    )
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.slow
def test_eight_threads_may_be_the_first_to_import(
    run_python: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(
        "import threading, lazycore.data as d\n"
        "from lazycore.data._libraries import library\n"
        "errors, start = [], threading.Barrier(8)\n"
        "def go():\n"
        "    start.wait()\n"
        "    try:\n"
        "        for n in ('polars', 'pandas', 'pyarrow'): library(n)\n"
        "        pd = library('pandas')\n"
        "        v = pd.array([1, 2], dtype='int64[pyarrow]')\n"
        "        frame = pd.DataFrame({'a': v})\n"
        "        assert d.to_polars_zero_copy(frame, strict=True)['a'].sum() == 3\n"
        "    except BaseException as e: errors.append(repr(e))\n"
        "ts = [threading.Thread(target=go) for _ in range(8)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "print(errors)"
    )
    assert done.stdout.strip() == "[]", done.stderr


MEMORY = """
import gc, sys
import pandas as pd, pyarrow as pa, polars as pl
from lazycore.data import to_polars_zero_copy, prove_zero_copy
kind = sys.argv[1] if len(sys.argv) > 1 else KIND
n = ROWS
def column(array):
    values = pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))
    return pd.Series(values, copy=False)
base = pa.array(range(1000), pa.int64())
big = pa.concat_arrays([base] * (n // 1000))
text = pa.concat_arrays([pa.array(["value number %d" % k for k in range(1000)],
                                  pa.large_string())] * (n // 1000))
array = {"int64": lambda: big, "text": lambda: text,
         "bool": lambda: pa.compute.greater(big, 500),
         "float": lambda: big.cast(pa.float64()),
         "timestamp": lambda: big.cast(pa.timestamp("us"))}[kind]()
import pyarrow.compute
frame = pd.DataFrame({"c": column(array)}, copy=False)
to_polars_zero_copy(frame.head(10)); gc.collect()
def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key + ":"): return int(line.split()[1]) * 1024
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
result = to_polars_zero_copy(frame)
grown = status("VmHWM") - before
print(grown, prove_zero_copy(frame, result).bytes_copied)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int64", "bool", "float", "timestamp", "text"])
def test_proof_agrees_with_peak_memory_at_ten_million_rows(
    kind: str, run_python: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    code = MEMORY.replace("KIND", repr(kind)).replace("ROWS", "10_000_000")
    done = run_python(
        code.replace("import pandas", "import pyarrow.compute, pandas", 1)
    )
    assert done.returncode == 0, done.stderr
    grown, copied = map(int, done.stdout.split())
    assert abs(grown - copied) <= 1_500_000, (grown, copied)


@pytest.mark.slow
def test_five_hundred_round_trips_leak_nothing(
    run_python: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(
        "import gc, pandas as pd, polars as pl\n"
        "from lazycore.data import *\n"
        "v = pd.array(list(range(200_000)), dtype='int64[pyarrow]')\n"
        "s = pd.array(['value number x'] * 200_000, dtype='large_string[pyarrow]')\n"
        "frame = pd.DataFrame({'a': v, 's': s})\n"
        "def rss():\n"
        "    gc.collect()\n"
        "    for l in open('/proc/self/status'):\n"
        "        if l.startswith('VmRSS:'): return int(l.split()[1]) / 1024\n"
        "def trip():\n"
        "    p, r = to_polars_zero_copy(frame, receipt=True)\n"
        "    r.restore(p); from_polars_zero_copy(p); prove_zero_copy(frame, p)\n"
        "for _ in range(50): trip()\n"
        "before = rss()\n"
        "for _ in range(500): trip()\n"
        "print(rss() - before)"
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 20

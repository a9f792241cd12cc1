"""Move a frame from pandas to Polars and back, and see what each step cost."""

from __future__ import annotations

import pandas as pd

from lazycore.data import explain, prove_zero_copy, to_polars_zero_copy

frame = pd.DataFrame(
    {
        "n": pd.array(range(1000), dtype="int64[pyarrow]"),
        "price": pd.array([k / 4 for k in range(1000)], dtype="double[pyarrow]"),
        "text": pd.array(
            [f"the text of row {k}" for k in range(1000)],
            dtype="large_string[pyarrow]",
        ),
    }
)
print("before:", explain(frame), sep="\n")
polars, receipt = to_polars_zero_copy(frame, receipt=True)
print("after:", prove_zero_copy(frame, polars), sep="\n")
restored = receipt.restore(polars.slice(10, 100))
print("back by receipt:", receipt.report, sep="\n")
assert restored.equals(frame.iloc[10:110])

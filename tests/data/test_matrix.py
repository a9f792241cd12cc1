"""The published matrix is what the code does on the stack that is installed."""

from __future__ import annotations

import importlib.util
import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

pd: Any = pytest.importorskip("pandas", reason="pandas is not installed")
pl: Any = pytest.importorskip("polars", reason="polars is not installed")
pa: Any = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "data" / "matrix.md"
SCRIPT = ROOT / "packages" / "lazycore-data" / "tools" / "generate_matrix.py"


def rows_of(text: str, heading: str) -> dict[str, str]:
    """Return the rows under a heading by their first cell."""
    section = text.partition(heading)[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0]: line for line in lines}


def test_every_row_of_the_page_is_what_this_stack_does() -> None:
    if not PAGE.is_file() or not SCRIPT.is_file():
        pytest.skip("the documentation does not lie beside these tests")
    heading = f"## pandas {pd.__version__}, Polars {pl.__version__}, "
    heading += f"pyarrow {pa.__version__}\n"
    page = PAGE.read_text(encoding="utf-8")
    if heading not in page:
        pytest.skip("the published page has no table of the installed stack")
    spec = importlib.util.spec_from_file_location("generate_matrix", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    out = io.StringIO()
    with redirect_stdout(out):
        script.main()
    assert out.getvalue().startswith(heading)
    assert rows_of(out.getvalue(), heading) == rows_of(page, heading)

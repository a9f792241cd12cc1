"""Frames, pipelines and interpreters that the data tests share."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.data import DenseMediaPipeline, item_random

if TYPE_CHECKING:
    from collections.abc import Callable


class Tensor:
    """The smallest array that speaks DLPack's protocol; values stay readable."""

    def __init__(self, values: bytes) -> None:
        self.values = values

    def __dlpack__(self, **_: Any) -> object:
        raise BufferError("nobody consumes it in these tests")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Shaken(DenseMediaPipeline[bytes]):
    """Adds per-item randomness; refuses items that start with a byte of 255."""

    def decode(self, raw: bytes) -> bytes:
        if raw.startswith(b"\xff"):
            raise ValueError(f"damaged: {raw!r}")
        return raw

    def augment(self, decoded: bytes) -> bytes:
        shake = item_random().randrange(256)
        return bytes((value + shake) % 256 for value in decoded)

    def to_dense_tensor(self, augmented: bytes) -> Any:
        return Tensor(augmented)


@pytest.fixture
def tensor_type() -> type[Tensor]:
    return Tensor


@pytest.fixture
def shaken() -> Shaken:
    return Shaken()


@pytest.fixture
def run_python() -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run code in a fresh interpreter, so that a crash ends only that one."""

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def arrow_frame() -> Callable[..., Any]:
    """Make a pandas frame over the given Arrow arrays, without a copy."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("polars", reason="polars is not installed")

    def make(**columns: Any) -> Any:
        series = {}
        for name, array in columns.items():
            chunked = array if hasattr(array, "chunks") else pa.chunked_array([array])
            values = pd.arrays.ArrowExtensionArray(chunked)
            series[name] = pd.Series(values, copy=False)
        return pd.DataFrame(series, copy=False)

    return make

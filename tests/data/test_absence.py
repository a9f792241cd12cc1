"""Importing costs nothing, and an absent library is named with its remedy."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lazycore import data
from lazycore.data import _libraries

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

LIBRARIES = ("numpy", "pandas", "polars", "pyarrow", "scipy", "torch")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make libraries impossible to import, as Python itself does it."""

    def hide(*names: str) -> None:
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
            monkeypatch.delitem(_libraries._loaded, name, raising=False)

    return hide


def test_import_adds_at_most_five_modules_and_no_library(
    run_python: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(
        "import sys, json; before = set(sys.modules); import lazycore.data\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    added = json.loads(done.stdout)
    assert len(added) <= 5, added
    assert not set(added) & {*LIBRARIES, "typing"}


def test_every_public_name_resolves_and_is_documented_with_an_example() -> None:
    for name in data.__all__:
        value = getattr(data, name)
        if name == "ArrowBackedFrame":
            continue
        assert value.__doc__, name
        assert "Example:" in value.__doc__, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        data.nothing  # noqa: B018 - the access is under test


def test_type_checkers_see_exactly_the_lazy_names() -> None:
    import ast
    from pathlib import Path

    assert data.__file__ is not None
    tree = ast.parse(Path(data.__file__).read_text(encoding="utf-8"))
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in guard.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {n: f"lazycore.data.{home}" for n, home in data._HOMES.items()}
    assert seen == homes
    assert sorted(data.__all__) == sorted(homes)


@pytest.mark.parametrize(
    ("hidden", "call", "hint"),
    [
        ("polars", lambda: data.to_polars_zero_copy(1), r"lazycore-data\[polars\]"),
        ("pandas", lambda: data.from_polars_zero_copy(1), r"lazycore-data\[pandas\]"),
        ("pandas", lambda: data.is_arrow_backed_pandas(1), r"pandas>=2\.2\.2"),
        ("pandas", lambda: data.pandas_arrow_dtypes(1), r"pandas>=2\.2\.2"),
        ("pyarrow", lambda: data.prove_zero_copy(1, 1), r"lazycore-data\[arrow\]"),
        ("pyarrow", lambda: data.explain(1), r"pyarrow>=16"),
        ("pyarrow", lambda: data.to_arrow_table(1), r"pyarrow>=16"),
        ("pyarrow", lambda: data.pandas_from_arrow(1), r"pyarrow>=16"),
        (
            "numpy",
            lambda: data.ArraySparseAdapter.from_coo([], [], shape=(0, 0)),
            r"lazycore-data\[numpy\]",
        ),
        ("numpy", lambda: data.collate([b"x"]), r"numpy>=1\.26"),
        ("torch", lambda: data.from_torch(1), r"pip install 'torch>="),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_absent_library_is_named_with_extra_and_floor(
    without: Callable[..., None], hidden: str, call: Callable[[], Any], hint: str
) -> None:
    without(hidden)
    with pytest.raises(data.MissingDependencyError, match=hint) as caught:
        call()
    assert isinstance(caught.value, ImportError)
    assert caught.value.name == hidden


def test_a_library_below_its_floor_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import types

    old = types.ModuleType("polars")
    old.__dict__["__version__"] = "0.20.31"
    monkeypatch.setitem(sys.modules, "polars", old)
    monkeypatch.delitem(_libraries._loaded, "polars", raising=False)
    with pytest.raises(data.MissingDependencyError, match=r"0\.20\.31 is too old"):
        data.to_polars_zero_copy(1)


def test_the_frame_alias_works_in_annotations_without_any_library() -> None:
    def describe(frame: data.ArrowBackedFrame | None) -> None:
        del frame

    assert "frame" in describe.__annotations__
    assert data.ArrowBackedFrame | None


def test_errors_are_also_the_builtins_that_callers_expect() -> None:
    expected = {
        data.MissingDependencyError: ImportError,
        data.UnsupportedFrameError: TypeError,
        data.UnsupportedArrowTypeError: TypeError,
        data.ZeroCopyError: TypeError,
        data.LossyConversionError: ValueError,
        data.CopyRequiredError: ValueError,
        data.SparseInvariantError: ValueError,
        data.HandoffError: ValueError,
        data.MediaPipelineError: RuntimeError,
        data.ConformanceError: AssertionError,
    }
    for error, builtin in expected.items():
        assert issubclass(error, data.DataTierError)
        assert issubclass(error, builtin)

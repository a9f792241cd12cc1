"""Every public name has an example, and every example runs as it is printed."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any

import pytest

import lazycore.data
import lazycore.data.testing

if TYPE_CHECKING:
    from collections.abc import Iterator

PUBLIC = {
    name: getattr(module, name)
    for module in (lazycore.data, lazycore.data.testing)
    for name in module.__all__
}
# What the functions under an example find lazily, beside what it imports itself.
NEEDS = (
    (r"polars|receipt|explain|pandas_from", ("pandas", "polars", "pyarrow")),
    (r"_torch|to_pyg", ("torch",)),
    (r"_scipy", ("scipy",)),
    (r"arrow", ("pyarrow",)),
    (r"Sparse|sparse|from_edge|np\.", ("numpy",)),
)


def examples() -> Iterator[Any]:
    finder = doctest.DocTestFinder(recurse=True)
    for name, value in PUBLIC.items():
        if inspect.isclass(value) or inspect.isfunction(value):
            module = importlib.import_module(value.__module__)
            for found in finder.find(value, name, module=module, globs={}):
                if found.examples:
                    yield pytest.param(found, id=found.name)


def test_every_public_name_has_an_example() -> None:
    documented = {param.id.split(".")[0] for param in examples()}
    aliases = {"ArrowBackedFrame"}  # a union of two foreign classes
    assert set(PUBLIC) - aliases == documented


def test_no_example_is_skipped() -> None:
    assert not [p.id for p in examples() if "+SKIP" in p.values[0].docstring]


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support is in beta")
@pytest.mark.parametrize("example", list(examples()))
def test_the_example_runs_and_prints_what_it_shows(example: doctest.DocTest) -> None:
    code = "".join(part.source for part in example.examples)
    imported = re.findall(r"^\s*import (\w+)", code, re.MULTILINE)
    used = [n for pattern, names in NEEDS if re.search(pattern, code) for n in names]
    for name in (*imported, *used):
        pytest.importorskip(name, reason=f"{name} is not installed")
    example.globs.update(PUBLIC)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    runner.run(example, out=output.append)
    assert not runner.failures, "".join(output)

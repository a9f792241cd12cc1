"""Every example in a docstring is true."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
from importlib import import_module

import pytest

import lazycore.licensing

MODULES = [
    name
    for _, name, _ in pkgutil.iter_modules(
        lazycore.licensing.__path__, "lazycore.licensing."
    )
    if not name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_public_names_resolve_and_are_sorted() -> None:
    names = lazycore.licensing.__all__
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(lazycore.licensing, name) is not None
    assert set(names) <= set(dir(lazycore.licensing))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lazycore.licensing.nothing


def test_every_public_name_shows_an_example() -> None:
    def silent(value: object) -> bool:
        documented = inspect.isclass(value) or inspect.isfunction(value)
        return documented and ">>>" not in (inspect.getdoc(value) or "")

    names = lazycore.licensing.__all__
    missing = {name for name in names if silent(getattr(lazycore.licensing, name))}
    assert missing <= {"Assessment", "TextMatch", "TextReport"}

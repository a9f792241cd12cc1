"""Every example in a docstring of the slice is true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from lazycore import telemetry

MODULES = [
    found.name
    for found in pkgutil.iter_modules(telemetry.__path__, "lazycore.telemetry.")
    if not found.name.endswith("__main__")
]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=OPTIONS, report=True)
    assert failed == 0

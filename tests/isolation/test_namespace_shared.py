"""Prove that all slices live side by side in one namespace, installed any way."""

from __future__ import annotations

import importlib
import importlib.metadata
import pickle
from pathlib import Path

import pytest

SLICES = ("data", "experiments", "licensing", "sandbox", "telemetry")


def installed_together() -> bool:
    found = {d.metadata["Name"] for d in importlib.metadata.distributions()}
    return {f"lazycore-{name}" for name in SLICES} <= found


pytestmark = pytest.mark.skipif(
    not installed_together(), reason="the slices are not installed together"
)


@pytest.mark.parametrize("name", SLICES)
def test_slice_imports_beside_its_siblings(name: str) -> None:
    module = importlib.import_module(f"lazycore.{name}")
    assert module.__name__ == f"lazycore.{name}"
    assert module.__all__


@pytest.mark.parametrize("name", SLICES)
def test_public_classes_have_one_identity(name: str) -> None:
    module = importlib.import_module(f"lazycore.{name}")
    for public in module.__all__:
        value = getattr(module, public)
        if isinstance(value, type):
            assert pickle.loads(pickle.dumps(value)) is value


def test_namespace_has_one_portion_per_installed_place_and_no_file() -> None:
    import lazycore

    assert getattr(lazycore, "__file__", None) is None
    for folder in lazycore.__path__:
        strays = [p.name for p in Path(folder).iterdir() if p.is_file()]
        assert strays == []

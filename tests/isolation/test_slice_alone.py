"""Prove that one installed slice needs nothing but what it declares.

Runs only where ``LAZYCORE_SLICE`` names the slice; nox makes an environment that
holds that slice's wheel, its declared dependencies, pytest and hypothesis.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SLICE = os.environ.get("LAZYCORE_SLICE", "")
SLICES = ("data", "experiments", "licensing", "sandbox", "telemetry")
HEAVY = (
    "dask",
    "numpy",
    "opentelemetry.sdk",
    "pandas",
    "polars",
    "pyarrow",
    "rich",
    "scipy",
    "sklearn",
    "torch",
)
# Modules that `import lazycore.<slice>` may add to a bare interpreter. A budget
# counts what a person waits for without timing a shared machine.
MODULE_BUDGET = {
    "data": 8,
    "experiments": 40,
    "licensing": 62,
    "sandbox": 40,
    "telemetry": 105,
}
TEST_TOOLS = ("pytest", "hypothesis")

pytestmark = pytest.mark.skipif(
    not SLICE, reason="LAZYCORE_SLICE does not name the slice that is installed alone"
)


def run_python(code: str) -> dict[str, object]:
    """Run code in a fresh isolated interpreter and return the JSON it prints."""
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def required_closure(*roots: str) -> set[str]:
    """Return the canonical names that the roots pull in on this interpreter."""
    seen: set[str] = set()
    todo = [(name, frozenset[str]()) for name in roots]
    while todo:
        name, extras = todo.pop()
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        seen.add(canonicalize_name(name))
        for text in found.requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            wanted = marker is None or any(
                marker.evaluate({"extra": extra}) for extra in (extras or {""})
            )
            if wanted and canonicalize_name(requirement.name) not in seen:
                todo.append((requirement.name, frozenset(requirement.extras)))
    return seen


def test_environment_holds_only_the_slice_and_what_it_declares() -> None:
    installed = {
        canonicalize_name(found.metadata["Name"])
        for found in importlib.metadata.distributions()
    }
    allowed = required_closure(f"lazycore-{SLICE}", *TEST_TOOLS)
    assert installed - allowed - {"pip", "setuptools", "wheel"} == set()


def test_siblings_that_are_not_declared_are_absent() -> None:
    declared = required_closure(f"lazycore-{SLICE}")
    for sibling in set(SLICES) - {SLICE}:
        if f"lazycore-{sibling}" in declared:
            continue
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"lazycore.{sibling}")


def test_heavy_libraries_are_absent() -> None:
    for name in HEAVY:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_namespace_root_is_no_module_of_anyones() -> None:
    import lazycore

    assert getattr(lazycore, "__file__", None) is None
    strays = [
        entry.name
        for folder in lazycore.__path__
        for entry in Path(folder).iterdir()
        if entry.is_file()
    ]
    assert strays == []


def test_the_installed_slice_is_the_one_under_test() -> None:
    module = importlib.import_module(f"lazycore.{SLICE}")
    assert module.__file__ is not None
    assert "site-packages" in Path(module.__file__).parts
    assert Path(module.__file__).with_name("py.typed").is_file()


def test_every_submodule_imports() -> None:
    package = importlib.import_module(f"lazycore.{SLICE}")
    names = [
        found.name
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-W",
            "error",
            "-c",
            (
                "import importlib, sys\n"
                "for name in sys.argv[1:]: importlib.import_module(name)"
            ),
            *names,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_public_names_resolve_once_each() -> None:
    package = importlib.import_module(f"lazycore.{SLICE}")
    names = list(package.__all__)
    assert len(names) == len(set(names)) > 0
    assert package.__doc__
    missing = [name for name in names if not hasattr(package, name)]
    assert missing == []


def test_import_is_silent_and_touches_nothing() -> None:
    seen = run_python(
        f"""
        import json, os, sys, threading
        allowed = tuple(os.path.realpath(p) for p in {{sys.prefix, sys.base_prefix}})
        effects, environment = [], []
        starters = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn",
                    "os.exec", "socket.", "ctypes.dlopen", "os.mkdir", "os.remove")

        class Spy(dict):
            def _note(self, key):
                frame = sys._getframe(2)
                while frame:
                    where = frame.f_code.co_filename
                    if "lazycore" + os.sep + "{SLICE}" in where:
                        environment.append(str(key))
                        return
                    frame = frame.f_back
            def __getitem__(self, key):
                self._note(key)
                return super().__getitem__(key)
            def get(self, key, default=None):
                self._note(key)
                return super().get(key, default)
            def __contains__(self, key):
                self._note(key)
                return super().__contains__(key)

        def audit(event, arguments):
            if event == "open":
                path = arguments[0]
                if isinstance(path, int):
                    return
                real = os.path.realpath(os.fsdecode(path))
                if not real.startswith(allowed):
                    effects.append(f"open {{real}}")
            elif event.startswith(starters):
                effects.append(event)

        base = set(sys.modules)
        os.environ = Spy(os.environ)
        sys.addaudithook(audit)
        import lazycore.{SLICE}
        print(json.dumps({{
            "effects": effects,
            "environment": environment,
            "threads": threading.active_count(),
            "modules": sorted(set(sys.modules) - base),
        }}))
        """
    )
    assert seen["effects"] == []
    assert seen["environment"] == []
    assert seen["threads"] == 1
    modules = seen["modules"]
    assert isinstance(modules, list)
    heavy = [m for m in modules if re.match(rf"({'|'.join(HEAVY)})(\.|$)", m)]
    assert heavy == []
    assert len(modules) <= MODULE_BUDGET[SLICE], modules

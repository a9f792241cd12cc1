"""Workers run bytecode made from the pinned sources, never what lies beside them."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import py_compile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import _launch, run_study
from lazycore.experiments._bytecode import bytecode_folder, imported_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import StudyLock
    from lazycore.sandbox import BaseSandboxExecutor

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]

pytestmark = pytest.mark.usefixtures("one_sandbox")

BODY = "import installed_{name}\nreturn {{'score': installed_{name}.VALUE}}"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of installed packages that workers see beside the SDK."""
    place = tmp_path / "site"
    place.mkdir()
    roots = (*_launch.sdk_root(), place)
    monkeypatch.setattr("lazycore.experiments._launch.sdk_root", lambda: roots)
    monkeypatch.setattr("lazycore.experiments._bytecode.sdk_root", lambda: roots)
    return place


def forge(module: Path, value: int) -> None:
    """Put bytecode of other source beside a module, stamped as if it were its own."""
    forged = module.with_name("forged.py")
    forged.write_text(f"VALUE = {value}\n".ljust(module.stat().st_size))
    os.utime(forged, ns=(0, module.stat().st_mtime_ns))
    cache = Path(importlib.util.cache_from_source(str(module)))
    py_compile.compile(str(forged), cfile=str(cache), doraise=True)
    forged.unlink()
    code = SourceFileLoader("module", str(module)).get_code("module")
    assert code is not None
    assert value in code.co_consts  # Python itself takes it for the module's own


@pytest.mark.parametrize("mode", ["fresh", "fork", "session"])
def test_forged_bytecode_of_an_installed_module_is_not_run(
    mode: str, site: Path, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    module = site / f"installed_{mode}.py"
    module.write_text("VALUE = 1  # as long as what may be forged\n")
    lock = make_lock(write_study(BODY.format(name=mode), units=["u"], mode=mode))
    if mode == "session":  # with caches made before, too
        run_study(lock, tmp_path / "first", slots=1)
    forge(module, 99)
    record = run_study(lock, tmp_path / "run", slots=1)
    assert {row.value for row in record.rows} == {1.0}, record.failures


def test_caches_are_made_once_and_anew_for_another_environment(
    site: Path,
    write_study: Write,
    make_lock: Make,
    session_sandbox: BaseSandboxExecutor,
) -> None:
    (site / "installed_once.py").write_text("VALUE = 1\n")
    study = write_study("import installed_once, helper\nreturn {'score': 1}")
    (study.parent / "helper.py").write_text("raise RuntimeError('run outside a cell')")
    lock = make_lock(study)
    folder = bytecode_folder(lock, study.parent, session_sandbox)
    assert bytecode_folder(lock, study.parent, session_sandbox) == folder
    made = {path.name.partition(".")[0] for path in folder.rglob("*.pyc")}
    assert {"installed_once", "_worker", "decoder"} <= made
    assert "helper" not in made
    other = {**lock.document, "environment": {"distributions": {}}}
    changed = dataclasses.replace(lock, document=other)
    assert bytecode_folder(changed, study.parent, session_sandbox) != folder


def test_a_package_that_ends_the_process_costs_time_only(
    site: Path, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    (site / "installed_exit.py").write_text("import os\nos._exit(3)\n")
    body = "if request.arm == 'never':\n    import installed_exit\nreturn {'score': 1}"
    lock = make_lock(write_study(body, units=["u"]))
    assert run_study(lock, tmp_path / "run").failed_cells == 0


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import a, b.c\nfrom d.e import f", {"a", "b.c", "d.e"}),
        ("def f():\n    import g as h", {"g"}),
        ("from . import i\nfrom .j import k", set()),
        ("import own, sys, builtins\nfrom __future__ import annotations", set()),
        ("import package.part", set()),
        ("not python (", set()),
        ("x = '" + "\0" + "'", set()),
        ("(" * 5000, set()),
    ],
    ids=["plain", "late", "relative", "known", "folder", "no", "nul", "deep"],
)
def test_imports_are_read_from_the_sources(
    source: str, names: set[str], tmp_path: Path
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "own.py").touch()
    (tmp_path / "worker.py").write_text(source)
    assert imported_names(tmp_path) == names

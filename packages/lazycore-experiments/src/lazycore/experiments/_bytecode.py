"""Bytecode that was made from the pinned sources, instead of what lies beside them.

A lock pins sources. Python runs the cache in ``__pycache__`` instead, if only its
header names the source's size and time, so a forged cache would run unseen. Workers
therefore read caches from a folder of their own (``sys.pycache_prefix``), made by one
sandboxed process that finds no cache and imports what the study's files name: the
SDK, the standard library and installed packages, never the study's own modules.
What is not in there is compiled from its source.
"""

from __future__ import annotations

import ast
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.experiments._canonical import digest
from lazycore.experiments._launch import FIXED_ENVIRONMENT, import_path, sdk_root

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazycore.experiments._lock import StudyLock
    from lazycore.sandbox import BaseSandboxExecutor

__all__ = ["bytecode_folder", "imported_names"]

# What the SDK itself imports, and what hardly a worker does without.
_ALWAYS = (
    *("collections", "contextlib", "dataclasses", "functools", "hashlib", "json"),
    *("lazycore.experiments._warm", "math", "os", "pathlib", "random", "re"),
    *("string", "time", "typing"),
)
_TIMEOUT_S = 300.0
_IMPORT = """\
import sys
sys.path[:0] = sys.argv[2 : 2 + int(sys.argv[1])]
for name in sys.argv[2 + int(sys.argv[1]) :]:
    try:
        __import__(name)
    except BaseException:
        pass
"""
_guard = threading.Lock()
_made: dict[str, tempfile.TemporaryDirectory[str]] = {}


def bytecode_folder(
    lock: StudyLock, snapshot: Path, executor: BaseSandboxExecutor
) -> Path:
    """Return a folder of caches for a study's Python workers; made once per process.

    Args:
        lock: The locked study.
        snapshot: The read-only copy workers run from.
        executor: The sandbox backend that the importing process runs on.
    """
    python = [arm for arm in lock.study.arms if not arm.interpreter]
    names = sorted(imported_names(snapshot) - set(_ALWAYS)) if python else []
    paths = [path for arm in python for path in import_path(snapshot, arm)]
    outside = [
        path for path in dict.fromkeys(paths) if not Path(path).is_relative_to(snapshot)
    ]
    pins = [lock.document["interpreter"], lock.document["environment"]]
    key = digest([*pins, lock.document["sdk"], names, outside])
    with _guard:
        if key not in _made:
            _made[key] = tempfile.TemporaryDirectory(prefix="lazycore-bytecode-")
            folder = Path(_made[key].name).resolve()
            if python:
                _fill(folder, outside, [*_ALWAYS, *names], executor)
        return Path(_made[key].name).resolve()


def imported_names(folder: Path) -> set[str]:
    """Return the modules that the Python files below a folder name in imports."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        found |= set(_names(ast.walk(tree)))
    own = {path.stem for path in folder.rglob("*.py")} | {
        path.name for path in folder.rglob("*") if path.is_dir()
    }
    known = {*own, *sys.builtin_module_names, "__future__"}
    return {name for name in found if name.partition(".")[0] not in known}


def _names(nodes: Iterable[ast.AST]) -> Iterable[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _fill(
    folder: Path, paths: list[str], names: list[str], executor: BaseSandboxExecutor
) -> None:
    from lazycore.sandbox import SandboxError, SandboxPolicy

    environment = dict(FIXED_ENVIRONMENT)
    del environment["PYTHONDONTWRITEBYTECODE"]
    policy = SandboxPolicy(
        allowed_read_paths=[str(root) for root in sdk_root()],
        allowed_write_paths=[str(folder)],
        env=environment,
        timeout_s=_TIMEOUT_S,
    )
    words = [str(Path(sys.executable).resolve()), "-P", "-s", "-S", "-X", "utf8"]
    words += ["-X", f"pycache_prefix={folder}", "-c", _IMPORT, str(len(paths))]
    try:
        executor.run_command([*words, *paths, *names], policy)
    except SandboxError:
        # Nothing depends on it but time: workers compile what they don't find.
        return

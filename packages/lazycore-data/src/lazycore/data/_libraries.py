"""Find optional libraries late, under one lock, and say how to install them.

Concurrent first imports of pandas and pyarrow have crashed interpreters, so the
first import of every library happens while one lock is held.
"""

from __future__ import annotations

from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["find", "floor_of", "library", "version_of"]

# Library -> the extra that installs it and the lowest version that is tested.
# None: no extra of ours installs it.
_FLOORS: dict[str, tuple[str | None, str]] = {
    "numpy": ("numpy", "1.26"),
    "pandas": ("pandas", "2.2.2"),
    "polars": ("polars", "1.0"),
    "pyarrow": ("arrow", "16"),
    "scipy": ("scipy", "1.11"),
    "torch": (None, "2.2"),
    "torch_geometric": (None, "2.5"),
}
_LOCK = RLock()
_loaded: dict[str, Any] = {}


def floor_of(name: str) -> str:
    """Return the lowest tested version of a library."""
    return _FLOORS[name][1]


def _numbers(version: str) -> tuple[int, ...]:
    found = []
    for part in version.split("."):
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


def version_of(module: Any) -> tuple[int, ...]:
    """Return the leading numbers of a module's version."""
    return _numbers(str(module.__version__))


def _hint(name: str) -> str:
    extra, floor = _FLOORS[name]
    if extra is None:
        return f"pip install '{name}>={floor}'"
    return f"pip install 'lazycore-data[{extra}]' (needs {name}>={floor})"


def library(name: str) -> Any:
    """Return an optional library, imported under the lock the first time.

    Raises:
        MissingDependencyError: The library is not installed or below its floor.
    """
    found = _loaded.get(name)
    if found is not None:
        return found
    from importlib import import_module

    from lazycore.data._errors import MissingDependencyError

    with _LOCK:
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.split(".")[0] != name:
                raise
            message = f"{name} is not installed: {_hint(name)}"
            raise MissingDependencyError(message, name=name) from error
        if version_of(module) < _numbers(_FLOORS[name][1]):
            message = f"{name} {module.__version__} is too old: {_hint(name)}"
            raise MissingDependencyError(message, name=name)
        _loaded[name] = module
    return module


def find(name: str) -> Any:
    """Return an optional library, or None where it is absent or too old."""
    from lazycore.data._errors import MissingDependencyError

    try:
        return library(name)
    except MissingDependencyError:
        return None

"""What a lock holds of the host: interpreter, installed packages, worker SDK."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments._environment import pin_environment
from lazycore.experiments._errors import StudyError
from lazycore.experiments._file_hashes import hash_file
from lazycore.experiments._interpreter import find_interpreter, pin_interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lazycore.experiments._study import Arm, Study

__all__ = ["HostPins", "interpreter_sha256", "pin_host", "sdk_files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPins:
    """What a lock holds of the host: interpreter, packages, worker SDK.

    Attributes:
        interpreter: Version and digests of the interpreter and its libraries.
        environment: Version and digest of every installed distribution.
        sdk: Digests of the SDK's files.
    """

    interpreter: Mapping[str, Any]
    environment: Mapping[str, Any]
    sdk: Mapping[str, str]


def pin_host(*, progress: Callable[[int, int], None] | None = None) -> HostPins:
    """Hash the interpreter, every installed file and the worker SDK.

    Args:
        progress: Called with installed files hashed and files in all.

    Examples:
        >>> pin_host().interpreter["implementation"]
        'CPython'
    """
    return HostPins(
        interpreter=pin_interpreter(),
        environment=pin_environment(progress=progress),
        sdk={name: hash_file(path) for name, path in sdk_files().items()},
    )


def interpreter_sha256(study: Study, arm: Arm) -> str | None:
    """Return the digest of the program that an arm names; None for Python workers.

    Raises:
        StudyError: This host has no such program.
    """
    if not arm.interpreter:
        return None
    program = find_interpreter(arm)
    if program is None:
        raise StudyError(
            study.path,
            f"arms.{arm.name}.interpreter",
            f"no program {arm.interpreter!r} is on this host; install it",
        )
    return hash_file(program)


def sdk_files() -> dict[str, Path]:
    """Return the files of this package that run inside a worker."""
    folder = Path(__file__).parent
    return {name: folder / name for name in ("__init__.py", "_warm.py", "_worker.py")}

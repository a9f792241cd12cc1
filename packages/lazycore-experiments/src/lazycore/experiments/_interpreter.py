"""Pin the interpreter that runs the workers: binary, libraries, standard library.

The executable of a modern Python is often a small launcher; the interpreter proper
lies in libpython and the standard library. So the link closure is read from the
memory map of a bare interpreter, and the standard library's files are hashed too.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import digest
from lazycore.experiments._errors import ArtifactError
from lazycore.experiments._file_hashes import hash_file, hash_tree

if TYPE_CHECKING:
    from lazycore.experiments._study import Arm

__all__ = [
    "find_interpreter",
    "pin_closure",
    "pin_interpreter",
    "pin_standard_library",
]

_MAPS = "import sys; sys.stdout.write(open('/proc/self/maps').read())"
_SKIPPED = {"__pycache__", "site-packages", "dist-packages"}


def find_interpreter(arm: Arm) -> Path | None:
    """Return the real path of the program that runs an arm's worker, or None.

    A bare name is looked up where the sandbox shows programs, not in the caller's
    own PATH.
    """
    if not arm.interpreter:
        return Path(sys.executable).resolve()
    found = shutil.which(arm.interpreter, path="/usr/local/bin:/usr/bin:/bin")
    return None if found is None else Path(found).resolve()


def pin_interpreter(executable: str = sys.executable) -> dict[str, Any]:
    """Return name, version and digests of an interpreter; no path enters.

    The closure lists file name and digest of every object the dynamic loader maps
    into a bare interpreter. On systems without ``/proc`` it holds the executable
    and the shared library that `sysconfig` names.

    Raises:
        ArtifactError: The interpreter does not start or can't be read.
    """
    return {
        "implementation": platform.python_implementation(),
        "version": platform.python_version(),
        "executable_sha256": hash_file(Path(executable).resolve()),
        "closure": pin_closure(executable),
        "standard_library_sha256": pin_standard_library(),
    }


def pin_closure(executable: str) -> list[list[str]]:
    """Return file name and digest of what an interpreter consists of, sorted."""
    objects = {Path(executable).resolve()} | _mapped_objects(executable)
    return sorted([path.name, hash_file(path)] for path in objects)


def pin_standard_library() -> str:
    """Return one digest over every source and extension of the standard library.

    Bytecode caches are left out: no worker reads them.
    """
    tree = hash_tree(Path(os.__file__).parent, skipped=_SKIPPED)
    return digest([[name, value] for name, value in tree.items()])


def _mapped_objects(executable: str) -> set[Path]:
    if not Path("/proc/self/maps").exists():
        import sysconfig

        library = sysconfig.get_config_var("LDLIBRARY")
        folder = sysconfig.get_config_var("LIBDIR")
        found = Path(str(folder), str(library))
        return {found.resolve()} if library and folder and found.is_file() else set()
    done = subprocess.run(
        [executable, "-I", "-S", "-B", "-c", _MAPS],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={},
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise ArtifactError(f"{executable}: the interpreter does not start")
    paths = set()
    for line in done.stdout.splitlines():
        fields = line.split(maxsplit=5)
        # Only executable mappings are code; locale archives and caches are not.
        if len(fields) == 6 and fields[5].startswith(b"/") and b"x" in fields[1]:
            paths.add(Path(os.fsdecode(fields[5])))
    return paths

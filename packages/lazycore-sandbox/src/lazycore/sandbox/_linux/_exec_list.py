"""Hold a list of executables against the loader, memory files and the workspace.

Everything is mounted noexec but the listed files, their ELF interpreters and the
directories of shared libraries, since a library on a noexec mount cannot be mapped.
Landlock then grants execve(2) on the listed files and interpreters alone. What stays
possible: an interpreter can be told to load a program that lies in one of the library
directories; and a listed interpreter such as a shell or Python runs what it is given.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import TYPE_CHECKING

from lazycore.sandbox._errors import SandboxPolicyError
from lazycore.sandbox._paths import is_within

if TYPE_CHECKING:
    from lazycore.sandbox._linux._plan import Bind
    from lazycore.sandbox._preflight import CheckedPolicy, PinnedPath

LIBRARY = "library"
RUN = "run"

_MULTIARCH = ("x86_64-linux-gnu", "aarch64-linux-gnu")
_PT_INTERP = 3


def library_steps(system: tuple[Bind, ...]) -> list[Bind]:
    """Return the library directories inside the system set, outermost only."""
    candidates = [f"/usr/lib/{name}" for name in _MULTIARCH]
    candidates += ["/usr/lib64", "/lib64"]
    found = [path for path in candidates if _plain_directory(path)]
    if not found:
        found = [path for path in ("/usr/lib", "/lib") if _plain_directory(path)]
    for prefix in (sys.base_exec_prefix, sys.exec_prefix):
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        home = os.path.realpath(os.path.join(prefix, "lib", name))
        found += [f"{home}/lib-dynload", f"{home}/site-packages"]
        shared = os.path.join(os.path.realpath(prefix), "lib")
        if not is_within("/usr/lib", shared):
            found.append(shared)
    shown = [
        path
        for path in dict.fromkeys(found)
        if _plain_directory(path) and any(is_within(path, bind[1]) for bind in system)
    ]
    return [
        (LIBRARY, path, True, 0, 0)
        for path in sorted(shown)
        if not any(other != path and is_within(path, other) for other in shown)
    ]


def _plain_directory(path: str) -> bool:
    return os.path.isdir(path) and os.path.realpath(path) == path


def run_steps(checked: CheckedPolicy) -> list[Bind]:
    """Return the listed executables and the ELF interpreters they name.

    Raises:
        SandboxPolicyError: If a listed script names an interpreter that is not
            listed itself: the script could not run.
    """
    listed = {pinned.path for pinned in checked.executables}
    steps: dict[str, Bind] = {}
    for pinned in checked.executables:
        steps[pinned.path] = (RUN, pinned.path, False, pinned.device, pinned.inode)
        loader = _loader(pinned, listed)
        if loader is not None:
            steps.setdefault(loader, (RUN, loader, False, 0, 0))
    return [steps[path] for path in sorted(steps)]


def _loader(pinned: PinnedPath, listed: set[str]) -> str | None:
    fd = os.open(f"/proc/self/fd/{pinned.fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = os.pread(fd, 4096, 0)
        if head.startswith(b"#!"):
            words = head[2:].split(b"\n", 1)[0].split()
            script = os.path.realpath(os.fsdecode(words[0])) if words else ""
            if script not in listed:
                raise SandboxPolicyError(
                    f"allowed_executables holds the script {pinned.path!r}, whose "
                    f"interpreter {script!r} is not listed; list it as well"
                )
            return None
        name = elf_interpreter(fd, head)
    finally:
        os.close(fd)
    return None if name is None else os.path.realpath(name)


def elf_interpreter(fd: int, head: bytes) -> str | None:
    """Return PT_INTERP of a 64-bit little-endian ELF file; None for a static one."""
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
        return None
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for index in range(count):
        entry = os.pread(fd, size, table + index * size)
        if len(entry) < 40 or struct.unpack_from("<I", entry)[0] != _PT_INTERP:
            continue
        offset, _, _, length = struct.unpack_from("<QQQQ", entry, 8)
        return os.fsdecode(os.pread(fd, min(length, 4096), offset).rstrip(b"\0"))
    return None

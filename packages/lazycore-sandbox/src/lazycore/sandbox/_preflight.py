"""Check a policy's paths against the file system and pin what was checked.

Each path is walked component by component from the root by descriptor, refusing
symbolic links, and the final descriptor stays open until the run ends. The inode it
pins cannot be replaced by another one with the same number meanwhile, so a backend
that compares `(device, inode)` after its own walk acts on the very object that was
checked.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazycore.sandbox._descent import Descent
from lazycore.sandbox._errors import SandboxPolicyError
from lazycore.sandbox._paths import is_within
from lazycore.sandbox._system import (
    PROTECTED_ROOTS,
    code_paths,
    interpreter_paths,
    system_paths,
)

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from lazycore.sandbox._policy import SandboxPolicy

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_RUNS_AS_GROUP = stat.S_ISGID | stat.S_IXGRP
_WALK = _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPath:
    """One checked path and the open descriptor that keeps its inode alive.

    Attributes:
        path: The absolute path, free of symbolic links.
        fd: An O_PATH descriptor (read-only where the system has no O_PATH).
        is_dir: Whether it is a directory.
        device: `st_dev` of the inode.
        inode: `st_ino` of the inode.
    """

    path: str
    fd: int
    is_dir: bool
    device: int
    inode: int


@dataclass(slots=True, kw_only=True)
class CheckedPolicy:
    """A policy whose paths were checked; use as a context manager to unpin them.

    Attributes:
        policy: The policy.
        read: Pinned `allowed_read_paths`.
        write: Pinned `allowed_write_paths`.
        denied: Pinned `denied_paths` that lie in something allowed; the others
            are out of reach anyway.
        executables: Pinned `allowed_executables`.
        system: What `include_system` adds, not pinned: root owns it.
    """

    policy: SandboxPolicy
    read: list[PinnedPath] = field(default_factory=list)
    write: list[PinnedPath] = field(default_factory=list)
    denied: list[PinnedPath] = field(default_factory=list)
    executables: list[PinnedPath] = field(default_factory=list)
    system: tuple[str, ...] = ()

    def close(self) -> None:
        """Close every pinned descriptor."""
        for group in (self.read, self.write, self.denied, self.executables):
            while group:
                os.close(group.pop().fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def preflight(policy: SandboxPolicy) -> CheckedPolicy:
    """Check every path of `policy` and pin it.

    Args:
        policy: The policy.

    Returns:
        The pinned paths; close it when the run is over.

    Raises:
        SandboxPolicyError: If a path is missing, goes through a symbolic link, is
            neither a file nor a directory, or is writable where that would open
            the host; the message names the path and the remedy.
    """
    if policy.workspace is not None:
        raise SandboxPolicyError(
            f"the workspace {policy.workspace!r} is copied by run_command and "
            "run_callable only; elsewhere, make a Workspace and use what its grant() "
            "returns"
        )
    checked = CheckedPolicy(policy=policy, system=system_paths(policy))
    try:
        for path in policy.allowed_read_paths:
            checked.read.append(pin("allowed_read_paths", path))
        for path in policy.allowed_write_paths:
            _refuse_host_writes(path, checked.system)
            checked.write.append(pin("allowed_write_paths", path))
        allowed = (
            *policy.allowed_read_paths,
            *policy.allowed_write_paths,
            *checked.system,
        )
        for path in policy.denied_paths:
            if any(is_within(path, root) for root in allowed):
                checked.denied.append(pin("denied_paths", path))
                _refuse_other_names(policy, checked.denied[-1])
        for path in policy.allowed_executables or ():
            checked.executables.append(_pin_executable(path))
        if policy.cwd is not None:
            _check_cwd(policy.cwd, allowed)
        if not policy.allow_hard_links:
            _refuse_hard_links(checked.write)
    except BaseException:
        checked.close()
        raise
    return checked


def pin(role: str, path: str) -> PinnedPath:
    """Open `path` without following any symbolic link and keep it open."""
    fd = os.open("/", _WALK | os.O_DIRECTORY)
    try:
        parts = path.split("/")[1:]
        for depth, part in enumerate(parts):
            try:
                inner = os.open(part, _WALK, dir_fd=fd)
            except OSError as error:
                raise _unreachable(role, path, parts[: depth + 1], error) from error
            os.close(fd)
            fd = inner
            _refuse_symlink(role, path, parts[: depth + 1], fd)
        info = os.fstat(fd)
        _refuse_special(role, path, info.st_mode)
        return PinnedPath(
            path=path,
            fd=fd,
            is_dir=stat.S_ISDIR(info.st_mode),
            device=info.st_dev,
            inode=info.st_ino,
        )
    except BaseException:
        os.close(fd)
        raise


def _unreachable(
    role: str, path: str, parts: list[str], error: OSError
) -> SandboxPolicyError:
    at = "/" + "/".join(parts)
    hint = "create it first, or drop it; patterns such as * are not expanded"
    if isinstance(error, PermissionError):
        hint = "the caller itself may not enter it"
    return SandboxPolicyError(
        f"{role} holds {path!r}, which cannot be opened: {error.strerror} at {at!r}; "
        f"{hint}"
    )


def _refuse_symlink(role: str, path: str, parts: list[str], fd: int) -> None:
    if not stat.S_ISLNK(os.fstat(fd).st_mode):
        return
    at = "/" + "/".join(parts)
    real = os.path.realpath(path)
    raise SandboxPolicyError(
        f"{role} holds {path!r}, which goes through the symbolic link {at!r}; if that "
        f"is meant, write the path it leads to: {real!r}"
    )


def _refuse_special(role: str, path: str, mode: int) -> None:
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise SandboxPolicyError(
            f"{role} holds {path!r}, which is neither a file nor a directory; "
            "sockets, pipes and devices cannot be granted"
        )


def _refuse_host_writes(path: str, system: tuple[str, ...]) -> None:
    home = os.path.expanduser("~")
    if home.startswith("/") and home != "/" and is_within(home, path):
        raise SandboxPolicyError(
            f"allowed_write_paths holds {path!r}, which contains the home directory "
            f"{home!r}: shell and agent start-up files lie in it; grant a directory "
            "below it"
        )
    for tree in (*interpreter_paths(), *system):
        if is_within(tree, path):
            raise SandboxPolicyError(
                f"allowed_write_paths holds {path!r}, which contains {tree!r}: the "
                "system or the running interpreter would be writable; grant a "
                "directory beside it"
            )
    for tree in (*code_paths(), *PROTECTED_ROOTS):
        if is_within(path, tree):
            raise SandboxPolicyError(
                f"allowed_write_paths holds {path!r}, which lies in {tree!r}: the host "
                "or the running interpreter takes code from there; grant a directory "
                "outside"
            )


def _refuse_other_names(policy: SandboxPolicy, denied: PinnedPath) -> None:
    links = os.fstat(denied.fd).st_nlink
    if not denied.is_dir and links > 1 and not policy.allow_hard_links:
        raise SandboxPolicyError(
            f"denied_paths holds {denied.path!r}, a file with {links} names: it stays "
            "open under another one that lies in an allowed path; deny a copy with one "
            "name, or set allow_hard_links=True to accept that"
        )


def _pin_executable(path: str) -> PinnedPath:
    pinned = pin("allowed_executables", os.path.realpath(path))
    mode = os.fstat(pinned.fd).st_mode
    if pinned.is_dir or not mode & 0o111:
        os.close(pinned.fd)
        raise SandboxPolicyError(
            f"allowed_executables holds {path!r}, which is not an executable file"
        )
    return pinned


def _check_cwd(cwd: str, allowed: tuple[str, ...]) -> None:
    if not any(is_within(cwd, root) for root in allowed):
        raise SandboxPolicyError(
            f"cwd {cwd!r} lies in no allowed path; add it to allowed_read_paths or "
            "allowed_write_paths"
        )
    pinned = pin("cwd", cwd)
    os.close(pinned.fd)
    if not pinned.is_dir:
        raise SandboxPolicyError(f"cwd {cwd!r} is not a directory")


def _refuse_hard_links(write: list[PinnedPath]) -> None:
    """Refuse set-id files, and files whose other names lie outside of write paths.

    A write through such a file changes an object the policy does not list. A file
    all of whose names were met inside write paths is harmless.
    """
    met: dict[tuple[int, int], tuple[int, int, str]] = {}
    seen: set[tuple[int, int]] = set()
    for pinned in write:
        if pinned.is_dir:
            _collect_links(pinned, met, seen)
        else:
            _note(met, os.fstat(pinned.fd), pinned.path)
    for links, times, path in met.values():
        if times < links:
            raise SandboxPolicyError(
                f"allowed_write_paths holds {path!r}, which has {links} names and "
                f"only {times} of them in a write path: writing to it changes a file "
                "outside; copy it, or set allow_hard_links=True to accept that"
            )


def _note(
    met: dict[tuple[int, int], tuple[int, int, str]], info: os.stat_result, path: str
) -> None:
    if not stat.S_ISREG(info.st_mode):
        return
    if info.st_mode & stat.S_ISUID or info.st_mode & _RUNS_AS_GROUP == _RUNS_AS_GROUP:
        raise SandboxPolicyError(
            f"allowed_write_paths holds {path!r}, a set-id file: the kernel keeps its "
            "bits when its content is changed through a memory map, so a run could put "
            "its own program there; clear the bits (chmod ug-s)"
        )
    if info.st_nlink > 1:
        key = (info.st_dev, info.st_ino)
        _, times, first = met.get(key, (0, 0, path))
        met[key] = (info.st_nlink, times + 1, first)


def _collect_links(
    pinned: PinnedPath,
    met: dict[tuple[int, int], tuple[int, int, str]],
    seen: set[tuple[int, int]],
) -> None:
    walk = Descent(pinned.fd)
    top = os.fstat(pinned.fd)
    if (top.st_dev, top.st_ino) in seen:
        return
    seen.add((top.st_dev, top.st_ino))
    try:
        for name, info in walk:
            if not stat.S_ISDIR(info.st_mode):
                _note(met, info, f"{pinned.path}/{walk.path(name)}")
            elif (info.st_dev, info.st_ino) in seen:
                walk.skip()
            else:
                seen.add((info.st_dev, info.st_ino))
    except OSError as error:
        at = os.path.normpath(os.path.join(pinned.path, error.filename or ""))
        raise SandboxPolicyError(
            f"allowed_write_paths cannot be searched for hard links: {error.strerror} "
            f"at {at!r}; make it readable, or set allow_hard_links=True"
        ) from error

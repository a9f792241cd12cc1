"""Remove a directory tree that an untrusted process has written.

The tree may be deeper than any recursion and hold directories without permissions,
the first of them included; nothing runs in it any more.
"""

from __future__ import annotations

import os
import stat
import warnings
from typing import Final

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def discard_tree(path: str) -> None:
    """Remove `path` like :func:`remove_tree`; warn when something is left.

    What a run has produced is worth more than its scratch directory: an error here
    must not take the place of a result.

    Args:
        path: A directory of this user's.

    Warns:
        ResourceWarning: Something cannot be removed; names the directory.
    """
    try:
        remove_tree(path)
    except OSError as error:
        warnings.warn(
            f"the directory {path!r} of a run is left behind: {error}; remove it",
            ResourceWarning,
            stacklevel=2,
        )


def remove_tree(path: str) -> None:
    """Remove `path` and everything below it, following no link.

    Deep trees are flattened: each inner directory is moved up beside its parent, so
    that depth, path length and open descriptors stay constant.

    Args:
        path: A directory of this user's.

    Raises:
        OSError: If something cannot be removed.
    """
    _open_up(path)
    top = os.open(path, _OPEN)
    moved = 0
    try:
        while names := os.listdir(top):
            for name in names:
                moved = _remove_entry(top, name, moved)
    finally:
        os.close(top)
    os.rmdir(path)


def _open_up(path: str) -> None:
    """Let the owner list and empty a directory, whatever its mode; follow no link."""
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode) or info.st_mode & 0o700 == 0o700:
        return
    if not hasattr(os, "O_PATH"):
        os.chmod(path, 0o700, follow_symlinks=False)
        return
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)
    finally:
        os.close(fd)


def _remove_entry(top: int, name: str, moved: int) -> int:
    info = os.stat(name, dir_fd=top, follow_symlinks=False)
    if not stat.S_ISDIR(info.st_mode):
        os.unlink(name, dir_fd=top)
        return moved
    if info.st_mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=top)
    inner = os.open(name, _OPEN, dir_fd=top)
    try:
        for entry in os.listdir(inner):
            kind = os.stat(entry, dir_fd=inner, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(kind):
                os.unlink(entry, dir_fd=inner)
                continue
            if kind & 0o700 != 0o700:
                # A directory that is moved has its '..' rewritten: rename(2).
                os.chmod(entry, 0o700, dir_fd=inner)
            moved = _move_up(inner, entry, top, moved)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)
    return moved


def _move_up(source: int, entry: str, top: int, moved: int) -> int:
    """Move a directory to the top under a name that is free; return the counter."""
    while True:
        moved += 1
        name = f".lazycore-{moved}"
        try:
            os.stat(name, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(entry, name, src_dir_fd=source, dst_dir_fd=top)
            return moved

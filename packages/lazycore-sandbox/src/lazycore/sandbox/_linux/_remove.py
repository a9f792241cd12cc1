"""Remove a directory tree that an untrusted process has written.

The tree may be deeper than any recursion and hold directories without permissions;
nothing runs in it any more.
"""

from __future__ import annotations

import os
import stat


def remove_tree(path: str) -> None:
    """Remove `path` and everything below it, following no link.

    Deep trees are flattened: each inner directory is moved up beside its parent, so
    that depth, path length and open descriptors stay constant.

    Args:
        path: A directory of this user's.

    Raises:
        OSError: If something cannot be removed.
    """
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    moved = 0
    try:
        while names := os.listdir(top):
            for name in names:
                moved = _remove_entry(top, name, moved)
    finally:
        os.close(top)
    os.rmdir(path)


def _remove_entry(top: int, name: str, moved: int) -> int:
    info = os.stat(name, dir_fd=top, follow_symlinks=False)
    if not stat.S_ISDIR(info.st_mode):
        os.unlink(name, dir_fd=top)
        return moved
    if info.st_mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=top)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    inner = os.open(name, flags, dir_fd=top)
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

"""Put a changed tree in the place of the original, at once or not at all.

The new tree is built beside the old one and the two swap names in one system call
(renameat2(2) with RENAME_EXCHANGE, renamex_np(2) with RENAME_SWAP on macOS). Whoever
looks, and whenever this process is killed, sees the old tree or the new one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

from lazycore.sandbox._errors import SandboxWorkspaceError
from lazycore.sandbox._linux._remove import discard_tree
from lazycore.sandbox._workspace_tree import Entry, copy_file, plain_mode, scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.sandbox._result import WorkspaceChange

_EXCHANGE: Final = 2  # both RENAME_EXCHANGE and RENAME_SWAP
_AT_FDCWD: Final = -100


def refuse_conflicts(
    original: str, known: Mapping[str, Entry], changes: tuple[WorkspaceChange, ...]
) -> None:
    """Refuse when the original changed where the run changed its copy.

    Raises:
        SandboxWorkspaceError: names the paths.
    """
    now = scan(original)
    touched = [
        change.path
        for change in changes
        if _stamp(now.get(change.path)) != _stamp(known.get(change.path))
    ]
    if touched:
        shown = ", ".join(map(repr, touched[:5]))
        raise SandboxWorkspaceError(
            f"{len(touched)} paths changed in {original!r} since the copy was made, "
            f"among them {shown}; nothing was applied"
        )


def _stamp(entry: Entry | None) -> object:
    if entry is None:
        return None
    # A directory's times change with its contents, which are compared one by one.
    return entry.stamp if entry.kind != "directory" else entry.mode


def refuse_escaping_links(after: Mapping[str, Entry], changed: frozenset[str]) -> None:
    """Refuse changed links that lead the host out of the workspace.

    Raises:
        SandboxWorkspaceError: names the link.
    """
    for path in sorted(changed):
        entry = after.get(path)
        if entry is not None and entry.kind == "link" and _escapes(path, entry, after):
            raise SandboxWorkspaceError(
                f"the run left the link {path!r} to {entry.target!r}, which leads out "
                "of the workspace or through another link; nothing was applied"
            )


def _escapes(path: str, entry: Entry, after: Mapping[str, Entry]) -> bool:
    """Follow a link's target by its letters; stop at the top and at other links."""
    if entry.target.startswith("/"):
        return True
    here = path.split("/")[:-1]
    parts = [part for part in entry.target.split("/") if part not in {"", "."}]
    for at, part in enumerate(parts):
        if part == "..":
            if not here:
                return True
            here.pop()
            continue
        here.append(part)
        met = after.get("/".join(here))
        if met is not None and met.kind == "link" and at < len(parts) - 1:
            return True
    return False


def swap_in(
    original: str,
    copy: str,
    *,
    after: Mapping[str, Entry],
    changed: frozenset[str],
) -> None:
    """Build the new tree and exchange it with the original.

    Unchanged files keep their inode by a hard link; changed ones are copied.

    Raises:
        SandboxWorkspaceError: The file system or its permissions do not allow it;
            the original is as it was.
    """
    parent, name = os.path.split(original)
    try:
        stage = tempfile.mkdtemp(prefix=f".{name}.lazycore-", dir=parent)
    except OSError as error:
        raise _cannot(original, error) from error
    new = os.path.join(stage, "new")
    try:
        shutil.copytree(original, new, ignore=lambda _, names: names)
        _build(original, copy, new, after=after, changed=changed)
        _exchange(original, new)
    except OSError as error:
        raise _cannot(original, error) from error
    finally:
        discard_tree(stage)


def _cannot(original: str, error: OSError) -> SandboxWorkspaceError:
    return SandboxWorkspaceError(
        f"the changes cannot be swapped into {original!r}: {error.strerror}; it must "
        "not be a mount point, and the directory that holds it must be writable; "
        "nothing was applied"
    )


def _build(
    original: str,
    copy: str,
    new: str,
    *,
    after: Mapping[str, Entry],
    changed: frozenset[str],
) -> None:
    for path, entry in after.items():
        place = os.path.join(new, path)
        if entry.kind == "directory":
            os.mkdir(place, 0o700)
        elif entry.kind == "link":
            os.symlink(entry.target, place)
        elif path in changed:
            copy_file(os.path.join(copy, path), place, entry)
        else:
            os.link(os.path.join(original, path), place, follow_symlinks=False)
    for path, entry in reversed(list(after.items())):
        if entry.kind == "directory":
            before = os.path.join(original, path)
            place = os.path.join(new, path)
            if path not in changed and os.path.isdir(before):
                shutil.copystat(before, place, follow_symlinks=False)
            else:
                os.chmod(place, plain_mode(entry.mode))


def _exchange(left: str, right: str) -> None:
    libc: Any = ctypes.CDLL(None, use_errno=True)
    one, two = os.fsencode(left), os.fsencode(right)
    try:
        if sys.platform == "darwin":
            failed = libc.renamex_np(one, two, _EXCHANGE)
        else:
            failed = libc.renameat2(_AT_FDCWD, one, _AT_FDCWD, two, _EXCHANGE)
    except AttributeError:  # a C library without the call
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), left) from None
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), left)

"""Copy a tree, remember it, and tell what became of it.

The copied tree is read again after an untrusted run: links are never followed, and
what is neither file, directory nor link is refused by name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lazycore.sandbox._errors import SandboxPolicyError, SandboxWorkspaceError
from lazycore.sandbox._result import WorkspaceChange
from lazycore.sandbox._workspace_stamps import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CHUNK: Final = 1 << 20
_FICLONE: Final = 0x40049409  # ioctl_ficlone(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One path of a tree, as lstat(2) saw it.

    `stamp` changes whenever content or metadata did, since no process can set a
    ctime; where that does not hold, `digest` tells (see `_workspace_stamps`).
    """

    kind: str
    mode: int
    size: int
    target: str
    stamp: tuple[int, int, int]
    digest: bytes | None = None


Tree = dict[str, Entry]


def scan(root: str) -> Tree:
    """Read the whole tree below `root`, without following links.

    Raises:
        SandboxWorkspaceError: It holds a socket, pipe or device, or is nested so
            deeply that no path leads there.
    """
    return dict(_walk(root))


def _walk(root: str) -> Iterator[tuple[str, Entry]]:
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder) if folder else root) as items:
                names = sorted(items, key=lambda item: item.name)
        except OSError as error:
            raise _unreadable(root, folder, error) from error
        for item in names:
            path = f"{folder}/{item.name}" if folder else item.name
            try:
                entry = _entry(root, path, item.path)
            except OSError as error:
                raise _unreadable(root, path, error) from error
            if entry.kind == "directory":
                pending.append(path)
            yield path, entry


def _unreadable(root: str, folder: str, error: OSError) -> SandboxWorkspaceError:
    if error.errno == errno.ENAMETOOLONG:
        text = f"the workspace {root!r} is nested deeper than any path can name"
        return SandboxWorkspaceError(f"{text}; discard it")
    return SandboxWorkspaceError(
        f"{folder!r} in the workspace {root!r} cannot be read: {error.strerror}"
    )


def _entry(root: str, path: str, full: str) -> Entry:
    info = os.lstat(full)
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(info.st_mode))
    if kind is None:
        raise SandboxWorkspaceError(
            f"{path!r} in the workspace {root!r} is a socket, pipe or device; remove it"
        )
    return Entry(
        kind=kind,
        mode=stat.S_IMODE(info.st_mode),
        size=info.st_size if kind == "file" else 0,
        target=os.readlink(full) if kind == "link" else "",
        stamp=(info.st_ino, info.st_mtime_ns, info.st_ctime_ns),
    )


def copy_tree(source: str, target: str, tree: Mapping[str, Entry]) -> None:
    """Copy every entry of `tree` from `source` to the empty directory `target`.

    Files become files of their own: a hard link in the source is none in the copy.
    """
    for path, entry in tree.items():
        place = os.path.join(target, path)
        if entry.kind == "directory":
            os.mkdir(place, 0o700)
        elif entry.kind == "link":
            os.symlink(entry.target, place)
        else:
            copy_file(os.path.join(source, path), place, entry)
    for path, entry in reversed(list(tree.items())):
        if entry.kind == "directory":
            # Always enterable by the owner: the run and the scan must get in.
            os.chmod(os.path.join(target, path), plain_mode(entry.mode) | 0o700)


def copy_file(source: str, target: str, entry: Entry) -> None:
    """Copy one file: its bytes, its time, its mode without set-id bits."""
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    read = os.open(source, os.O_RDONLY | os.O_NONBLOCK | flags)
    try:
        info = os.fstat(read)
        if not stat.S_ISREG(info.st_mode):
            raise SandboxWorkspaceError(f"{source!r} is no longer a file")
        write = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags, 0o600)
        try:
            if not _cloned(read, write):
                _copy_data(read, write, info.st_size)
            os.fchmod(write, plain_mode(entry.mode))
            os.utime(write, ns=(info.st_atime_ns, info.st_mtime_ns))
        finally:
            os.close(write)
    finally:
        os.close(read)


def _copy_data(read: int, write: int, size: int) -> None:
    """Copy what a file holds and leave its holes: a run makes those for nothing."""
    at = 0
    while at < size:
        try:
            at = os.lseek(read, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # lseek(2): a hole up to the end
                break
            raise
        end = min(size, os.lseek(read, at, os.SEEK_HOLE))
        os.lseek(read, at, os.SEEK_SET)
        os.lseek(write, at, os.SEEK_SET)
        while at < end:
            chunk = os.read(read, min(_CHUNK, end - at))
            if not chunk:
                break
            at += len(chunk)
            view = memoryview(chunk)
            while view:
                view = view[os.write(write, view) :]
        if at < end:
            break
    os.ftruncate(write, size)


def _cloned(read: int, write: int) -> bool:
    """Share the blocks where the file system can (ioctl_ficlone(2))."""
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.ioctl(write, _FICLONE, read)
        return True
    return False


def plain_mode(mode: int) -> int:
    """Return a mode without set-user-id, set-group-id and sticky bits."""
    return mode & 0o777


def compare(
    before: Mapping[str, Entry],
    after: Mapping[str, Entry],
    *,
    original: str,
    copy: str,
) -> tuple[WorkspaceChange, ...]:
    """List what a run changed in its copy, sorted by path.

    Args:
        before: The copy as it was handed to the run.
        after: The copy as the run left it.
        original: Where the untouched content lies.
        copy: Where the run worked.
    """
    changes = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old is None or new is None:
            kind = "added" if old is None else "deleted"
        elif _same(old, new, os.path.join(original, path), os.path.join(copy, path)):
            continue
        else:
            kind = "modified"
        changes.append(
            WorkspaceChange(
                path=path,
                kind=kind,
                size_bytes=_size(new),
                previous_size_bytes=_size(old),
            )
        )
    return tuple(changes)


def _size(entry: Entry | None) -> int | None:
    return entry.size if entry is not None and entry.kind == "file" else None


def _same(old: Entry, new: Entry, original: str, copy: str) -> bool:
    if old.stamp == new.stamp and old.digest is None:
        return True
    if (old.kind, old.mode, old.size, old.target) != (
        new.kind,
        new.mode,
        new.size,
        new.target,
    ):
        return False
    if old.digest is not None:
        return old.digest == digest_of(copy)
    return old.kind != "file" or _equal_bytes(original, copy)


def _equal_bytes(left: str, right: str) -> bool:
    with _opened(left) as one, _opened(right) as two:
        while True:
            ours, theirs = os.read(one, _CHUNK), os.read(two, _CHUNK)
            if ours != theirs:
                return False
            if not ours:
                return True


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def read_file(path: str, limit: int) -> bytes:
    """Read at most `limit` bytes of a file without following a link."""
    with _opened(path) as fd:
        data = bytearray()
        while len(data) < limit:
            chunk = os.read(fd, min(_CHUNK, limit - len(data)))
            if not chunk:
                break
            data += chunk
    return bytes(data)


def checked_root(path: str) -> str:
    """Refuse what cannot be a workspace.

    Raises:
        SandboxPolicyError: It is missing, no directory, or reached by a link.
    """
    real = os.path.realpath(path)
    if real != path:
        raise SandboxPolicyError(
            f"the workspace {path!r} goes through a symbolic link; write {real!r}"
        )
    if not os.path.isdir(path):
        raise SandboxPolicyError(f"the workspace {path!r} is not a directory")
    return path

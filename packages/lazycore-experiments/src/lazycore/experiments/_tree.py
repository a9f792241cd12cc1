"""Read a folder into a git tree id and a SHA-256 manifest, without running git.

`git status` says clean for an ignored module, a file marked assume-unchanged or
skip-worktree, and runs a hook named in the checkout's own configuration. So the
files themselves are read, every one that a worker could import, and the id is
computed as git does (gitformat: tree and blob objects, SHA-1).
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.experiments._canonical import digest
from lazycore.experiments._errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ALWAYS_EXCLUDED", "Tree", "TreeFile", "read_tree"]

ALWAYS_EXCLUDED = (".git", "__pycache__", "*.pyc", "study.lock.json")
# A folder that holds this file is a run's output, never its input.
_RUN_MARKER = "journal.jsonl"
_CHUNK = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """One file or symbolic link of a tree.

    Attributes:
        path: Relative POSIX path.
        mode: ``100644``, ``100755`` or ``120000`` (a link), as git writes it.
        size: Bytes; of a link, the length of its target.
        sha256: Digest of the content; of a link, of its target.
        blob: Git's blob id.
    """

    path: str
    mode: str
    size: int
    sha256: str
    blob: str

    @property
    def identity(self) -> tuple[str, int, str]:
        """What makes two files the same: mode, size and SHA-256."""
        return self.mode, self.size, self.sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """What a folder holds.

    Attributes:
        files: Its files, sorted by path.
        git_tree: The id git gives a tree object of the same content.
        sha256: Digest over path, mode, size and SHA-256 of every file.
    """

    files: tuple[TreeFile, ...]
    git_tree: str
    sha256: str

    def difference(self, other: Tree) -> list[str]:
        """Name each path that differs from another tree, with what happened."""
        ours = {file.path: file for file in self.files}
        theirs = {file.path: file for file in other.files}
        found = []
        for path in sorted(ours.keys() | theirs.keys()):
            if path not in theirs:
                found.append(f"{path} removed")
            elif path not in ours:
                found.append(f"{path} added")
            elif ours[path].identity != theirs[path].identity:
                found.append(f"{path} changed")
        return found

    def manifest(self) -> list[list[object]]:
        """Return the files as rows of path, mode, size and SHA-256."""
        return [[file.path, file.mode, file.size, file.sha256] for file in self.files]


def read_tree(
    folder: Path,
    exclude: tuple[str, ...] = (),
    *,
    copy_to: Path | None = None,
    whole: bool = False,
) -> Tree:
    """Read every file below a folder, once.

    Args:
        folder: An existing directory.
        exclude: Patterns of relative paths or names that are left out, beside
            `ALWAYS_EXCLUDED`. Folders that hold a journal are run folders and are
            left out too.
        copy_to: An existing empty directory that receives the very bytes that
            were hashed; files are made read-only.
        whole: Leave nothing out, not even what is always left out: a bytecode cache
            in a copy that never had one runs instead of the source beside it.

    Returns:
        The tree. Empty folders do not count, as in git.

    Raises:
        ArtifactError: A special file, a link that leaves the folder, a name that
            is not UTF-8, or a file that can't be read.
    """
    patterns = None if whole else ALWAYS_EXCLUDED + exclude
    files: list[TreeFile] = []
    try:
        for path, entry in _walk(folder, "", patterns):
            files.append(_read(path, entry, copy_to))
    except OSError as error:
        raise ArtifactError(f"{error.filename}: {error.strerror}") from error
    files.sort(key=lambda file: file.path)
    rows = [[file.path, file.mode, file.size, file.sha256] for file in files]
    return Tree(files=tuple(files), git_tree=_git_tree(files), sha256=digest(rows))


def _walk(
    folder: Path, prefix: str, patterns: tuple[str, ...] | None
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = prefix + entry.name
            try:
                path.encode()
            except UnicodeEncodeError as error:
                raise ArtifactError(f"{path!r}: the name is not UTF-8") from error
            if any(
                fnmatch.fnmatchcase(entry.name, pattern)
                or fnmatch.fnmatchcase(path, pattern)
                for pattern in patterns or ()
            ):
                continue
            if entry.is_dir(follow_symlinks=False):
                if patterns is None or not Path(entry.path, _RUN_MARKER).exists():
                    yield from _walk(Path(entry.path), path + "/", patterns)
            else:
                yield path, entry


def _read(path: str, entry: os.DirEntry[str], copy_to: Path | None) -> TreeFile:
    if entry.is_symlink():
        return _read_link(path, entry, copy_to)
    if not entry.is_file(follow_symlinks=False):
        raise ArtifactError(f"{entry.path}: neither a file, a folder nor a link")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(entry.path, flags)
    with os.fdopen(descriptor, "rb") as source:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise ArtifactError(f"{entry.path}: became a special file while read")
        mode = "100755" if info.st_mode & stat.S_IXUSR else "100644"
        sink = _open_copy(copy_to, path) if copy_to is not None else None
        try:
            plain, blob, size = _hash(source.read, info.st_size, sink)
        finally:
            if sink is not None:
                os.fchmod(sink, 0o555 if mode == "100755" else 0o444)
                os.close(sink)
    if size != info.st_size:
        raise ArtifactError(f"{entry.path}: changed size while it was read; try again")
    return TreeFile(path=path, mode=mode, size=size, sha256=plain, blob=blob)


def _open_copy(root: Path, path: str) -> int:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    return os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _hash(
    read: Callable[[int], bytes], length: int, sink: int | None
) -> tuple[str, str, int]:
    plain = hashlib.sha256()
    # Git's object format names SHA-1; the SHA-256 beside it is what is trusted.
    blob = hashlib.sha1(b"blob %d\0" % length, usedforsecurity=False)
    size = 0
    while chunk := read(_CHUNK):
        plain.update(chunk)
        blob.update(chunk)
        size += len(chunk)
        view = memoryview(chunk)
        while sink is not None and view:
            view = view[os.write(sink, view) :]
    return plain.hexdigest(), blob.hexdigest(), size


def _read_link(path: str, entry: os.DirEntry[str], copy_to: Path | None) -> TreeFile:
    target = os.readlink(entry.path)  # noqa: PTH115 - the exact text, unnormalised
    inside = os.path.normpath(os.path.join(os.path.dirname(path), target))  # noqa: PTH118, PTH120 - lexical on purpose
    if os.path.isabs(target) or (inside + os.sep).startswith(os.pardir + os.sep):  # noqa: PTH117 - a text, not a path here
        raise ArtifactError(
            f"{entry.path}: links to {target!r} outside the tree; copy the file "
            "in or exclude the link"
        )
    try:
        raw = target.encode()
    except UnicodeEncodeError as error:
        raise ArtifactError(f"{entry.path}: its target is not UTF-8") from error
    if copy_to is not None:
        link = copy_to / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    blob = hashlib.sha1(b"blob %d\0" % len(raw) + raw, usedforsecurity=False)
    return TreeFile(
        path=path,
        mode="120000",
        size=len(raw),
        sha256=hashlib.sha256(raw).hexdigest(),
        blob=blob.hexdigest(),
    )


def _git_tree(files: list[TreeFile]) -> str:
    root: dict[str, object] = {}
    for file in files:
        *folders, name = file.path.split("/")
        node = root
        for folder in folders:
            child = node.setdefault(folder, {})
            assert isinstance(child, dict)
            node = child
        node[name] = file
    return _git_tree_object(root)


def _git_tree_object(node: dict[str, object]) -> str:
    entries = []
    for name, child in node.items():
        if isinstance(child, TreeFile):
            entries.append((name.encode(), child.mode, child.blob))
        else:
            assert isinstance(child, dict)
            # Git sorts a folder as if its name ended in a slash.
            entries.append((name.encode() + b"/", "40000", _git_tree_object(child)))
    body = b"".join(
        mode.encode() + b" " + name.removesuffix(b"/") + b"\0" + bytes.fromhex(blob)
        for name, mode, blob in sorted(entries)
    )
    return hashlib.sha1(
        b"tree %d\0" % len(body) + body, usedforsecurity=False
    ).hexdigest()

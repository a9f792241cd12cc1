"""Freeze a study's files into a read-only snapshot and prove that it still holds.

Workers run from the snapshot, never from the folder people edit: what was hashed
is what runs, and an edit in the middle of a study changes nothing.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lazycore.experiments._errors import ArtifactError
from lazycore.experiments._tree import Tree, read_tree

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Snapshot", "take_snapshot"]

_Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A read-only copy of a study's tree.

    Attributes:
        root: Where the copy lies.
        tree: What it must hold.
        stamps: Inode, size and times of each file and folder when it was last hashed.
    """

    root: Path
    tree: Tree
    stamps: dict[str, _Stamp]

    def attest(self) -> None:
        """Read every byte again and compare.

        Raises:
            ArtifactError: A file was added, removed or changed; names it.
        """
        found = read_tree(self.root, whole=True)
        if found.sha256 != self.tree.sha256:
            names = "; ".join(self.tree.difference(found)[:5])
            raise ArtifactError(f"the snapshot drifted from the lock: {names}")

    def changed(self) -> list[str]:
        """Name the files whose inode, size or times changed; reads no content.

        A folder changes when a name is added to it or removed.
        """
        now = _stamps(self.root, self.tree)
        return [path for path, stamp in self.stamps.items() if now.get(path) != stamp]


def take_snapshot(
    folder: Path, exclude: tuple[str, ...], target: Path, expected: str
) -> Snapshot:
    """Copy a tree into a folder, or adopt the copy an earlier session made.

    Args:
        folder: The study's tree.
        exclude: Patterns that are left out.
        target: Where the copy goes.
        expected: SHA-256 of the tree as the lock states it.

    Raises:
        ArtifactError: The folder or the copy differs from the lock.
    """
    if target.exists():
        tree = read_tree(target, whole=True)
        if tree.sha256 != expected:
            raise ArtifactError(
                f"{target}: the snapshot is not the locked tree any more; remove "
                "that folder to take it again"
            )
        return Snapshot(root=target, tree=tree, stamps=_stamps(target, tree))
    partial = target.with_name(f"{target.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    tree = read_tree(folder, exclude, copy_to=partial)
    if tree.sha256 != expected:
        shutil.rmtree(partial)
        raise ArtifactError(f"{folder}: changed since it was locked; lock it again")
    partial.replace(target)
    snapshot = Snapshot(root=target, tree=tree, stamps=_stamps(target, tree))
    snapshot.attest()
    return snapshot


def _stamps(root: Path, tree: Tree) -> dict[str, _Stamp]:
    files = [PurePosixPath(file.path) for file in tree.files]
    folders = {folder for file in files for folder in file.parents}
    stamps = {}
    for path in [*files, *sorted(folders)]:
        try:
            info = os.lstat(root / path)
        except OSError:
            continue
        stamps[str(path)] = (
            info.st_ino,
            info.st_size,
            info.st_mtime_ns,
            info.st_ctime_ns,
        )
    return stamps

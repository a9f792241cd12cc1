"""Attest a git checkout without running git: its HEAD, and the tree of its files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazycore.experiments._canonical import sha256_hex
from lazycore.experiments._errors import ArtifactError
from lazycore.experiments._tree import Tree, read_tree

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Checkout", "read_checkout", "read_head"]

_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A checkout whose HEAD and files are what was pinned.

    Attributes:
        root: Where it lies; never enters a receipt.
        head: Commit id.
        tree: What its files are.
    """

    root: Path
    head: str
    tree: Tree

    def identity(self) -> dict[str, str]:
        """Return the identity for receipts: digests, never the path."""
        return {
            "path_sha256": sha256_hex(str(self.root).encode()),
            "head": self.head,
            "tree": self.tree.git_tree,
            "content_sha256": self.tree.sha256,
        }


def read_checkout(path: Path, *, revision: str, tree: str) -> Checkout:
    """Read a checkout and compare it with its pins.

    Every file counts, ignored and untracked ones too, whatever the index says of
    them; so the tree id of the files equals the commit's only in a clean checkout.

    Raises:
        ArtifactError: No git root, another HEAD, or other files.
    """
    root = path.resolve()
    if not root.is_dir():
        raise ArtifactError(f"{path}: no directory")
    head = read_head(root)
    if head != revision:
        raise ArtifactError(f"{path}: HEAD is {head[:12]}, pinned is {revision[:12]}")
    found = read_tree(root)
    if found.git_tree != tree:
        raise ArtifactError(
            f"{path}: its files are tree {found.git_tree[:12]}, pinned {tree[:12]}; "
            "a file was changed, added or ignored, or the checkout converts line ends"
        )
    return Checkout(root=root, head=head, tree=found)


def read_head(root: Path) -> str:
    """Return the commit id of a checkout's HEAD by reading its files.

    Raises:
        ArtifactError: It is no git root, or HEAD can't be resolved.
    """
    folder = root / ".git"
    if folder.is_file():  # a worktree or submodule points to its folder
        line = folder.read_text(encoding="utf-8", errors="replace").strip()
        folder = (root / line.removeprefix("gitdir:").strip()).resolve()
    if not (folder / "HEAD").is_file():
        raise ArtifactError(f"{root}: not the root of a git checkout")
    common = folder
    if (folder / "commondir").is_file():
        common = (folder / (folder / "commondir").read_text().strip()).resolve()
    value = (folder / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    for _ in range(5):  # as many symbolic references as git follows
        if _OBJECT_ID.fullmatch(value):
            return value
        name = value.removeprefix("ref:").strip()
        value = _reference(folder, common, name)
    raise ArtifactError(f"{root}: HEAD does not resolve to a commit")


def _reference(folder: Path, common: Path, name: str) -> str:
    if not name.startswith("refs/") or ".." in name.split("/"):
        raise ArtifactError(
            f"{folder}: HEAD names {name[:80]!r}, which is no reference"
        )
    for place in (folder, common):
        loose = place / name
        if loose.is_file():
            return loose.read_text(encoding="utf-8", errors="replace").strip()
    packed = common / "packed-refs"
    if packed.is_file():
        for line in packed.read_text(encoding="utf-8", errors="replace").splitlines():
            value, _, found = line.partition(" ")
            if found == name:
                return value
    raise ArtifactError(f"{folder}: {name} does not exist; the branch has no commit")

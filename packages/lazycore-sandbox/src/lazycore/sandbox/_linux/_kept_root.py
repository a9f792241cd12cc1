"""A root that is built once and copied for every run of the same plan.

One call copies it with all its mounts, so a run pays for what is its own alone: its
scratch file systems and its terminals. Its /proc is that of the slot's pid namespace,
shut to all but the run's own processes.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._landlock import (
    READ,
    TERMINAL,
    WRITE,
    allow,
    effective,
    scoped_ruleset,
)
from lazycore.sandbox._linux._mounts import (
    SCRATCH,
    Root,
    make_directory,
    make_mount_point,
    new_scratch,
    new_terminals,
)
from lazycore.sandbox._linux._proc import cover
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazycore.sandbox._linux._landlock import Rule
    from lazycore.sandbox._linux._request import Request

_Shown = tuple[str, int, int]
"""(path, device, inode) of something that the plan did not pin."""


class KeptRoot(Root):
    """The root of one plan.

    What the plan shows inside a run's scratch directories waits beside the root,
    because it has to be mounted on top of them.

    Args:
        request: A request that has the plan.
        covers: The paths that have mounts of their own inside what is shown.
        old: Descriptor of the root whose paths are shown.
        proc: Descriptor of the /proc that is shown, read-only.
        shelf: Directory in which it is kept.
        name: Its name there.
    """

    def __init__(
        self,
        request: Request,
        covers: list[str],
        *,
        old: int,
        proc: int,
        shelf: int,
        name: str,
    ) -> None:
        os.mkdir(name, dir_fd=shelf)
        self._shelf = shelf
        self._name = name
        self._late: list[tuple[str, bool, int]] = []
        self._late_links: list[tuple[str, str]] = []
        base = request["base"]
        super().__init__(executable=base["executable"], old=old, place=shelf, name=name)
        for place in (*SCRATCH, "dev/pts", "proc"):
            self.directory(place)
        self.base(base)
        for bind in request["binds"]:
            self.step(bind)
        self._show_proc(proc, base["hidden"])
        _calls.mount_setattr(self._root, add=_calls.ATTR_RDONLY, recursive=False)
        self._unpinned = [
            _seen(bind[1])
            for bind in (*base["system"], *request["binds"])
            if not bind[4]
        ]
        self._covers = {path: self._cover(path) for path in covers}
        abi = request["landlock_abi"]
        self._granted = effective(self.rules, abi=abi)
        self._abi = abi

    def _show_proc(self, proc: int, hidden: Iterable[str]) -> None:
        tree = _calls.open_tree(proc, _calls.OPEN_TREE_CLONE)
        _calls.mount_setattr(tree, add=_calls.ATTR_RDONLY, recursive=False)
        _calls.move_mount(tree, self._root, "proc")
        self.rules.append((tree, READ))
        os.fchdir(self._root)
        cover(hidden)
        os.chdir("/")

    def _cover(self, path: str) -> int:
        """Return the number of the mount on a path inside what is shown.

        Raises:
            StageError: If the host removed what it was on, and so the mount.
        """
        mount = self._mount_at(path)
        if mount == self._mount_at(os.path.dirname(path)):
            raise StageError("replaced", errno.ESTALE, path)
        return mount

    def _mount_at(self, path: str) -> int:
        root, below = self._root, path
        for top, _, fd in self._late:
            if path == top or path.startswith(top + "/"):
                root, below = fd, path[len(top) :]
        place = _calls.open_beneath_root(below, root)
        try:
            return _calls.mount_id(place)
        finally:
            os.close(place)

    def uncovered(self) -> str:
        """Return a path that is not covered any more; empty when all are."""
        for path, mount in self._covers.items():
            try:
                found = self._mount_at(path)
            except OSError:
                return path
            if found != mount:
                return path
        return ""

    def is_current(self) -> bool:
        """Tell whether it shows what a root that was built now would show."""
        try:
            same = all(_seen(shown[0]) == shown for shown in self._unpinned)
        except OSError:
            return False
        return same and not self.uncovered()

    def link(self, path: str, target: str) -> None:
        """Repeat a symbolic link of the host."""
        if _in_scratch(path):
            self._late_links.append((path, target))
        else:
            super().link(path, target)

    def _attach(self, tree: int, path: str, *, is_dir: bool) -> None:
        if not _in_scratch(path):
            super()._attach(tree, path, is_dir=is_dir)
            return
        for top, _, fd in self._late:
            if path == top or path.startswith(top + "/"):
                place = _calls.open_beneath_root(path[len(top) :], fd)
                _calls.move_mount_onto(tree, place)
                os.close(place)
                return
        name = f"{self._name}-{len(self._late)}"
        make_mount_point(self._shelf, name, is_dir=is_dir)
        _calls.move_mount(tree, self._shelf, name)
        self._late.append((path, is_dir, tree))

    def copies(self) -> list[int]:
        """Copy the root, and what has to be mounted later; in the shelf's namespace."""
        trees = [
            _calls.open_tree(self._root, _calls.OPEN_TREE_CLONE | _calls.AT_RECURSIVE)
        ]
        for _, is_dir, fd in self._late:
            recursive = _calls.AT_RECURSIVE if is_dir else 0
            trees.append(_calls.open_tree(fd, _calls.OPEN_TREE_CLONE | recursive))
        return trees

    def furnish(self, trees: list[int], scratch_bytes: int) -> list[Rule]:
        """Add what is the run's own, in the run's mount namespace.

        Args:
            trees: What `copies` made; the first is mounted already.
            scratch_bytes: Size of each scratch file system.

        Returns:
            Landlock rules for what was added.
        """
        root, *late = trees
        rules: list[Rule] = []
        for place in SCRATCH:
            tree = new_scratch(scratch_bytes, self._noexec)
            _calls.move_mount(tree, root, place)
            rules.append((tree, WRITE | self._execute))
        terminals = new_terminals()
        _calls.move_mount(terminals, root, "dev/pts")
        rules.append((terminals, TERMINAL))
        for (path, is_dir, _), tree in zip(self._late, late, strict=True):
            make_mount_point(root, path, is_dir=is_dir)
            point = _calls.open_beneath_root(path, root)
            _calls.move_mount_onto(tree, point)
            os.close(point)
        for path, target in self._late_links:
            make_directory(root, os.path.dirname(path))
            os.symlink(target, path[1:], dir_fd=root)
        return rules

    def ruleset(self, own: list[Rule]) -> int:
        """Make a Landlock ruleset of the plan's rules and the run's own."""
        ruleset = scoped_ruleset(self._abi)
        allow(ruleset, self._granted)
        allow(ruleset, effective(own, abi=self._abi))
        return ruleset

    def discard(self, shelf_path: str) -> None:
        """Unmount it; runs that have a copy keep theirs."""
        for fd, _ in self.rules:
            os.close(fd)
        _calls.detach(f"{shelf_path}/{self._name}")
        for at in range(len(self._late)):
            _calls.detach(f"{shelf_path}/{self._name}-{at}")


def _in_scratch(path: str) -> bool:
    return any(f"{path}/".startswith(f"/{place}/") for place in SCRATCH)


def _seen(path: str) -> _Shown:
    info = os.stat(path, follow_symlinks=False)
    return (path, info.st_dev, info.st_ino)

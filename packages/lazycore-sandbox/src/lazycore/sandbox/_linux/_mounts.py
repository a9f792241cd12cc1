"""Build the part of a target's root that its policy and the host decide.

Runs in a mount namespace of the launcher's children. Sources are opened relative to
the old root without following any link and compared with the inode that the preflight
pinned; mount points are addressed by descriptor. Nothing is ever created outside the
new root's tmpfs.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._landlock import (
    DEVICE,
    EXECUTE,
    READ,
    READ_DIR,
    WRITE,
    Rule,
)
from lazycore.sandbox._linux._stage import StageError

SCRATCH = ("tmp", "dev/shm")
"""Where every run has a file system of its own, relative to its root."""
QUIET = _calls.ATTR_NOSUID | _calls.ATTR_NODEV
_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
if TYPE_CHECKING:
    from lazycore.sandbox._linux._plan import Bind
    from lazycore.sandbox._linux._request import Request


class Root:
    """The part of a root that does not depend on the run, while it is being built.

    Args:
        executable: Whether programs may be executed from what is mounted.
        old: Descriptor of the root whose paths are shown.
        place: Directory that has the mount point.
        name: Its name there.

    Attributes:
        rules: Landlock rules for what was mounted so far.
    """

    def __init__(self, *, executable: bool, old: int, place: int, name: str) -> None:
        self._noexec = 0 if executable else _calls.ATTR_NOEXEC
        self._execute = EXECUTE if executable else 0
        self.rules: list[Rule] = []
        self._bound: list[str] = []
        self._old = old
        options: dict[str, str | None] = {"mode": "0755", "size": "1m"}
        root = _calls.new_mount("tmpfs", options, QUIET)
        _calls.move_mount(root, place, name)
        self._root = root
        self.rules.append((root, READ_DIR))

    def base(self, base: Request) -> None:
        """Show what many runs have in common: all but the policy's own paths."""
        for bind in base["system"]:
            self.step(bind)
        for path, target in base["links"]:
            self.link(path, target)
        for path, content in base["files"]:
            self.file(path, content)
        self.devices()

    def step(self, bind: Bind) -> None:
        """Do one step of the mount plan.

        Raises:
            StageError: If it fails; names the step and the path.
        """
        kind, path = bind[:2]
        try:
            if kind == "mask":
                self.mask(bind)
            else:
                self.bind(bind)
        except OSError as error:
            raise StageError(kind, error.errno or 0, path) from error

    def directory(self, path: str) -> None:
        """Create a directory and its parents on the new root's tmpfs."""
        make_directory(self._root, path)

    def link(self, path: str, target: str) -> None:
        """Repeat a symbolic link of the host."""
        self.directory(os.path.dirname(path))
        try:
            os.symlink(target, path.lstrip("/"), dir_fd=self._root)
        except FileExistsError as error:
            raise StageError("link", errno.EEXIST, path) from error

    def file(self, path: str, content: bytes) -> None:
        """Write a small read-only file on the new root's tmpfs."""
        self.directory(os.path.dirname(path))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(path.lstrip("/"), flags, 0o444, dir_fd=self._root)
        try:
            os.write(fd, content)
        finally:
            os.close(fd)
        place = os.open(path.lstrip("/"), os.O_PATH | os.O_CLOEXEC, dir_fd=self._root)
        self.rules.append((place, READ))

    def bind(self, bind: Bind) -> None:
        """Show the host's path of one step at the same place."""
        kind, path, is_dir, device, inode = bind
        writable = kind in {"write", "pin"}
        noexec = 0 if kind in {"library", "run"} else self._noexec
        execute = EXECUTE if kind == "run" else self._execute
        source = self._source(path, device, inode)
        tree = _calls.open_tree(
            source, _calls.OPEN_TREE_CLONE | (_calls.AT_RECURSIVE if is_dir else 0)
        )
        os.close(source)
        attributes = QUIET | (0 if writable else _calls.ATTR_RDONLY) | noexec
        _calls.mount_setattr(tree, add=attributes, recursive=is_dir)
        self._attach(tree, path, is_dir=is_dir)
        rights = WRITE if writable else READ
        self.rules.append((tree, rights | execute))
        self._bound.append(path)

    def mask(self, bind: Bind) -> None:
        """Cover the host's path by something empty that nobody may open."""
        _, path, is_dir, device, inode = bind
        os.close(self._source(path, device, inode))
        name = "masked-directory" if is_dir else "masked-file"
        try:
            if is_dir:
                os.mkdir(name, 0o000, dir_fd=self._root)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                os.close(os.open(name, flags, 0o000, dir_fd=self._root))
        except FileExistsError:
            pass
        place = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=self._root)
        tree = _calls.open_tree(place, _calls.OPEN_TREE_CLONE)
        os.close(place)
        attributes = QUIET | _calls.ATTR_RDONLY | _calls.ATTR_NOEXEC
        _calls.mount_setattr(tree, add=attributes, recursive=False)
        self._attach(tree, path, is_dir=is_dir)
        os.close(tree)

    def devices(self) -> None:
        """Show the five harmless devices."""
        self.directory("dev")
        for name, minor in _DEVICES.items():
            source = _calls.open_beneath_root(f"/dev/{name}", self._old)
            info = os.fstat(source)
            if not stat.S_ISCHR(info.st_mode) or info.st_rdev != os.makedev(1, minor):
                raise StageError("device", errno.ENODEV, f"/dev/{name}")
            tree = _calls.open_tree(source, _calls.OPEN_TREE_CLONE)
            os.close(source)
            harden_device(tree)
            self._attach(tree, f"/dev/{name}", is_dir=False)
            self.rules.append((tree, DEVICE))
        for name, target in _DEVICE_LINKS.items():
            os.symlink(target, f"dev/{name}", dir_fd=self._root)

    def _source(self, path: str, device: int, inode: int) -> int:
        try:
            source = _calls.open_beneath_root(path, self._old)
        except OSError as error:
            raise StageError("open", error.errno or 0, path) from error
        if inode:
            info = os.fstat(source)
            if (info.st_dev, info.st_ino) != (device, inode):
                os.close(source)
                raise StageError("replaced", errno.ESTALE, path)
        return source

    def _attach(self, tree: int, path: str, *, is_dir: bool) -> None:
        inside = any(
            path == bound or path.startswith(bound + "/") for bound in self._bound
        )
        # Below a bound tree the mount point exists already: making it would
        # change the host.
        if not inside:
            make_mount_point(self._root, path, is_dir=is_dir)
        try:
            place = _calls.open_beneath_root(path, self._root)
        except OSError as error:
            raise StageError("mount point", error.errno or 0, path) from error
        try:
            _calls.move_mount_onto(tree, place)
        except OSError as error:
            raise StageError("mount", error.errno or 0, path) from error
        finally:
            os.close(place)


def make_directory(root: int, path: str) -> None:
    """Create a directory and its parents below the directory `root`."""
    made = ""
    for part in filter(None, path.split("/")):
        made = f"{made}/{part}" if made else part
        try:
            os.mkdir(made, 0o755, dir_fd=root)
        except FileExistsError:
            continue


def make_mount_point(root: int, path: str, *, is_dir: bool) -> None:
    """Create what something can be mounted on below the directory `root`."""
    if is_dir:
        make_directory(root, path)
        return
    make_directory(root, os.path.dirname(path))
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    os.close(os.open(path.lstrip("/"), flags, 0o444, dir_fd=root))


def harden_device(tree: int) -> None:
    """Keep a root caller's target from changing the node itself.

    A read-only mount does not stop writing to a device, only to its inode.
    """
    attributes = _calls.ATTR_NOSUID | _calls.ATTR_NOEXEC | _calls.ATTR_RDONLY
    _calls.mount_setattr(tree, add=attributes, recursive=False)


def new_scratch(size_bytes: int, attributes: int) -> int:
    """Make an empty file system of bounded size for one run."""
    options: dict[str, str | None] = {
        "mode": "1777",
        "size": str(size_bytes),
        "nr_inodes": "200000",
    }
    return _calls.new_mount("tmpfs", options, QUIET | attributes)


def new_terminals() -> int:
    """Make a private terminal multiplexer for one run."""
    options: dict[str, str | None] = {"mode": "0620", "ptmxmode": "0666"}
    return _calls.new_mount("devpts", options, _calls.ATTR_NOSUID | _calls.ATTR_NOEXEC)

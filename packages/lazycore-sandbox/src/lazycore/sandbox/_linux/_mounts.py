"""Build the target's root inside its own mount namespace, from a plan.

Runs in the launcher's child. Sources are opened relative to the old root without
following any link and compared with the inode that the preflight pinned; mount points
are addressed by descriptor. Nothing is ever created outside the new root's tmpfs.
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
    TERMINAL,
    WRITE,
    Rule,
)
from lazycore.sandbox._linux._stage import StageError

_RESERVED_PIDS = 300
_QUIET = _calls.ATTR_NOSUID | _calls.ATTR_NODEV
_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
KEY_NAMES = ("key-users", "keys")
"""Files of /proc that name the caller's keys to every process of that user."""
# Files of /proc that uid 0 may open without any capability and that speak of the
# host: a root caller's target is that uid for the kernel.
PROC_SECRETS = (
    "iomem",
    "ioports",
    "kcore",
    *KEY_NAMES,
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "pagetypeinfo",
    "sched_debug",
    "slabinfo",
    "timer_list",
    "vmallocinfo",
)


if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazycore.sandbox._linux._plan import Bind


class Root:
    """The new root while it is being built.

    Attributes:
        rules: Landlock rules for what was mounted so far.
    """

    def __init__(self, *, executable: bool) -> None:
        # /proc is where the new root waits: no policy path can lie in it, so it
        # hides no source.
        self._noexec = 0 if executable else _calls.ATTR_NOEXEC
        self._execute = EXECUTE if executable else 0
        self.rules: list[Rule] = []
        self._bound: list[str] = []
        self._old = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        _calls.mount_setattr(
            self._old, add=0, recursive=True, propagation=_calls.MS_PRIVATE
        )
        self._proc = _calls.new_mount("proc", {}, _QUIET | _calls.ATTR_NOEXEC)
        options: dict[str, str | None] = {"mode": "0755", "size": "1m"}
        root = _calls.new_mount("tmpfs", options, _QUIET)
        _calls.move_mount(root, self._old, "proc")
        self._root = root
        self.rules.append((root, READ_DIR))

    def directory(self, path: str) -> None:
        """Create a directory and its parents on the new root's tmpfs."""
        made = ""
        for part in filter(None, path.split("/")):
            made = f"{made}/{part}" if made else part
            try:
                os.mkdir(made, 0o755, dir_fd=self._root)
            except FileExistsError:
                continue

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
        attributes = _QUIET | (0 if writable else _calls.ATTR_RDONLY) | noexec
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
        attributes = _QUIET | _calls.ATTR_RDONLY | _calls.ATTR_NOEXEC
        _calls.mount_setattr(tree, add=attributes, recursive=False)
        self._attach(tree, path, is_dir=is_dir)
        os.close(tree)

    def scratch(self, size_bytes: int) -> None:
        """Mount a private /tmp and a private /dev/shm of `size_bytes` each."""
        options: dict[str, str | None] = {
            "mode": "1777",
            "size": str(size_bytes),
            "nr_inodes": "200000",
        }
        for place in ("tmp", "dev/shm"):
            tmpfs = _calls.new_mount("tmpfs", options, _QUIET | self._noexec)
            self.directory(place)
            _calls.move_mount(tmpfs, self._root, place)
            self.rules.append((tmpfs, WRITE | self._execute))

    def devices(self) -> None:
        """Show the five harmless devices and a private terminal multiplexer."""
        self.directory("dev/pts")
        for name, minor in _DEVICES.items():
            source = _calls.open_beneath_root(f"/dev/{name}", self._old)
            info = os.fstat(source)
            if not stat.S_ISCHR(info.st_mode) or info.st_rdev != os.makedev(1, minor):
                raise StageError("device", errno.ENODEV, f"/dev/{name}")
            tree = _calls.open_tree(source, _calls.OPEN_TREE_CLONE)
            os.close(source)
            _harden_device(tree)
            self._attach(tree, f"/dev/{name}", is_dir=False)
            self.rules.append((tree, DEVICE))
        options: dict[str, str | None] = {"mode": "0620", "ptmxmode": "0666"}
        attributes = _calls.ATTR_NOSUID | _calls.ATTR_NOEXEC
        terminals = _calls.new_mount("devpts", options, attributes)
        _calls.move_mount(terminals, self._root, "dev/pts")
        self.rules.append((terminals, TERMINAL))
        for name, target in _DEVICE_LINKS.items():
            os.symlink(target, f"dev/{name}", dir_fd=self._root)

    def processes(
        self, *, limit: int | None, hidden: Iterable[str], writable: bool
    ) -> None:
        """Mount this pid namespace's /proc, read-only as a whole.

        Args:
            limit: How many pids the namespace may use beside this process; only
                for kernels on which pid_max belongs to the namespace.
            hidden: Files to cover.
            writable: Leave it writable, for a session's server: the kernel lets
                its children mount a /proc only where they see a whole one.
        """
        if limit is not None:
            # Numbers below RESERVED_PIDS are given out once only (kernel/pid.c),
            # so starting there leaves exactly `limit` of them, for uid 0 as well.
            self._set("sys/kernel/ns_last_pid", _RESERVED_PIDS)
            self._set("sys/kernel/pid_max", _RESERVED_PIDS + limit)
        if not writable:
            _calls.mount_setattr(self._proc, add=_calls.ATTR_RDONLY, recursive=False)
        self.directory("proc")
        _calls.move_mount(self._proc, self._root, "proc")
        self.rules.append((self._proc, READ))
        for name in hidden:
            self._cover_proc(name)

    def _set(self, name: str, value: int) -> None:
        try:
            fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._proc)
            try:
                os.write(fd, b"%d" % value)
            finally:
                os.close(fd)
        except OSError as error:
            raise StageError("pid limit", error.errno or 0, name) from error

    def _cover_proc(self, name: str) -> None:
        try:
            place = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=self._proc)
        except FileNotFoundError:
            return
        os.close(place)
        device = _calls.open_beneath_root("/dev/null", self._old)
        tree = _calls.open_tree(device, _calls.OPEN_TREE_CLONE)
        os.close(device)
        _harden_device(tree)
        _calls.move_mount(tree, self._proc, name)
        os.close(tree)

    def enter(self) -> None:
        """Make the root read-only, step into it and drop the old one."""
        _calls.mount_setattr(self._root, add=_calls.ATTR_RDONLY, recursive=False)
        os.fchdir(self._root)
        _calls.pivot_root(".", ".")
        # pivot_root(2): the old root is now stacked on the new one.
        _calls.detach(".")
        os.chdir("/")
        os.close(self._old)

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
            self._mount_point(path, is_dir=is_dir)
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

    def _mount_point(self, path: str, *, is_dir: bool) -> None:
        if is_dir:
            self.directory(path)
            return
        self.directory(os.path.dirname(path))
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        os.close(os.open(path.lstrip("/"), flags, 0o444, dir_fd=self._root))


def _harden_device(tree: int) -> None:
    """Keep a root caller's target from changing the node itself.

    A read-only mount does not stop writing to a device, only to its inode.
    """
    attributes = _calls.ATTR_NOSUID | _calls.ATTR_NOEXEC | _calls.ATTR_RDONLY
    _calls.mount_setattr(tree, add=attributes, recursive=False)

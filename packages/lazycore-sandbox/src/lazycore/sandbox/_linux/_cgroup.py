"""Control groups: bounds of a whole run that the kernel keeps, not a sample.

The launcher makes a group for a slot, or for a process that serves one run; that
process enters it before anything else, and what it starts is born in it. Both versions
of the interface are spoken: cgroups(7).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import NoReturn

from lazycore.sandbox._linux._stage import StageError

Bounds = dict[str, tuple[int, str, int]]
"""By controller: the version, the directory in which groups are made, and the bound:
bytes for `memory`, processes and threads for `pids`."""

_PREFIX = "lazycore-sandbox-"
_OUR_BYTES = 16 << 20
"""What our own process in the group may use, above what the run may."""
_OUR_TASKS = 8
_TICK_S = 0.002
_MOST_TASKS = 1 << 22
"""The kernel takes no larger bound: PID_MAX_LIMIT."""
_MEMORY = {1: "memory.limit_in_bytes", 2: "memory.max"}
_SWAP = {1: "memory.memsw.limit_in_bytes", 2: "memory.swap.max"}
_KILLS = {1: "memory.oom_control", 2: "memory.events"}
_FIRST_VICTIM = b"1000"


class Group:
    """A group of its own in each hierarchy that bounds something.

    Its directories are locked as long as this process lives, so that `sweep` tells what
    a killed one left.

    Args:
        bounds: What to bound.
        own_tasks: How many processes and threads of ours may be in it, too.

    Raises:
        StageError: If the kernel refuses a step.
    """

    def __init__(self, bounds: Bounds, *, own_tasks: int = _OUR_TASKS) -> None:
        self._bounds = bounds
        self._folders: dict[str, tuple[str, int]] = {}
        path = ""
        try:
            for controller, (version, parent, bound) in bounds.items():
                path = parent
                if parent not in self._folders:
                    self._folders[parent] = _make(parent)
                path = self._folders[parent][0]
                if controller == "memory":
                    _bound_memory(path, version, bound + _OUR_BYTES)
                else:
                    _write(f"{path}/pids.max", _tasks(bound, own_tasks))
        except OSError as error:
            self.remove()
            _refuse(error, path)

    def doors(self) -> list[str]:
        """Name the files by which a process enters."""
        return [f"{path}/cgroup.procs" for path, _ in self._folders.values()]

    def open(self) -> list[int]:
        """Open what `Lease` takes, for a process that may not open it itself."""
        fds: list[int] = []
        try:
            fds += [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in self.doors()]
            for controller, (_, parent, _) in self._bounds.items():
                if controller == "memory":
                    path, flags = self.kills_file(), os.O_RDONLY
                else:
                    path = f"{self._folders[parent][0]}/pids.max"
                    flags = os.O_WRONLY
                fds.append(os.open(path, flags | os.O_CLOEXEC))
        except OSError as error:
            for fd in fds:
                os.close(fd)
            _refuse(error, str(error.filename))
        return fds

    def kills_file(self) -> str:
        """Name the file that counts the processes killed for their memory, if any."""
        if "memory" not in self._bounds:
            return ""
        version, parent, _ = self._bounds["memory"]
        return f"{self._folders[parent][0]}/{_KILLS[version]}"

    def remove(self, *, patience_s: float = 0) -> bool:
        """Remove it, unless a process is left, and tell whether it is gone.

        Args:
            patience_s: How long to wait. The dead leave a group a moment after they can
                be reaped.
        """
        end = time.monotonic() + patience_s
        while not self._remove() and time.monotonic() < end:
            time.sleep(_TICK_S)
        return not self._folders

    def _remove(self) -> bool:
        for parent, (path, lock) in [*self._folders.items()]:
            try:
                os.rmdir(path)
            except FileNotFoundError:
                pass  # the parent went, and took it along
            except OSError:
                continue
            os.close(lock)
            del self._folders[parent]
        return not self._folders


def sweep(bounds: Bounds) -> None:
    """Remove the groups that killed launchers left."""
    for parent in {parent for _, parent, _ in bounds.values()}:
        with contextlib.suppress(FileNotFoundError):  # `Group` will say so
            for name in os.listdir(parent):
                if name.startswith(_PREFIX):
                    _remove_unlocked(f"{parent}/{name}")


def _remove_unlocked(path: str) -> None:
    with contextlib.suppress(OSError):  # another sweep, its maker, or what is inside
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rmdir(path)
        finally:
            os.close(fd)


class Lease:
    """The side of the process that enters a group.

    Args:
        bounds: Those of the group.
        fds: What `Group.open` opened.
    """

    def __init__(self, bounds: Bounds, fds: list[int]) -> None:
        doors = len({parent for _, parent, _ in bounds.values()})
        self._doors = fds[:doors]
        named = dict(zip(bounds, fds[doors:], strict=True))
        self._kills = named.get("memory", -1)
        self._count = named.get("pids", -1)
        self._tasks = bounds["pids"][2] if "pids" in bounds else 0
        self._score = -1

    def enter(self) -> None:
        """Move this process, and with it all that it starts from now on.

        Raises:
            StageError: If the kernel refuses.
        """
        try:
            for door in self._doors:
                os.write(door, b"0")
        except OSError as error:
            _refuse(error, "cgroup.procs")

    def kept(self) -> list[int]:
        """Return the descriptors that are needed once it was entered."""
        return [fd for fd in (self._kills, self._count) if fd >= 0]

    def moved_to(self, first: int) -> None:
        """Note that those lie at `first` and behind now."""
        self._doors = []
        if self._kills >= 0:
            self._kills, first = first, first + 1
        if self._count >= 0:
            self._count = first

    def prepare(self) -> None:
        """Make ready to have the kernel choose the run, not this process."""
        if self._kills < 0:
            return
        # Closed to the server of a session without namespaces; there the target is the
        # larger of the two, being a copy of this process.
        with contextlib.suppress(PermissionError):
            # proc(5): opened while this process is dumpable.
            self._score = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._usual = os.read(self._score, 16)

    def begin(self, own: int) -> None:
        """Let a target be started by this process.

        Args:
            own: How many processes and threads of ours are in the group meanwhile.
        """
        self._admit(own)
        if self._score >= 0:
            os.pwrite(self._score, _FIRST_VICTIM, 0)

    def settle(self, own: int) -> None:
        """Bound the run exactly, now that the target was started, or was not.

        Args:
            own: As in `begin`, from now on.
        """
        if self._score >= 0:
            os.pwrite(self._score, self._usual, 0)
        self._admit(own)

    def _admit(self, own: int) -> None:
        if self._count >= 0:
            os.pwrite(self._count, b"%d" % _tasks(self._tasks, own), 0)

    def kills(self) -> int:
        """Count the processes that the kernel killed for their memory so far."""
        if self._kills < 0:
            return 0
        lines = os.pread(self._kills, 4096, 0).splitlines()
        return sum(int(line[9:]) for line in lines if line.startswith(b"oom_kill "))


def enter(lease: Lease | None) -> StageError | None:
    """Enter the group of a lease, if there is one; return what was refused."""
    try:
        if lease is not None:
            lease.enter()
    except StageError as error:
        return error
    return None


def _tasks(bound: int, own: int) -> int:
    return min(bound + own, _MOST_TASKS)


def _make(parent: str) -> tuple[str, int]:
    """Make a directory and lock it; return its path and the lock."""
    while True:
        path = f"{parent}/{_PREFIX}{os.urandom(8).hex()}"
        os.mkdir(path, 0o700)
        with contextlib.suppress(FileNotFoundError):  # swept before it was locked
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_SH)
            if os.path.exists(path):
                return path, lock
            os.close(lock)


def _bound_memory(path: str, version: int, size: int) -> None:
    _write(f"{path}/{_MEMORY[version]}", size)
    # Version 1 counts memory and swap together there, version 2 swap alone.
    with contextlib.suppress(FileNotFoundError):
        _write(f"{path}/{_SWAP[version]}", size if version == 1 else 0)


def _write(path: str, number: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, b"%d" % number)
    finally:
        os.close(fd)


def _refuse(error: OSError, path: str) -> NoReturn:
    raise StageError("control group", error.errno or 0, path) from error

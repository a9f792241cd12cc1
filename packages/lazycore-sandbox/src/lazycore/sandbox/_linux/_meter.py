"""Measure what a run uses as a whole, for limits that the kernel has per process only.

The supervisor samples while the target runs. A sample that finds a limit passed ends
the run; between two samples a target can pass it by what it does in that time.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import Any

from lazycore.sandbox._descent import Descent

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_WALK_S = 2.0
"""A workspace that takes longer to measure counts as over its limit."""


class Meter:
    """Compare a run with its limits.

    Args:
        limits: `cpu_s`, `memory_bytes` and `workspace_bytes`, each None or a bound,
            `paths` whose growth counts, and `scratch`, file systems all of which is
            the run's.
        own_pids: Whether `proc` shows the run's processes and nothing else.
        proc: Where processes are seen.

    Attributes:
        scratch: Paths or descriptors of the file systems that are the run's own.
    """

    def __init__(
        self, limits: dict[str, Any], *, own_pids: bool, proc: str = "/proc"
    ) -> None:
        self._cpu_s: float | None = limits["cpu_s"]
        self._memory: int | None = limits["memory_bytes"]
        self._workspace: int | None = limits["workspace_bytes"]
        self._paths: list[str] = limits["paths"]
        self.scratch: list[str] | list[int] = limits["scratch"]
        self._own_pids = own_pids
        self._proc = proc
        self._base = 0
        self._next_walk = 0.0
        self.active = any(
            bound is not None for bound in (self._cpu_s, self._memory, self._workspace)
        )

    @property
    def interval_ms(self) -> int | None:
        """How long to wait for events before the next sample."""
        if not self.active:
            return None
        return 10 if self._memory is not None else 25

    def start(self) -> None:
        """Note what the workspace holds before the run."""
        if self._workspace is not None:
            try:
                self._base = self._written() - self._scratch_bytes()
            except (PermissionError, TimeoutError):
                self._base = 0  # the first sample finds the same, and ends the run

    def exceeded(self, reaped_cpu_s: float) -> str | None:
        """Return the name of a limit that is passed, else None."""
        if self._cpu_s is not None or self._memory is not None:
            cpu_s, rss = self._processes()
            if self._cpu_s is not None and cpu_s + reaped_cpu_s > self._cpu_s:
                return "cpu"
            if self._memory is not None and self._over_memory(rss):
                return "memory"
        if self._workspace is not None and time.monotonic() >= self._next_walk:
            return self._over_workspace(self._workspace)
        return None

    def _over_memory(self, rss: int) -> bool:
        limit = self._memory or 0
        shared = self._scratch_bytes()
        if rss + shared <= limit:
            return False
        # Resident sizes count a shared page once per process; ask for its share.
        return (
            sum(_own_memory(f"{self._proc}/{pid}") for pid in self._pids()) + shared
            > limit
        )

    def _over_workspace(self, limit: int) -> str | None:
        began = time.monotonic()
        try:
            grown = self._written() - self._base
        except (PermissionError, TimeoutError):
            return "workspace"
        took = time.monotonic() - began
        self._next_walk = time.monotonic() + 20 * took
        return "workspace" if grown > limit else None

    def _scratch_bytes(self) -> int:
        used = 0
        for path in self.scratch:
            space = os.statvfs(path)
            used += (space.f_blocks - space.f_bfree) * space.f_frsize
        return used

    def _written(self) -> int:
        deadline = time.monotonic() + _WALK_S
        used = self._scratch_bytes()
        for path in self._paths:
            used += _tree_bytes(path, deadline)
        return used

    def _processes(self) -> tuple[float, int]:
        cpu_s, rss = 0.0, 0
        for pid in self._pids():
            try:
                with open(f"{self._proc}/{pid}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            # proc_pid_stat(5): utime, stime and those of waited-for children.
            cpu_s += sum(map(int, fields[11:15])) * _TICK_S
            rss += int(fields[21]) * _PAGE
        return cpu_s, rss

    def _pids(self) -> list[str]:
        if self._own_pids:
            return [name for name in os.listdir(self._proc) if name.isdigit()][1:]
        found: list[int] = []
        new = children_of(os.getpid())
        while new:
            found += new
            new = [child for pid in new for child in children_of(pid)]
        return [str(pid) for pid in found]


def children_of(pid: int) -> list[int]:
    """Return the living children of a process: proc_tid_children(5)."""
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                children += map(int, file.read().split())
    except OSError:
        pass  # it ended meanwhile
    return children


def _own_memory(process: str) -> int:
    """Return the anonymous and shared-memory bytes that fall to one process."""
    total = 0
    try:
        with open(f"{process}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith((b"Pss_Anon:", b"Pss_Shmem:")):
                    total += int(line.split()[1]) * 1024
    except PermissionError:
        # A process that made itself undumpable: count all of it.
        return _resident(process)
    except OSError:
        return 0
    return total


def _resident(process: str) -> int:
    try:
        with open(f"{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0


def _tree_bytes(path: str, deadline: float) -> int:
    """Return what a tree takes on its disk.

    Raises:
        PermissionError: A part of it cannot be seen, so it may hold anything.
        TimeoutError: It takes too long, or is moved about all the time.
    """
    while True:
        try:
            return _measured(path, deadline)
        except (PermissionError, TimeoutError):
            raise
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise PermissionError(error.errno, error.strerror, path) from error
        _before(deadline, path)


def _measured(path: str, deadline: float) -> int:
    info = os.stat(path, follow_symlinks=False)
    used = info.st_blocks * 512
    if not stat.S_ISDIR(info.st_mode):
        return used
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for _, info in Descent(top):
            used += info.st_blocks * 512
            _before(deadline, path)
    finally:
        os.close(top)
    return used


def _before(deadline: float, path: str) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path)

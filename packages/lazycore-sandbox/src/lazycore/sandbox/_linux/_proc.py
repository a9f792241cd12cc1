"""The /proc of one pid namespace: read-only, bounded, without the host's secrets."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._mounts import QUIET
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    from collections.abc import Iterable

RESERVED_PIDS = 300
"""A run's own pids start here; below are our processes and threads."""
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


def new_proc(limit: int | None) -> int:
    """Return a detached /proc of this process's pid namespace.

    Args:
        limit: How many pids the namespace may use beside pid 1; only for kernels on
            which pid_max belongs to the namespace.
    """
    proc = mount_proc()
    # Numbers below RESERVED_PIDS are given out once only (kernel/pid.c), so starting
    # there leaves exactly `limit` of them, for uid 0 as well.
    _set(proc, "sys/kernel/ns_last_pid", RESERVED_PIDS)
    if limit is not None:
        _set(proc, "sys/kernel/pid_max", RESERVED_PIDS + limit)
    return proc


def mount_proc(*, shut: bool = False) -> int:
    """Return a detached /proc of this process's pid namespace.

    Args:
        shut: Whether a reader finds those processes alone that it may trace, and so
            none that is not dumpable, whoever owns it: proc(5), hidepid.
    """
    options: dict[str, str | None] = {"hidepid": "ptraceable"} if shut else {}
    return _calls.new_mount("proc", options, QUIET | _calls.ATTR_NOEXEC)


def _set(proc: int, name: str, value: int) -> None:
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(fd, b"%d" % value)
        finally:
            os.close(fd)
    except OSError as error:
        raise StageError("pid limit", error.errno or 0, name) from error


class Numbers:
    """The pids of a namespace that several runs have one after the other.

    Args:
        proc: Descriptor of a writable /proc of this process's pid namespace.
    """

    def __init__(self, proc: int) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC
        self._last = os.open("sys/kernel/ns_last_pid", flags, dir_fd=proc)
        self._max = -1
        self._usual = b""
        with contextlib.suppress(PermissionError):
            # Before Linux 6.14 it is the whole host's.
            self._max = os.open("sys/kernel/pid_max", flags, dir_fd=proc)
            self._usual = os.pread(self._max, 64, 0)

    def prepare(self, limit: int | None) -> None:
        """Bound the next run, and leave what starts it out of the count.

        Args:
            limit: As in `new_proc`.
        """
        os.pwrite(self._last, b"1", 0)
        if limit is not None:
            os.pwrite(self._max, b"%d" % (RESERVED_PIDS + limit), 0)
        elif self._max >= 0:
            os.pwrite(self._max, self._usual, 0)

    def begin(self) -> None:
        """Give the run its numbers from here on."""
        os.pwrite(self._last, b"%d" % RESERVED_PIDS, 0)


def cover(names: Iterable[str]) -> None:
    """Cover files of proc/ by dev/null, both below the current directory.

    The device's mount is read-only, and so is each copy.
    """
    for name in names:
        try:
            _calls.bind_mount("dev/null", f"proc/{name}")
        except FileNotFoundError:
            continue  # not on this kernel

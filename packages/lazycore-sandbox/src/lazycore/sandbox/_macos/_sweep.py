"""Find and kill every process that runs under one run's Seatbelt profile.

macOS has no pid namespace: a process that left its group and its session is out of
reach of both. Its profile it can't leave, so the profile itself is the mark: the
kernel is asked, through ``sandbox_check`` of libSystem, which processes may write to
the run's scratch directory and yet not read the mark in it. The call is not in a
public header; where it is missing, the probe fails and nothing is promised.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from typing import Any, Final

_PATH_FILTER: Final = 1  # SANDBOX_FILTER_PATH
_ROUNDS: Final = 200


class Sweeper:
    """Knows the processes of one run by its scratch directory and mark."""

    def __init__(self, *, scratch: str, mark: str) -> None:
        self._system: Any = ctypes.CDLL("/usr/lib/libSystem.B.dylib", use_errno=True)
        # The third argument is the last fixed one: on arm64 the rest of a variadic
        # call travels on the stack, which ctypes does only past known types.
        self._check = self._system.sandbox_check
        self._check.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
        self._inside = os.fsencode(os.path.join(scratch, "any"))
        self._mark = os.fsencode(mark)

    def pids(self) -> list[int]:
        """Return the live processes of the run."""
        return [pid for pid in self._all_pids() if self._is_ours(pid)]

    def kill(self) -> int:
        """Stop, then kill, until a scan finds nobody; return how many were met.

        Raises:
            RuntimeError: some process outlived every round.
        """
        met: set[int] = set()
        for _ in range(_ROUNDS):
            found = self.pids()
            if not found:
                return len(met)
            met.update(found)
            # Stopped first, so that none forks while the others are killed.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            time.sleep(0.005)
        raise RuntimeError(f"processes {self.pids()} of the run cannot be killed")

    def _all_pids(self) -> list[int]:
        # proc_listallpids counts in elements, not bytes.
        room = int(self._system.proc_listallpids(None, 0)) + 1024
        buffer = (ctypes.c_int * room)()
        count = int(self._system.proc_listallpids(buffer, ctypes.sizeof(buffer)))
        return [pid for pid in buffer[: max(0, count)] if pid > 1]

    def _is_ours(self, pid: int) -> bool:
        check = self._check
        if pid == os.getpid() or check(pid, None, 0) != 1:
            return False
        writes = check(pid, b"file-write-data", _PATH_FILTER, self._inside)
        reads = check(pid, b"file-read-data", _PATH_FILTER, self._mark)
        return bool(writes == 0 and reads == 1)

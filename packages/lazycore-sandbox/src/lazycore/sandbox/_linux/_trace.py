"""Watch the system calls of a confined run from outside, by ptrace(2).

The run is confined as ever; the tracer only looks. It is an ancestor of the target and
of the same user, which is what the kernel and Yama ask of one.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import signal
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lazycore.sandbox._errors import SandboxLaunchError
from lazycore.sandbox._linux import _calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._result import SandboxResult

# include/uapi/linux/ptrace.h
_SEIZE, _INTERRUPT, _SYSCALL = 0x4206, 0x4207, 24
_GETEVENTMSG, _GET_SYSCALL_INFO = 0x4201, 0x420E
_SYSGOOD, _FORK, _VFORK, _CLONE, _EXEC, _EXITKILL = 1, 2, 4, 8, 16, 1 << 20
_EVENTS_WITH_CHILD: Final = {1, 2, 3}
_ENTRY, _EXIT = 1, 2
_WALL: Final = 0x40000000
_INFO: Final = struct.Struct("=B3xIQQ7Q")
_AT_FDCWD: Final = -100
_MOST: Final = 100_000
_NONSENSE: Final = (OSError, ValueError, OverflowError, struct.error)

# name -> (x86_64, aarch64, kind, index of the directory descriptor or None, index of
# the path). Kinds: o open (flags follow), m metadata, w write, x execute, c connect.
_WATCHED: Final[dict[str, tuple[int | None, int | None, str, int | None, int]]] = {
    "open": (2, None, "o", None, 0),
    "openat": (257, 56, "o", 0, 1),
    "creat": (85, None, "w", None, 0),
    "stat": (4, None, "m", None, 0),
    "lstat": (6, None, "m", None, 0),
    "newfstatat": (262, 79, "m", 0, 1),
    "statx": (332, 291, "m", 0, 1),
    "access": (21, None, "m", None, 0),
    "faccessat": (269, 48, "m", 0, 1),
    "faccessat2": (439, 439, "m", 0, 1),
    "readlink": (89, None, "m", None, 0),
    "readlinkat": (267, 78, "m", 0, 1),
    "chdir": (80, 49, "m", None, 0),
    "execve": (59, 221, "x", None, 0),
    "execveat": (322, 281, "x", 0, 1),
    "mkdir": (83, None, "w", None, 0),
    "mkdirat": (258, 34, "w", 0, 1),
    "unlink": (87, None, "w", None, 0),
    "unlinkat": (263, 35, "w", 0, 1),
    "rmdir": (84, None, "w", None, 0),
    "rename": (82, None, "w", None, 1),
    "renameat": (264, 38, "w", 2, 3),
    "renameat2": (316, 276, "w", 2, 3),
    "link": (86, None, "w", None, 1),
    "linkat": (265, 37, "w", 2, 3),
    "symlink": (88, None, "w", None, 1),
    "symlinkat": (266, 36, "w", 1, 2),
    "truncate": (76, 45, "w", None, 0),
    "chmod": (90, None, "w", None, 0),
    "fchmodat": (268, 53, "w", 0, 1),
    "connect": (42, 203, "c", None, 1),
    "socket": (41, 198, "s", None, 0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One thing a run did, or tried.

    Attributes:
        kind: `"read"`, `"metadata"`, `"write"`, `"execute"`, `"connect"` or
            `"socket"`.
        subject: The absolute path, the address, or the socket family.
        error: The errno it was answered with, 0 for success.
    """

    kind: str
    subject: str
    error: int


def _table() -> dict[int, tuple[str, int | None, int]]:
    found: dict[int, tuple[str, int | None, int]] = {}
    for x86_64, aarch64, kind, directory, path in _WATCHED.values():
        number = x86_64 if _calls.MACHINE == "x86_64" else aarch64
        if number is not None:
            found[number] = (kind, directory, path)
    return found


def trace(
    executor: BaseSandboxExecutor,
    argv: Sequence[str],
    policy: SandboxPolicy,
) -> tuple[SandboxResult, list[Access]]:
    """Run `argv` confined and report what it accessed.

    Raises:
        SandboxLaunchError: The kernel does not let the caller trace its own run.
        SandboxError: Whatever `run_command` raises.
    """
    nonce = f"lazycore-{secrets.token_hex(8)}"
    # The shell stops itself, so that nothing runs before the tracer is there.
    words = ["/bin/sh", "-c", 'kill -STOP "$$"; exec "$@"', nonce, *argv]
    ended: list[SandboxResult | BaseException] = []

    def run() -> None:
        try:
            ended.append(executor.run_command(words, policy))
        except BaseException as error:  # noqa: BLE001 - raised by the caller below
            ended.append(error)

    runner = threading.Thread(target=run)
    runner.start()
    tracer = Tracer()
    try:
        pid = _stopped(nonce.encode(), runner)
        if pid:
            tracer.follow(pid)
    finally:
        runner.join()
    (end,) = ended
    if isinstance(end, BaseException):
        raise end
    return end, tracer.accesses


def _stopped(nonce: bytes, runner: threading.Thread) -> int:
    """Return the host's number of the shell that stopped itself, 0 if none came."""
    while runner.is_alive():
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if nonce not in file.read():
                        continue
                with open(f"/proc/{name}/stat", "rb") as file:
                    if b") T " in file.read():
                        return int(name)
        time.sleep(0.002)
    return 0


class Tracer:
    """Follows a process and its descendants from one stop to the next."""

    def __init__(self) -> None:
        self._seen: dict[Access, None] = {}
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 3]
        self._libc.ptrace.restype = ctypes.c_long
        self._table = _table()
        self._entered: dict[int, tuple[str, str]] = {}
        self._known: set[int] = set()

    @property
    def accesses(self) -> list[Access]:
        """What was seen, each access once, in the order of the first time."""
        return list(self._seen)

    def follow(self, pid: int) -> None:
        """Trace `pid` until it and everything it forked has ended."""
        options = _SYSGOOD | _FORK | _VFORK | _CLONE | _EXEC | _EXITKILL
        try:
            self._ptrace(_SEIZE, pid, 0, options)
            self._ptrace(_INTERRUPT, pid, 0, 0)
        except OSError as error:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise SandboxLaunchError(
                error.errno or 0,
                "this host does not let a caller trace its own run (ptrace(2)); see "
                "kernel.yama.ptrace_scope, or the container's seccomp profile",
            ) from error
        self._known.add(pid)
        try:
            os.kill(pid, signal.SIGCONT)
            while self._known:
                moved = [self._poll(tid) for tid in list(self._known)]
                if not any(moved):
                    time.sleep(0.0002)
        finally:
            # Stopped for ever without a tracer: the run could not end by itself.
            for tid in self._known:
                with contextlib.suppress(OSError):
                    os.kill(tid, signal.SIGKILL)

    def _ptrace(self, request: int, tid: int, addr: int, data: int) -> int:
        done = int(self._libc.ptrace(request, tid, addr, data))
        if done < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return done

    def _poll(self, tid: int) -> bool:
        # Never wait for just any child: the caller has children of its own.
        try:
            done, status = os.waitpid(tid, os.WNOHANG | _WALL)
        except ChildProcessError:
            self._known.discard(tid)
            return True
        if not done:
            return False
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            self._known.discard(tid)
            return True
        try:
            self._ptrace(_SYSCALL, tid, 0, self._stop(tid, status))
        except OSError as error:
            if error.errno != errno.ESRCH:  # killed meanwhile: the next wait says so
                raise
        return True

    def _stop(self, tid: int, status: int) -> int:
        """Handle one stop; return the signal to deliver, 0 for none."""
        number, event = os.WSTOPSIG(status), status >> 16
        if number == signal.SIGTRAP | 0x80:
            self._system_call(tid)
            return 0
        if event in _EVENTS_WITH_CHILD:
            child = ctypes.c_ulong()
            self._ptrace(_GETEVENTMSG, tid, 0, ctypes.addressof(child))
            self._known.add(child.value)
        return 0 if event else number

    def _system_call(self, tid: int) -> None:
        buffer = ctypes.create_string_buffer(_INFO.size)
        self._ptrace(_GET_SYSCALL_INFO, tid, len(buffer), ctypes.addressof(buffer))
        op, _, _, _, number, *args = _INFO.unpack(buffer.raw)
        if op == _ENTRY:
            self._entered.pop(tid, None)
            row = self._table.get(number)
            if row is not None:
                # A target may pass any number as an address, and any bytes there.
                with contextlib.suppress(*_NONSENSE):
                    self._entered[tid] = self._decode(tid, row, args)
        elif op == _EXIT and tid in self._entered:
            kind, subject = self._entered.pop(tid)
            # The first word of the exit union is the signed result.
            result = ctypes.c_long(number).value
            error = -result if -4096 < result < 0 else 0
            if len(self._seen) < _MOST:
                self._seen[Access(kind=kind, subject=subject, error=error)] = None

    def _decode(
        self, tid: int, row: tuple[str, int | None, int], args: list[int]
    ) -> tuple[str, str]:
        code, directory, at = row
        if code == "s":
            return "socket", str(args[0])
        if code == "c":
            return "connect", _address(self._memory(tid, args[at], min(args[2], 128)))
        path = os.fsdecode(self._memory(tid, args[at], 4096).split(b"\0", 1)[0])
        kind = {"m": "metadata", "w": "write", "x": "execute", "o": "read"}[code]
        if code == "o":
            flags = args[at + 1]
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
                kind = "write"
            elif flags & os.O_PATH == os.O_PATH:
                kind = "metadata"
        if path.startswith("/"):
            return kind, os.path.normpath(path)
        fd = ctypes.c_int(_AT_FDCWD if directory is None else args[directory]).value
        base = "cwd" if fd == _AT_FDCWD else f"fd/{fd}"
        here = os.readlink(f"/proc/{tid}/{base}").removeprefix("(unreachable)")
        return kind, os.path.normpath(os.path.join(here, path))

    @staticmethod
    def _memory(tid: int, address: int, size: int) -> bytes:
        with open(f"/proc/{tid}/mem", "rb", buffering=0) as memory:
            # A string may end just before a page that is not there.
            room = 4096 - address % 4096
            memory.seek(address)
            data = memory.read(min(size, room)) or b""
            if b"\0" not in data and len(data) < size:
                with contextlib.suppress(OSError):
                    data += memory.read(size - len(data)) or b""
            return data


def _address(data: bytes) -> str:
    import socket

    (family,) = struct.unpack_from("=H", data)
    if family == socket.AF_INET:
        (port,) = struct.unpack_from("!H", data, 2)
        return f"{socket.inet_ntop(family, data[4:8])}:{port}"
    if family == socket.AF_INET6:
        (port,) = struct.unpack_from("!H", data, 2)
        return f"[{socket.inet_ntop(family, data[8:24])}]:{port}"
    if family == socket.AF_UNIX:
        name = data[2:]
        if name.startswith(b"\0"):
            return "unix:@" + os.fsdecode(name[1:].rstrip(b"\0"))
        return "unix:" + os.fsdecode(name.split(b"\0", 1)[0])
    raise ValueError(f"family {family}")

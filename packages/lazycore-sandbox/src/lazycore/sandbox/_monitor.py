"""The process between a caller and the target of a foreign tool: it outlives it.

It starts `sandbox-exec` or `bwrap` outside of what these confine, holds one end of a
pipe whose other end only the caller has, and ends every process of the run when the
target ends, when it is told to, and when the caller dies, by SIGKILL too. Nothing in
here is specific to a system but the sweep.
"""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import resource
import select
import signal
import struct
import sys
import time

# Each run starts this module anew: what it imports is a third of its time.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn, TypeAlias

    from lazycore.sandbox._macos._sweep import Sweeper

    Ended: TypeAlias = tuple[int, resource.struct_rusage]

REPLY_FD = 3
NOTE_FD = 9
"""Where a shell inside may say why it did not start the target."""
_LENGTH = struct.Struct("!I")
_TICK_S = 0.02


class GroupKeeper:
    """Knows the process group only: for hosts where no profile marks a run."""

    def __init__(self, group: int) -> None:
        self._group = group

    def pids(self) -> list[int]:
        """Return the leader, as far as anyone can tell."""
        return [self._group]

    def kill(self) -> int:
        """Kill the group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, signal.SIGKILL)
        return 0


def write_config(fd: int, config: Mapping[str, object]) -> None:
    """Send the configuration; the descriptor stays open as the sign of life."""
    body = marshal.dumps(dict(config))
    view = memoryview(_LENGTH.pack(len(body)) + body)
    while view:
        view = view[os.write(fd, view) :]


def _read_config(fd: int) -> dict[str, Any]:
    (length,) = _LENGTH.unpack(_read_exactly(fd, _LENGTH.size))
    # From the caller, who is trusted and runs the same interpreter.
    config: dict[str, Any] = marshal.loads(_read_exactly(fd, length))  # noqa: S302
    return config


def _read_exactly(fd: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(fd, size - len(data))
        if not chunk:
            os._exit(0)  # the caller died before it said what to run
        data += chunk
    return bytes(data)


def main() -> NoReturn:
    """Run one target; the descriptors' numbers are the arguments."""
    # Whoever ignores or blocks signals passes that on to what it starts.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    control, report, reply, caller = (int(word) for word in sys.argv[2:6])
    config = _read_config(control)
    if sys.platform == "linux":
        _adopt_orphans()
    note = os.memfd_create("note") if config.get("note") else -1
    child = os.fork()
    if not child:
        _become(config, control, report, reply, note)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    if reply >= 0:
        os.close(reply)
    answer = _watch(config, control, child, caller)
    if note >= 0:
        answer["note"] = os.pread(note, 100, 0).strip().hex()
    _tell(report, "end", answer)
    os._exit(0)


def _become(
    config: dict[str, Any], control: int, report: int, reply: int, note: int
) -> NoReturn:
    try:
        os.setsid()
        for door in config.get("doors", ()):
            _enter(door)
        os.umask(0o022)
        for number in signal.valid_signals():
            if number not in {signal.SIGKILL, signal.SIGSTOP}:
                with contextlib.suppress(OSError):
                    signal.signal(number, signal.SIG_DFL)
        for number, blob in config.get("blobs", ()):
            _hand_over(number, blob)
        _limit(config["limits"])
        os.chdir(config["cwd"])
        _read_nothing(config)
        for given in (control, report, reply):
            if given >= 0:
                os.set_inheritable(given, False)  # noqa: FBT003 - the only form
        # All of them first: one may lie where another has to go.
        report, reply, note = (_lifted(fd) for fd in (report, reply, note))
        if reply >= 0:
            os.dup2(reply, REPLY_FD)
        # Everything else the monitor holds closes itself on exec.
        os.closerange(REPLY_FD + (reply >= 0), 10)
        if note >= 0:
            os.dup2(note, NOTE_FD)
        os.execve(config["argv"][0], config["argv"], config["env"])  # noqa: S606
    except OSError as error:
        detail = os.fsencode(error.filename or "").hex()
        _tell(report, "failure", {"errno": error.errno or 0, "detail": detail})
    finally:
        os._exit(127)


def _tell(report: int, what: str, facts: Mapping[str, object]) -> None:
    """Write one line that `_monitored` reads: a word and its facts."""
    told = " ".join(f"{name}={value}" for name, value in facts.items())
    os.write(report, f"{what} {told}\n".encode("ascii"))


def _lifted(fd: int) -> int:
    return fd if fd < 0 else fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)


def _read_nothing(config: Mapping[str, object]) -> None:
    """Make stdin a pipe without a writer: the host's /dev/null is a node to change."""
    if not config.get("empty_stdin"):
        return
    read, write = os.pipe()
    os.dup2(read, 0)
    os.close(read)
    os.close(write)


def _hand_over(number: int, blob: bytes) -> None:
    """Put a file that holds `blob` on the descriptor `number`, for what comes next."""
    fd = os.memfd_create("lazycore")
    view = memoryview(blob)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, number)
    os.close(fd)


def _enter(door: str) -> None:
    """Enter a control group: cgroups(7)."""
    fd = os.open(door, os.O_WRONLY)
    try:
        os.write(fd, b"0")
    finally:
        os.close(fd)


def _was_killed(counts: str) -> bool:
    """Tell whether the kernel killed a process of the group for its memory."""
    if not counts:
        return False
    with open(counts, "rb") as file:
        lines = [line.split() for line in file]
    return any(line[0] == b"oom_kill" and line[1] != b"0" for line in lines)


def _limit(limits: dict[str, int | None]) -> None:
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_FSIZE: limits["file_size_bytes"],
        resource.RLIMIT_CPU: limits["cpu_s"],
    }
    for which, bound in bounds.items():
        if bound is not None:
            _, hard = resource.getrlimit(which)
            low = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            # At the hard limit comes SIGKILL, which names none; a second before it,
            # SIGXCPU: setrlimit(2).
            high = low + 1 if which == resource.RLIMIT_CPU else low
            if hard != resource.RLIM_INFINITY:
                high = min(high, hard)
            resource.setrlimit(which, (low, high))


def _watch(
    config: dict[str, Any], control: int, child: int, caller: int
) -> dict[str, object]:
    keeper = _keeper(config, child)
    most: int | None = config["max_processes"]
    counts: str = config.get("kills_file", "")
    crowded = starved = False
    end: Ended | None = None
    while end is None:
        told, _, _ = select.select([control], [], [], _TICK_S)
        if most is not None and len(keeper.pids()) > most:
            crowded = True
        starved = starved or _was_killed(counts)
        if told or crowded or starved or os.getppid() != caller:
            # The group first: it takes the leader, which the sweep may miss while
            # it has not applied its profile yet.
            GroupKeeper(child).kill()
            keeper.kill()
        end = _ended(child)
    starved = starved or _was_killed(counts)
    keeper.kill()
    if sys.platform == "linux":
        _end_orphans()
    status, usage = end
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2) differs
    return {
        "status": status,
        "limit": "processes" if crowded else "memory" if starved else "",
        "cpu_user_s": usage.ru_utime,
        "cpu_system_s": usage.ru_stime,
        "max_rss_bytes": usage.ru_maxrss * unit,
    }


def _adopt_orphans() -> None:
    """Become the parent of whatever loses its own (PR_SET_CHILD_SUBREAPER)."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0):
        os._exit(1)


def _end_orphans() -> None:
    """Kill and reap until no child is left.

    The last is pid 1 of a namespace, which cannot be reaped before everybody in it
    is dead: pid_namespaces(7).
    """
    while True:
        try:
            reaped, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not reaped:
            for pid in _children():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.0005)


def _children() -> list[int]:
    mine = str(os.getpid())
    found: list[int] = []
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file,
            ):
                # The name in parentheses may hold anything; the parent is second
                # after it.
                if file.read().rpartition(")")[2].split()[1] == mine:
                    found.append(int(name))
    return found


def _ended(child: int) -> Ended | None:
    """Return how the leader ended, None while it runs; end its group with it."""
    if hasattr(os, "waitid"):  # on macOS from Python 3.13 on
        # Looked at without reaping: the group's number is ours until it is killed.
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        if os.waitid(os.P_PID, child, options) is None:
            return None
        GroupKeeper(child).kill()
    done, status, usage = os.wait4(child, os.WNOHANG)
    return (status, usage) if done else None


def _keeper(config: dict[str, Any], child: int) -> GroupKeeper | Sweeper:
    if config["scratch"] is None:
        return GroupKeeper(child)
    from lazycore.sandbox._macos._sweep import Sweeper

    return Sweeper(scratch=config["scratch"], mark=config["mark"])

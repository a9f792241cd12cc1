"""Find out what this host enforces, by running a target that tries to get out."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import secrets
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lazycore.sandbox._errors import SandboxError
from lazycore.sandbox._executor import Order
from lazycore.sandbox._guarantees import BackendReport, Guarantee
from lazycore.sandbox._limits import ResourceLimits
from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._cgroup_tree import places
from lazycore.sandbox._linux._exec_list import elf_interpreter
from lazycore.sandbox._linux._probe_script import SCRIPT, START_SCRIPT
from lazycore.sandbox._linux._remedies import namespace_remedy
from lazycore.sandbox._policy import SandboxPolicy
from lazycore.sandbox._preflight import preflight
from lazycore.sandbox._shortage import ShortageError, shortage
from lazycore.sandbox._system import interpreter

if TYPE_CHECKING:
    from lazycore.sandbox._linux._native import NativeExecutor
    from lazycore.sandbox._result import SandboxResult

_PROCESSES = 24

MEANING = {
    Guarantee.FS_READ: ("read",),
    Guarantee.FS_METADATA: ("metadata",),
    Guarantee.FS_WRITE: ("write", "writes"),
    Guarantee.DENY_IN_ALLOW: ("deny",),
    Guarantee.NO_NETWORK: ("network",),
    Guarantee.NO_UNIX_SOCKET: ("unix",),
    Guarantee.IPC: ("ipc", "signal"),
    Guarantee.PID_KILL: ("daemon_started", "daemon_died"),
    Guarantee.ENV: ("env",),
    Guarantee.FDS: ("fds",),
    Guarantee.PROCESSES: ("processes",),
    Guarantee.OUTPUT: ("output",),
    Guarantee.SURVIVES_ROOT: ("root", "read", "write", "signal"),
}
"""Which observations a guarantee needs; all of them must have held."""

_SPIN = "while True: pass"
_GRAB = "import time; grabbed = b'x' * (192 << 20); time.sleep(20)"
_FILL = """
import sys, time
with open(sys.argv[1], "wb") as file:
    file.write(b"x" * (8 << 20))
time.sleep(20)
"""

_LIMITS: dict[Guarantee, tuple[str, ResourceLimits]] = {
    Guarantee.CPU: (_SPIN, ResourceLimits(processes=None, cpu_s=0.05)),
    Guarantee.MEMORY: (_GRAB, ResourceLimits(processes=None, memory_bytes=96 << 20)),
    Guarantee.DISK: (_FILL, ResourceLimits(processes=None, workspace_bytes=1 << 20)),
}
"""What passes a limit, and the limit; the run must end by it."""

_SINGLE = frozenset({*_LIMITS, Guarantee.EXEC_LIST})
_APPARMOR = (
    "give the interpreter an AppArmor profile with 'userns,' (the documentation, "
    "under Hosts, has one), or install bubblewrap and load bwrap-userns-restrict"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trap:
    """The host's side of a probe: things that must stay out of reach."""

    folder: str
    listener: socket.socket
    datagrams: socket.socket
    by_path: socket.socket
    abstract: socket.socket
    abstract_name: str
    shm_key: int

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"


def probe_backend(
    backend: type[NativeExecutor], needed: frozenset[Guarantee]
) -> BackendReport:
    """Probe `backend`, each thing once per user and process. Never raises.

    Args:
        backend: The executor class.
        needed: Which of the guarantees that cost a run of their own to probe.
    """
    uid = os.geteuid()
    try:
        report = _probe(backend, uid)
        if not report.available:
            return report
        single = _SINGLE & needed
        held = {which for which in single if probe_single(backend, uid, which)}
    except ShortageError as error:
        return error.report(backend.name)
    return replace(report, guarantees=report.guarantees | held)


@lru_cache(maxsize=32)
def _probe(backend: type[NativeExecutor], uid: int) -> BackendReport:
    notes = {
        "uid": str(uid),
        "kernel": os.uname().release,
        "machine": _calls.MACHINE,
        "landlock-abi": str(_calls.landlock_abi()),
        "control-groups": control_groups(),
    }
    reason = _unsupported(backend.name)
    if reason:
        return BackendReport(
            backend=backend.name, available=False, reason=reason, notes=notes
        )
    try:
        held = try_traps(backend)
    except (SandboxError, OSError, ValueError, RuntimeError) as error:
        if short := shortage(error):
            raise short from error
        remedy = ""
        if backend.name == "linux-namespace":
            remedy = namespace_remedy(apparmor=_APPARMOR)
        return BackendReport(
            backend=backend.name,
            available=False,
            reason=str(error),
            remedy=remedy,
            notes=notes,
        )
    return BackendReport(
        backend=backend.name,
        available=True,
        guarantees=frozenset(
            which
            for which, needs in MEANING.items()
            if all(held.get(need, False) for need in needs)
        ),
        notes=notes | {name: str(value) for name, value in sorted(held.items())},
    )


def control_groups() -> str:
    """Say where this user may make control groups, or why not."""
    found, reason = places()
    said = [f"{name} in {place.path}" for name, place in found.items()]
    if reason:
        said.append(f"otherwise none: {reason}" if said else f"none: {reason}")
    return ", ".join(said)


def _unsupported(name: str) -> str:
    if sys.platform != "linux":
        return f"this is {sys.platform}, not Linux"
    if _calls.MACHINE not in {"x86_64", "aarch64"}:
        return f"no system call table for the machine {_calls.MACHINE!r}"
    if not os.path.isdir("/proc/self/fd"):
        return "no /proc is mounted here; mount -t proc proc /proc"
    abi = _calls.landlock_abi()
    if name == "landlock" and abi < 6:
        return (
            f"the kernel's Landlock ABI is {abi}, and signals and abstract sockets "
            "are scoped from ABI 6 (Linux 6.12) on"
        )
    return ""


def try_traps(backend: type[NativeExecutor]) -> dict[str, bool]:
    """Run what tries to get out; tell of each way whether it was closed."""
    with tempfile.TemporaryDirectory(prefix="lazycore-probe-") as raw:
        folder = os.path.realpath(raw)
        trap = _set(folder)
        try:
            result = _spring(backend, trap)
            return _judge(trap, result)
        finally:
            for sock in (trap.listener, trap.datagrams, trap.by_path, trap.abstract):
                sock.close()
            _forget_memory(trap.shm_key)


def _set(folder: str) -> _Trap:
    for name in ("shown", "shown/parent", "workspace"):
        os.mkdir(f"{folder}/{name}")
    for name in ("hidden", "shown/file", "shown/parent/denied", "workspace/own"):
        with open(f"{folder}/{name}", "wb") as file:
            file.write(b"secret")
    listener = socket.create_server(("127.0.0.1", 0))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    datagrams.settimeout(0)
    by_path = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # sun_path holds 108 bytes, and TMPDIR may be deep: unix(7).
    here = os.open(f"{folder}/shown", os.O_PATH | os.O_CLOEXEC)
    try:
        by_path.bind(f"/proc/self/fd/{here}/socket")
    finally:
        os.close(here)
    by_path.listen()
    abstract = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    name = f"lazycore-{secrets.token_hex(8)}"
    abstract.bind("\0" + name)
    abstract.listen()
    return _Trap(
        folder=folder,
        listener=listener,
        datagrams=datagrams,
        by_path=by_path,
        abstract=abstract,
        abstract_name=name,
        shm_key=_make_memory(),
    )


def _untouched(trap: _Trap) -> bool:
    """Tell whether the files outside the workspace are as they were set."""
    names = sorted(os.listdir(trap.path("shown")))
    if names != ["file", "parent", "socket"] or not os.path.exists(trap.path("hidden")):
        return False
    for name in ("hidden", "shown/file", "shown/parent/denied"):
        with open(trap.path(name), "rb") as file:
            if file.read() != b"secret":
                return False
    return True


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _make_memory() -> int:
    """Create a System V segment that the target must not find; return its key."""
    key = secrets.randbelow(2**30) + 1
    # IPC_CREAT | IPC_EXCL, readable by everyone.
    if _libc().shmget(key, 1, 0o3666) < 0 and ctypes.get_errno() != errno.EEXIST:
        return 0
    return key


def _forget_memory(key: int) -> None:
    if key:
        segment = _libc().shmget(key, 1, 0)
        _libc().shmctl(segment, 0, None)  # IPC_RMID


def _spring(backend: type[NativeExecutor], trap: _Trap) -> SandboxResult:
    degraded = backend.name == "landlock"
    counted = not degraded or "pids" in places()[0]
    policy = SandboxPolicy(
        allowed_read_paths=[trap.path("shown")],
        allowed_write_paths=[trap.path("workspace")],
        denied_paths=[] if degraded else [trap.path("shown/parent/denied")],
        limits=ResourceLimits(processes=_PROCESSES if counted else None),
        timeout_s=20,
    )
    told: dict[str, Any] = {
        "hidden": trap.path("hidden"),
        "shown": trap.path("shown/file"),
        "denied": trap.path("shown/parent/denied"),
        "denied_parent": trap.path("shown/parent"),
        "workspace": trap.path("workspace"),
        "own": trap.path("workspace/own"),
        "lock": trap.path("workspace/lock"),
        "locked": trap.path("workspace/locked"),
        "sockets": trap.path("shown"),
        "abstract": trap.abstract_name,
        "tcp": trap.listener.getsockname()[1],
        "udp": trap.datagrams.getsockname()[1],
        "own_network": not degraded,
        "pid": os.getpid(),
        "shm": trap.shm_key,
        "processes": _PROCESSES if counted else 0,
    }
    leaked = os.memfd_create("lazycore-probe", 0)
    os.set_inheritable(leaked, True)  # noqa: FBT003 - the signature of os
    try:
        return _run_bare(backend, policy, SCRIPT, json.dumps(told))
    finally:
        os.close(leaked)


def _judge(trap: _Trap, result: SandboxResult) -> dict[str, bool]:
    if result.returncode != 0:
        tail = result.stderr_text[-500:] or f"signal {result.signal}"
        raise RuntimeError(f"the probe did not end well: {tail}")
    held: dict[str, bool] = {
        name: value is True for name, value in json.loads(result.stdout).items()
    }
    with open(trap.path("workspace/lock"), "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held["daemon_died"] = True
        except BlockingIOError:
            held["daemon_died"] = False
    try:
        trap.datagrams.recv(16)
        held["network"] = False
    except BlockingIOError:
        pass
    held["write"] = held.pop("tried") is not None and _untouched(trap)
    held["ipc"] = held["ipc"] and trap.shm_key != 0
    held["output"] = True
    return held


@lru_cache(maxsize=64)
def probe_single(backend: type[NativeExecutor], uid: int, which: Guarantee) -> bool:
    """Run a target that passes one limit; tell whether the limit ended it."""
    del uid
    try:
        with tempfile.TemporaryDirectory(prefix="lazycore-probe-") as raw:
            if which is Guarantee.EXEC_LIST:
                return backend.name != "landlock" and _list_holds(backend, raw)
            return _limit_holds(backend, *_LIMITS[which], os.path.realpath(raw))
    except (SandboxError, OSError, ValueError) as error:
        if short := shortage(error):
            raise short from error
        return False


def _limit_holds(
    backend: type[NativeExecutor], script: str, limits: ResourceLimits, folder: str
) -> bool:
    policy = SandboxPolicy(allowed_write_paths=[folder], limits=limits, timeout_s=15)
    result = _run_bare(backend, policy, script, f"{folder}/filled")
    kinds = {item.kind for item in result.violations}
    return not result.timed_out and bool(kinds & {"cpu", "memory", "workspace"})


def _list_holds(backend: type[NativeExecutor], folder: str) -> bool:
    """List the interpreter alone, and have it try to start anything else."""
    listed = os.path.realpath(sys.executable)
    policy = SandboxPolicy(
        allowed_write_paths=[os.path.realpath(folder)],
        allowed_executables=[listed],
        limits=ResourceLimits(processes=None),
        timeout_s=15,
    )
    victim = os.path.realpath("/bin/sh")
    with open(listed, "rb") as file:
        loader = elf_interpreter(file.fileno(), os.pread(file.fileno(), 4096, 0))
    words = (os.path.realpath(folder), victim, loader or "")
    return _run_bare(backend, policy, START_SCRIPT, *words).returncode == 0


def _run_bare(
    backend: type[NativeExecutor], policy: SandboxPolicy, script: str, *words: str
) -> SandboxResult:
    with backend.bare() as executor, preflight(policy) as checked:
        return executor._run(  # noqa: SLF001 - a probe cannot require itself
            (interpreter(), "-I", "-S", "-B", "-c", script, *words),
            checked,
            Order(started=time.monotonic()),
        )

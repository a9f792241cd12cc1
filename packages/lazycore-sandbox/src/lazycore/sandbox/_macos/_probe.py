"""Attack a Seatbelt sandbox before anything is promised about it.

One run of a script that tries, from inside, what each guarantee forbids; a second
one for the list of executables. A guarantee whose attack got through, or could not
be tried, is not declared.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
import threading
from typing import TYPE_CHECKING, Final

from lazycore.sandbox._guarantees import BackendReport, Guarantee
from lazycore.sandbox._limits import ResourceLimits
from lazycore.sandbox._policy import SandboxPolicy
from lazycore.sandbox._system import interpreter

if TYPE_CHECKING:
    from lazycore.sandbox._macos._executor import SeatbeltSandboxExecutor

_MARKER: Final = "LAZYCORE_PROBE_MARKER"
_reports: dict[int, BackendReport] = {}
_lock = threading.Lock()

# Runs inside. Each row answers whether the attack was refused.
SCRIPT: Final = r"""
import ctypes, json, os, socket, sys, time
a = json.loads(sys.argv[1])
def refused(action):
    try:
        action()
    except OSError:
        return True
    return False
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as s:
        s.settimeout(2)
        s.connect(address)
        s.send(b"x")
def denied_by_rename():
    moved = a["folder"] + "-moved"
    os.rename(a["folder"], moved)
    os.listdir(moved)
def shared_memory():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(0x6c617a79, 4096, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), "shmget")
out = {
    "fs-read": refused(lambda: open(a["secret"]).read()),
    "fs-metadata": refused(lambda: os.stat(a["secret"])),
    "fs-write": refused(lambda: open(a["outside"], "w")),
    "deny-in-allow": refused(lambda: open(a["denied"]).read())
        and refused(denied_by_rename),
    "no-network": all([
        refused(lambda: connect(socket.AF_INET, ("127.0.0.1", a["port"]))),
        refused(lambda: connect(socket.AF_INET6, ("::1", a["port"]))),
        refused(lambda: connect(socket.AF_INET6, ("::ffff:127.0.0.1", a["port"]))),
        refused(lambda: connect(socket.AF_INET, ("127.0.0.1", a["port"]),
            socket.SOCK_DGRAM)),
    ]),
    "no-unix-socket": refused(lambda: connect(socket.AF_UNIX, a["socket"])),
    "ipc": refused(shared_memory),
    "env": a["marker"] not in os.environ,
    "fds": all(refused(lambda fd=fd: os.fstat(fd)) for fd in range(4, 256)),
}
if os.fork() == 0:
    os.setsid()
    daemon = os.fork()
    if daemon == 0:
        for fd in (0, 1, 2, 3):
            os.close(fd)
        time.sleep(600)
    with open(a["pidfile"] + "-", "w") as f:
        f.write(str(daemon))
    os.rename(a["pidfile"] + "-", a["pidfile"])
    os._exit(0)
while not os.path.exists(a["pidfile"]):
    time.sleep(0.01)
os.write(3, json.dumps(out).encode())
sys.stdout.write("x" * 200000)
"""

CROWD: Final = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
time.sleep(30)
"""


def probe_seatbelt(
    unproven: type[SeatbeltSandboxExecutor], program: str
) -> BackendReport:
    """Return the cached report of this user, attacking first if there is none.

    Args:
        unproven: A backend whose own probe asks for nothing, for this use only.
        program: Path of `sandbox-exec`.
    """
    user = os.geteuid()
    with _lock:
        if user not in _reports:
            try:
                _reports[user] = _attack(unproven, program)
            except Exception as error:  # noqa: BLE001 - probe never raises
                _reports[user] = BackendReport(
                    backend=unproven.name,
                    available=False,
                    reason=f"the probe failed: {type(error).__name__}: {error}",
                )
        return _reports[user]


def _attack(unproven: type[SeatbeltSandboxExecutor], program: str) -> BackendReport:
    if not os.access(program, os.X_OK):
        return BackendReport(
            backend=unproven.name, available=False, reason=f"{program} is missing"
        )
    held: set[Guarantee] = set()
    with contextlib.ExitStack() as stack:
        base = os.path.realpath(tempfile.mkdtemp(prefix="lazycore-probe-"))
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        engine = stack.enter_context(unproven())
        held |= _from_inside(engine, base, stack)
        held |= _listed_only(engine, base)
        held |= _crowd(engine)
    # Every attack above ran as this very user.
    held.add(Guarantee.SURVIVES_ROOT)
    return BackendReport(
        backend=unproven.name,
        available=True,
        guarantees=frozenset(held),
        notes={"verified": "no macOS kernel ran this backend before its release"},
    )


def _from_inside(
    engine: SeatbeltSandboxExecutor, base: str, stack: contextlib.ExitStack
) -> set[Guarantee]:
    work = os.path.join(base, "work")
    folder = os.path.join(work, "folder")
    denied = os.path.join(folder, "denied")
    os.makedirs(denied)
    for path in (os.path.join(base, "secret"), os.path.join(denied, "secret")):
        with open(path, "w", encoding="ascii") as file:
            file.write("secret")
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    local = stack.enter_context(socket.socket(socket.AF_UNIX))
    local.bind(os.path.join(work, "s"))
    local.listen()
    pidfile = os.path.join(work, "pid")
    words = {
        "secret": os.path.join(base, "secret"),
        "outside": os.path.join(base, "outside"),
        "denied": os.path.join(denied, "secret"),
        "folder": folder,
        "port": listener.getsockname()[1],
        "socket": os.path.join(work, "s"),
        "marker": _MARKER,
        "pidfile": pidfile,
    }
    policy = SandboxPolicy(
        allowed_write_paths=[work],
        denied_paths=[denied],
        timeout_s=30,
        limits=ResourceLimits(output_bytes=4096),
    )
    os.environ[_MARKER] = "1"
    try:
        result = engine.run_command(
            [interpreter(), "-I", "-S", "-B", "-c", SCRIPT, json.dumps(words)],
            policy,
            reply_limit_bytes=1 << 16,
        )
    finally:
        del os.environ[_MARKER]
    if not result.reply or result.returncode != 0:
        raise RuntimeError(f"the probe's target ended early: {result.stderr[-500:]!r}")
    answers = json.loads(result.reply)
    held = {Guarantee(name) for name, refused in answers.items() if refused is True}
    if result.stdout_truncated and len(result.stdout) < 8192:
        held.add(Guarantee.OUTPUT)
    if _dead(pidfile):
        held.add(Guarantee.PID_KILL)
    return held


def _dead(pidfile: str) -> bool:
    """Tell whether the daemon that the script left behind is gone."""
    with open(pidfile, encoding="ascii") as file:
        daemon = int(file.read())
    try:
        os.kill(daemon, 0)
    except ProcessLookupError:
        return True
    return False


def _listed_only(engine: SeatbeltSandboxExecutor, base: str) -> set[Guarantee]:
    """Run a listed program that tries to run another one, and its copy."""
    work = os.path.join(base, "list")
    os.mkdir(work)
    copy = os.path.join(work, "copy")
    shutil.copy("/bin/echo", copy)
    policy = SandboxPolicy(
        allowed_write_paths=[work], allowed_executables=["/bin/sh"], timeout_s=30
    )
    script = f"{copy} through || /bin/ls / || echo none"
    result = engine.run_command(["/bin/sh", "-c", script], policy)
    return {Guarantee.EXEC_LIST} if result.stdout == b"none\n" else set()


def _crowd(engine: SeatbeltSandboxExecutor) -> set[Guarantee]:
    policy = SandboxPolicy(timeout_s=20, limits=ResourceLimits(processes=10))
    result = engine.run_command([interpreter(), "-I", "-S", "-c", CROWD], policy)
    met = any(item.kind == "processes" for item in result.violations)
    return {Guarantee.PROCESSES} if met and not result.timed_out else set()

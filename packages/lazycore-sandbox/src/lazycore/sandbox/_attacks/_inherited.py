"""Attacks on what a caller left in reach: variables, descriptors, memory, keys."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from lazycore.sandbox._attacks._attack import (
    Attack,
    Inside,
    Outcome,
    Verdict,
    held,
    row,
    through,
)
from lazycore.sandbox._guarantees import Guarantee as Must

if TYPE_CHECKING:
    from lazycore.sandbox._attacks._stage import Stage
    from lazycore.sandbox._executor import BaseSandboxExecutor


_SPOILED = {
    "BASH_ENV": "/nonexistent",
    "DYLD_INSERT_LIBRARIES": "/nonexistent.dylib",
    "GIT_SSH_COMMAND": "false",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "LAZYCORE_ATTACK_SECRET": "in the caller's environment",
    "LD_LIBRARY_PATH": "/nonexistent",
    "PYTHONPATH": "/nonexistent",
    "SSH_AUTH_SOCK": "/nonexistent/agent",
}


def callers_environment(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Look for the caller's variables, loader and proxy settings among them."""
    body = f"""
def attack():
    seen = set({sorted(_SPOILED)!r}) & set(os.environ)
    return ", ".join(sorted(seen))
"""
    saved = {name: os.environ.get(name) for name in _SPOILED}
    os.environ.update(_SPOILED)
    try:
        return Inside(body=body)(stage, engine)
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def inherited_descriptors(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Read a secret through a descriptor that the caller left inheritable."""
    body = """
def attack():
    for fd in range(4, 1024):
        try:
            return os.pread(fd, 100, 0) or "descriptor %d" % fd
        except OSError as e:
            if e.errno not in (errno.EBADF, errno.ESPIPE):
                return "descriptor %d" % fd
"""
    leaked = os.open(stage.path("hidden/secret"), os.O_RDONLY)
    os.set_inheritable(leaked, True)  # noqa: FBT003 - the only call form
    try:
        return Inside(body=body)(stage, engine)
    finally:
        os.close(leaked)


def secret_in_argv(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Look, as a stranger on the host, for a policy's secret in any argv."""
    body = """
def attack():
    write(a["work"] + "/running", "wb")
    while not os.path.exists(a["work"] + "/seen"):
        time.sleep(0.005)
"""
    found: list[str] = []

    def look() -> None:
        with contextlib.suppress(OSError):
            while not os.path.exists(stage.path("work/running")):
                if done.wait(0.005):
                    return
            pids = filter(str.isdigit, os.listdir("/proc"))
            found.extend(pid for pid in pids if _argv_holds(pid, secret))
        with open(stage.path("work/seen"), "wb"):
            pass

    if not os.path.isdir("/proc/self"):
        return Verdict(outcome=Outcome.ABSENT, detail="no /proc on this host")
    secret = stage.token[::-1].encode()
    done = threading.Event()
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        verdict = Inside(body=body, policy={"env": {"KEY": secret.decode()}})(
            stage, engine
        )
    finally:
        done.set()
        watcher.join()
    return through(f"in the argv of process {found}") if found else verdict


def _argv_holds(pid: str, secret: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return secret in file.read()
    except OSError:
        return False


def leaked_segment(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Leave a System V segment behind that outlives the run."""
    key = stage.segment ^ 0x55555
    body = f"""
def attack():
    check(libc.shmget({key}, 4096, 0o1600))
"""
    verdict = Inside(body=body)(stage, engine)
    import ctypes

    libc = ctypes.CDLL(None)
    segment = libc.shmget(key, 0, 0)
    if segment >= 0:
        libc.shmctl(segment, 0, None)
        return through("the segment outlived the run")
    return verdict


def session_keyring(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Read a key of the caller's session keyring."""
    import ctypes

    numbers = stage.facts()["numbers"]
    assert isinstance(numbers, dict)
    if "add_key" not in numbers:
        return Verdict(outcome=Outcome.ABSENT, detail="keyrings are Linux")
    libc = ctypes.CDLL(None)
    libc.syscall.restype = ctypes.c_long
    token = stage.token.encode()
    name = b"lazycore-" + token
    # KEY_SPEC_SESSION_KEYRING is -3; KEYCTL_UNLINK 9; KEYCTL_SEARCH 10.
    key = libc.syscall(numbers["add_key"], b"user", name, token, len(token), -3)
    if key < 0:
        return Verdict(outcome=Outcome.ABSENT, detail="the caller has no keyring")
    body = """
def attack():
    name = b"lazycore-" + a["token"].encode()
    key = call("keyctl", 10, ctypes.c_long(-3), b"user", name, 0)
    buffer = ctypes.create_string_buffer(100)
    call("keyctl", 11, ctypes.c_long(key), buffer, ctypes.c_long(100))
    return buffer.value
"""
    try:
        return Inside(body=body)(stage, engine)
    finally:
        libc.syscall(numbers["keyctl"], 9, ctypes.c_long(key), ctypes.c_long(-3))


def _unlink_planted(stage: Stage, verdict: Verdict) -> Verdict:
    planted = stage.shm_file + "-new"
    if stage.shm_file and os.path.exists(planted):
        os.unlink(planted)
        return through("planted")
    return verdict if verdict.outcome is not Outcome.THROUGH else held("its own")


ROWS: tuple[Attack, ...] = (
    row("29", "the caller's environment", "ENV", (Must.ENV,), callers_environment),
    row(
        "33",
        "a descriptor the caller left open",
        "FDS",
        (Must.FDS,),
        inherited_descriptors,
        unconfined=False,
    ),
    row(
        "36",
        "a policy's secret in an argv on the host",
        "API",
        (),
        secret_in_argv,
        unconfined=False,
    ),
    row(
        "38",
        "shared memory files of the host",
        "NS LL",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    if not a["shm_file"]:
        raise Absent("no /dev/shm")
    return read(a["shm_file"])
"""
        ),
    ),
    row(
        "38b",
        "plant a shared memory file on the host",
        "NS LL",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    if not a["shm_file"]:
        raise Absent("no /dev/shm")
    write(a["shm_file"] + "-new", "wb")
""",
            judge=lambda stage, _, verdict: _unlink_planted(stage, verdict),
        ),
    ),
    row(
        "39",
        "System V shared memory of the host",
        "NS SC SB",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    if not a["segment"]:
        raise Absent("no System V memory")
    return "segment %d" % check(libc.shmget(a["segment"], 0, 0))
"""
        ),
    ),
    row(
        "39b",
        "a POSIX message queue of the host",
        "NS SC",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    name = b"lazycore-" + a["token"].encode()[:8]
    call("mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, None)
    call("mq_unlink", name)
    return os.readlink("/proc/self/ns/ipc") == a["ipc_namespace"]
"""
        ),
    ),
    row(
        "40",
        "leave shared memory behind",
        "NS SC SB",
        (Must.IPC,),
        leaked_segment,
        unconfined=False,
    ),
    row("61", "read a key of the caller's keyring", "SC", (Must.IPC,), session_keyring),
)

"""Attacks on memory, disk, time, output, and on the end of a run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.sandbox._attacks._attack import (
    Attack,
    Inside,
    Outcome,
    Verdict,
    held,
    row,
    source_of,
    through,
)
from lazycore.sandbox._errors import SandboxError
from lazycore.sandbox._guarantees import Guarantee as Must
from lazycore.sandbox._policy import ResourceLimits
from lazycore.sandbox._system import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.sandbox._attacks._stage import Stage
    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._result import SandboxResult

_MIB = 1 << 20

DAEMON = """
import fcntl
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            f = open(a["work"] + "/lock", "ab")
            fcntl.flock(f, fcntl.LOCK_EX)
            for fd in (0, 1, 2, 3):
                os.close(fd)
            open(a["work"] + "/locked", "w").close()
            time.sleep(600)
        os._exit(0)
    while not os.path.exists(a["work"] + "/locked"):
        time.sleep(0.005)
"""


def daemon_gone(stage: Stage, result: SandboxResult, verdict: Verdict) -> Verdict:
    """Look whether the daemon still holds its lock."""
    del verdict
    if not os.path.exists(stage.path("work/locked")):
        ended = f"status {result.returncode}, signal {result.signal}"
        return Verdict(outcome=Outcome.BROKEN, detail=f"no daemon started: {ended}")
    if stage.lock_is_free("work/lock"):
        return held("nobody was left when the call returned")
    return through("a daemon is alive after the call returned")


def timed_out(stage: Stage, result: SandboxResult, verdict: Verdict) -> Verdict:
    """Look whether the run ended by its timeout, soon after it."""
    del stage, verdict
    if not result.timed_out:
        return through(f"ended with status {result.returncode}")
    if result.duration_s > 15:
        return through(f"took {result.duration_s:.1f} s")
    return held(f"killed after {result.duration_s:.2f} s")


def small_output(stage: Stage, result: SandboxResult, verdict: Verdict) -> Verdict:
    """Look whether what was kept stays within the limit."""
    del stage
    kept = max(len(result.stdout), len(result.stderr))
    # The note about the cut is all that may be added.
    if kept > 2 * _MIB or not result.stdout_truncated:
        return through(f"{kept} bytes were kept")
    result.stdout_text.encode("utf-8", "strict")
    return verdict


def quick_end(stage: Stage, result: SandboxResult, verdict: Verdict) -> Verdict:
    """Look whether the call returned when the target ended."""
    del stage
    if result.timed_out or result.duration_s > 10:
        return through(f"the call hung for {result.duration_s:.1f} s")
    return verdict


def killed_caller(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Kill the caller with SIGKILL and look for the target."""
    body = DAEMON + "\ndef attack():\n    daemon()\n    time.sleep(600)\n"
    source = source_of(body, stage.facts())
    program = """
import json, sys
from lazycore.sandbox import Guarantee, SandboxPolicy
from importlib import import_module
module, name, policy, argv = json.loads(sys.argv[1])
backend = getattr(import_module(module), name)
with backend(allow_degraded=frozenset(Guarantee)) as executor:
    executor.run_command(argv, SandboxPolicy.from_json(policy), reply_limit_bytes=99)
"""
    import json

    kind = type(engine)
    target = [interpreter(), "-I", "-S", "-B", "-c", source]
    words = [kind.__module__, kind.__name__, stage.policy().to_json(), target]
    root = str(Path(__file__).resolve().parents[3])
    boot = f"import sys; sys.path.insert(0, {root!r})\n"
    with subprocess.Popen(
        [sys.executable, "-I", "-B", "-c", boot + program, json.dumps(words)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as caller:
        give_up = time.monotonic() + 30
        while not os.path.exists(stage.path("work/locked")):
            if caller.poll() is not None or time.monotonic() > give_up:
                caller.kill()
                assert caller.stderr is not None
                tail = caller.stderr.read()[-200:].decode("utf-8", "replace")
                return Verdict(outcome=Outcome.BROKEN, detail=f"no daemon: {tail}")
            time.sleep(0.01)
        caller.kill()
    if stage.lock_is_free("work/lock", patience_s=10):
        return held("every process died with its caller")
    return through("a process outlived its caller")


# A limit that is sampled, as that of the workspace may be, is passed by what a target
# writes between two samples; the row asks whether writing is stopped at all.
def grown(limit: int) -> Callable[[Stage, SandboxResult, Verdict], Verdict]:
    """Make a judge that measures what the workspace holds."""

    def judge(stage: Stage, result: SandboxResult, verdict: Verdict) -> Verdict:
        del result
        size = sum(
            os.lstat(os.path.join(folder, name)).st_blocks * 512
            for folder, _, names in os.walk(stage.path("work"))
            for name in names
        )
        if size > limit + 2 * _MIB:
            return through(f"the workspace holds {size} bytes")
        return verdict if verdict.outcome is Outcome.BROKEN else held(f"{size} bytes")

    return judge


def unholdable(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Ask for a guarantee that the backend lacks, without allow_degraded."""
    lacking = frozenset(Must) - engine.probe().guarantees
    wishes: dict[Must, dict[str, Any]] = {
        Must.EXEC_LIST: {"allowed_executables": ["/bin/sh"]},
        Must.MEMORY: {"limits": ResourceLimits(memory_bytes=1 << 30)},
        Must.CPU: {"limits": ResourceLimits(cpu_s=5)},
        Must.DISK: {"limits": ResourceLimits(workspace_bytes=1 << 30)},
        Must.PROCESSES: {"limits": ResourceLimits(processes=9)},
        Must.DENY_IN_ALLOW: {"denied_paths": [stage.path("work/deep/denied")]},
    }
    asked = [wish for which, wish in wishes.items() if which in lacking]
    if not asked:
        return Verdict(outcome=Outcome.ABSENT, detail="this backend holds every one")
    with type(engine)() as strict:
        for wish in asked:
            try:
                strict.run_command(["/bin/sh", "-c", ":"], stage.policy(**wish))
            except SandboxError:
                continue
            return through(f"ran although it cannot hold {sorted(wish)}")
    return held(f"{len(asked)} policies refused")


ROWS: tuple[Attack, ...] = (
    row(
        "68",
        "fork bomb",
        "RL NS",
        (Must.PROCESSES,),
        Inside(
            policy={"limits": ResourceLimits(processes=40)},
            body="""
def attack():
    made = 0
    try:
        for _ in range(120):
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
            made += 1
    except OSError:
        pass
    return made > 45 and "%d processes" % made
""",
            silent_is_held=True,
        ),
        expected="contained",
    ),
    row(
        "69",
        "memory bomb",
        "CG RL",
        (Must.MEMORY,),
        Inside(
            policy={"limits": ResourceLimits(memory_bytes=128 * _MIB)},
            body="""
def attack():
    hoard = []
    for _ in range(300):
        hoard.append(bytearray(os.urandom(64)) * 16384)
    return "%d MiB" % len(hoard)
""",
            silent_is_held=True,
        ),
        expected="contained",
        unconfined=False,
    ),
    row(
        "69b",
        "memory bomb of many processes",
        "CG",
        (Must.MEMORY,),
        Inside(
            policy={"limits": ResourceLimits(memory_bytes=128 * _MIB)},
            body="""
def attack():
    children = []
    for _ in range(6):
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            hoard = [bytearray(os.urandom(64)) * 16384 for _ in range(50)]
            os.write(write_end, b"x")
            time.sleep(30)
            os._exit(0)
        os.close(write_end)
        children.append(read_end)
    return sum(len(os.read(fd, 1)) for fd in children) == 6 and "300 MiB"
""",
            silent_is_held=True,
        ),
        expected="contained",
        unconfined=False,
    ),
    row(
        "70",
        "one huge file",
        "RL",
        (),
        Inside(
            policy={"limits": ResourceLimits(file_size_bytes=_MIB)},
            body="""
import signal
def attack():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open(a["work"] + "/huge", "wb", buffering=0) as f:
        while f.tell() < (8 << 20):
            f.write(bytes(1 << 20))
    return "8 MiB"
""",
            judge=grown(_MIB),
        ),
        expected="contained",
    ),
    row(
        "70b",
        "many files",
        "QUOTA",
        (Must.DISK,),
        Inside(
            policy={"limits": ResourceLimits(workspace_bytes=2 * _MIB)},
            body="""
def attack():
    for at in range(384):
        with open(a["work"] + "/many-%d" % at, "wb") as f:
            f.write(os.urandom(1 << 20))
""",
            judge=grown(190 * _MIB),
            silent_is_held=True,
        ),
        expected="contained",
    ),
    row(
        "70c",
        "a sparse file larger than any disk",
        "RL",
        (),
        Inside(
            policy={"limits": ResourceLimits(file_size_bytes=_MIB)},
            body="""
import signal
def attack():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open(a["work"] + "/sparse", "wb") as f:
        f.truncate(1 << 40)
    return os.stat(a["work"] + "/sparse").st_size > 1 << 20
""",
        ),
        expected="contained",
    ),
    row(
        "71",
        "spin beyond the timeout",
        "SUP",
        (),
        Inside(
            policy={"timeout_s": 0.2},
            body="def attack():\n    while True: pass\n",
            silent_is_held=True,
            judge=timed_out,
        ),
        expected="contained",
        unconfined=False,
    ),
    row(
        "71b",
        "spend more CPU than allowed",
        "RL",
        (Must.CPU,),
        Inside(
            policy={"limits": ResourceLimits(cpu_s=1), "timeout_s": 8},
            body="""
import signal
def attack():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    start = time.process_time()
    while time.process_time() - start < 2.5:
        pass
    return "2.5 s of CPU"
""",
            silent_is_held=True,
        ),
        expected="contained",
        unconfined=False,
    ),
    row(
        "72",
        "flood stdout",
        "SUP",
        (Must.OUTPUT,),
        Inside(
            body="""
def attack():
    chunk = (b"\\xff\\0\\x1b[2J" + b"x" * 90) * 1000
    for _ in range(200):
        os.write(1, chunk)
""",
            judge=small_output,
        ),
        expected="contained",
        unconfined=False,
    ),
    row(
        "72b",
        "an endless line",
        "SUP",
        (Must.OUTPUT,),
        Inside(
            body="""
def attack():
    for _ in range(100):
        os.write(1, b"x" * 100000)
""",
            judge=small_output,
        ),
        expected="contained",
        unconfined=False,
    ),
    row(
        "73",
        "a child that never closes stdout",
        "SUP",
        (Must.PID_KILL,),
        Inside(
            body="""
def attack():
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
""",
            judge=quick_end,
        ),
        expected="contained",
        unconfined=False,
    ),
    row(
        "74",
        "a daemon that outlives the timeout",
        "NS SUP SB",
        (Must.PID_KILL,),
        Inside(
            policy={"timeout_s": 1.5},
            body=DAEMON + "\ndef attack():\n    daemon()\n    time.sleep(600)\n",
            judge=daemon_gone,
            silent_is_held=True,
        ),
        expected="contained",
        unconfined=False,
    ),
    row(
        "75",
        "a daemon that outlives a normal end",
        "NS SUP SB",
        (Must.PID_KILL,),
        Inside(body=DAEMON + "\ndef attack():\n    daemon()\n", judge=daemon_gone),
        expected="contained",
        unconfined=False,
    ),
    row(
        "76",
        "ignore SIGTERM and stop oneself",
        "SUP",
        (Must.PID_KILL,),
        Inside(
            policy={"timeout_s": 0.2},
            body="""
import signal
def attack():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)
""",
            silent_is_held=True,
            judge=timed_out,
        ),
        expected="contained",
        unconfined=False,
    ),
    row(
        "77",
        "outlive a caller that is killed",
        "SUP",
        (Must.PID_KILL,),
        killed_caller,
        expected="contained",
        unconfined=False,
    ),
    row(
        "96",
        "a policy the backend cannot hold",
        "API",
        (),
        unholdable,
        unconfined=False,
    ),
)

"""Attacks on the end of a run: outlive it, hold it, ignore it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

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
from lazycore.sandbox._guarantees import Guarantee as Must
from lazycore.sandbox._system import interpreter

if TYPE_CHECKING:
    from lazycore.sandbox._attacks._stage import Stage
    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._result import SandboxResult


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


ROWS: tuple[Attack, ...] = (
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
        "78",
        "hang in a vfork",
        "SUP",
        (Must.PID_KILL,),
        Inside(
            policy={"timeout_s": 0.5},
            body="""
def attack():
    # The parent cannot run before the child ends: vfork(2).
    if call("clone", ctypes.c_ulong(0x4000 | 17), 0, 0, 0, 0) == 0:
        time.sleep(600)
        os._exit(0)
""",
            silent_is_held=True,
            judge=timed_out,
        ),
        expected="contained",
        unconfined=False,
    ),
)

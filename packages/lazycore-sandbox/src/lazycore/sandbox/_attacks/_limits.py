"""Attacks on limits, those that a backend cannot hold among them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lazycore.sandbox._attacks._attack import (
    Attack,
    Inside,
    Outcome,
    Verdict,
    held,
    row,
    through,
)
from lazycore.sandbox._errors import SandboxError
from lazycore.sandbox._guarantees import Guarantee as Must
from lazycore.sandbox._limits import ResourceLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.sandbox._attacks._stage import Stage
    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._result import SandboxResult


_MIB = 1 << 20


def small_output(stage: Stage, result: SandboxResult, verdict: Verdict) -> Verdict:
    """Look whether what was kept stays within the limit."""
    del stage
    kept = max(len(result.stdout), len(result.stderr))
    # The note about the cut is all that may be added.
    if kept > 2 * _MIB or not result.stdout_truncated:
        return through(f"{kept} bytes were kept")
    result.stdout_text.encode("utf-8", "strict")
    return verdict


def ended_by_disk(stage: Stage, result: SandboxResult, verdict: Verdict) -> Verdict:
    """Look whether the limit of the workspace ended the run.

    A limit that is sampled is passed by what a target writes between two samples,
    so the row gives a backend three seconds to notice.
    """
    del stage
    if verdict.outcome is not Outcome.HELD or result.reply:
        return verdict
    if "workspace" not in {item.kind for item in result.violations}:
        return through(f"ended otherwise: {result.violations}")
    return verdict


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
    chunk = os.urandom(1 << 20)
    for at in range(32):
        with open(a["work"] + "/many-%d" % at, "wb") as f:
            f.write(chunk)
    time.sleep(3)
    return "32 MiB for 3 s"
""",
            judge=ended_by_disk,
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
        "71b",
        "spend more CPU than allowed",
        "RL",
        (Must.CPU,),
        Inside(
            policy={"limits": ResourceLimits(cpu_s=0.5)},
            body="""
import signal
def attack():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    start = time.process_time()
    while time.process_time() - start < 2.2:
        pass
    return "2.2 s of CPU"
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
        "96",
        "a policy the backend cannot hold",
        "API",
        (),
        unholdable,
        unconfined=False,
    ),
)

"""Attacks on other runs: on the next one, and on one that runs beside."""

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

_PLACES = (
    *("/", "/dev", "/dev/shm", "/dev/mqueue", "/etc", "/home", "/opt", "/proc"),  # noqa: S108
    *("/root", "/run", "/sys", "/tmp", "/usr", "/var/tmp"),  # noqa: S108
)
_NAMED = f"""
PLACES = {list(_PLACES)!r} + [os.getcwd(), os.environ["HOME"], os.environ["TMPDIR"]]
NAME = "lazycore-" + a["token"][:12]
"""

_PLANT = f"""{_NAMED}
def attack():
    for place in PLACES:
        for make in (lambda p: write(p, "wb"), os.mkdir, lambda p: os.symlink("/", p)):
            try:
                make(place + "/" + NAME)
            except OSError:
                pass
    tries = []
    if sys.platform == "linux":
        tries += [
            lambda: check(libc.shmget(a["segment"] ^ 0x33333, 4096, 0o1666)),
            lambda: call("mq_open", NAME.encode(), 66, 0o666, None),
            lambda: call("sethostname", NAME.encode(), len(NAME)),
            lambda: call("setdomainname", NAME.encode(), len(NAME)),
            lambda: call("add_key", b"user", NAME.encode(), b"x", 1, -3),
        ]
    for one in tries:
        try:
            one()
        except (OSError, Absent):
            pass
"""

_LOOK = f"""{_NAMED}
def attack():
    found = [p for p in PLACES if os.path.lexists(p + "/" + NAME)]
    if sys.platform == "linux":
        with open("/proc/sys/kernel/domainname") as f:
            names = os.uname().nodename + " " + f.read()
        if NAME in names:
            found.append("the name of the host")
        for what, one in (
            ("memory", lambda: check(libc.shmget(a["segment"] ^ 0x33333, 0, 0))),
            ("a queue", lambda: call("mq_open", NAME.encode(), 0, 0, None)),
            ("a key", lambda: call("keyctl", 10, -3, b"user", NAME.encode(), 0)),
        ):
            try:
                one()
                found.append(what)
            except (OSError, Absent):
                pass
    return ", ".join(found)
"""

_HOLD = """
def attack():
    with open(os.environ["TMPDIR"] + "/held", "w") as f:
        f.write(a["token"])
    with open(a["work"] + "/beside.new", "w") as f:
        f.write("%d %s" % (os.getpid(), os.environ["TMPDIR"]))
    os.rename(a["work"] + "/beside.new", a["work"] + "/beside")
    while not os.path.exists(a["work"] + "/over"):
        time.sleep(0.005)
"""

_REACH = """
import signal
def attack():
    while not os.path.exists(a["work"] + "/beside"):
        time.sleep(0.005)
    with open(a["work"] + "/beside") as f:
        pid, scratch = f.read().split(" ")
    tries = [
        ("its scratch files", lambda: read(scratch + "/held")),
        ("a file in its scratch", lambda: write(scratch + "/planted", "wb")
            or scratch != os.environ["TMPDIR"]),
    ]
    if int(pid) != os.getpid():
        tries += [
            ("its process, by a signal", lambda: not os.kill(int(pid), 0)),
            ("its environment", lambda: read("/proc/%s/environ" % pid)),
            ("its memory", lambda: open("/proc/%s/mem" % pid, "rb")),
        ]
    found = []
    for what, one in tries:
        try:
            if one():
                found.append(what)
        except OSError:
            pass
    return ", ".join(found)
"""


def left_for_the_next(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Plant wherever one can in one run, look for it in the next ones."""
    try:
        for body in (_PLANT, _LOOK) * 3:
            verdict = Inside(body=body)(stage, engine)
            if verdict.outcome is not Outcome.HELD:
                return verdict
    finally:
        for place in _PLACES:
            _remove(os.path.join(place, f"lazycore-{stage.token[:12]}"))
    return held("3 runs found nothing of the ones before")


def _remove(path: str) -> None:
    """Clear what got out to the host."""
    for remove in (os.unlink, os.rmdir):
        with contextlib.suppress(OSError):
            remove(path)


def beside_another(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Reach for the files and the process of a run at the same time."""
    verdicts: list[Verdict] = []

    def hold() -> None:
        policy = stage.policy()
        inside = Inside(body=_HOLD)
        verdicts.append(inside.said(inside.launch(stage, engine, policy)))

    beside = threading.Thread(target=hold)
    beside.start()
    try:
        inside = Inside(body=_REACH)
        verdict = inside.said(inside.launch(stage, engine, stage.policy()))
    finally:
        with open(stage.path("work/over"), "wb"):
            pass
        beside.join()
    touched = stage.touched()
    if touched:
        return through(f"changed {touched}")
    if [each.outcome for each in verdicts] != [Outcome.HELD]:
        return Verdict(outcome=Outcome.BROKEN, detail=f"beside: {verdicts}")
    return verdict


ROWS: tuple[Attack, ...] = (
    row(
        "97",
        "leave something for the next run",
        "NS LL SC SB",
        (Must.FS_WRITE, Must.IPC),
        left_for_the_next,
        unconfined=False,
    ),
    row(
        "97b",
        "reach into a run beside",
        "NS LL SB",
        (Must.FS_READ, Must.IPC),
        beside_another,
        unconfined=False,
    ),
)

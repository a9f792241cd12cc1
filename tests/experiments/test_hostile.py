"""Workers that attack their host end with their cell and leave nothing behind."""

from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import RunRecord

    Run = Callable[..., RunRecord]

pytestmark = pytest.mark.once

# One of a kind: other runs of these tests may share the machine.
MARK = f"lazycore-hostile-{os.getpid()}"
LIMITS = "memory_bytes = 268435456\nprocesses = 32\noutput_bytes = 65536\n"
ATTACKS: dict[str, tuple[str, set[str | None]]] = {
    "fork bomb": (
        """\
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
        {"timeout", "oom", "crash"},
    ),
    "daemon": (
        f"""\
import subprocess, sys
sleep = [sys.executable, "-c", "import time; time.sleep(99)", {MARK!r}]
subprocess.Popen(sleep, start_new_session=True)
return {{"score": 1}}
""",
        # A child that holds the pipes open may cost the cell its time, never more.
        {None, "timeout"},
    ),
    "flood": (
        """\
import sys
chunk = "x" * 65536
for _ in range(800):
    sys.stdout.write(chunk)
    sys.stderr.write(chunk)
return {"score": 1}
""",
        {None},
    ),
    "closed": (
        """\
import os, time
for fd in range(256):
    try:
        os.close(fd)
    except OSError:
        pass
time.sleep(60)
""",
        {"timeout", "crash", "protocol"},
    ),
    "glutton": ("x = bytearray(2**30); return {'score': len(x)}", {"oom", "crash"}),
}


def survivors() -> list[str]:
    """Return command lines on this host that hold the mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if MARK.encode() in line and b"pytest" not in line:
            found.append(line.decode(errors="replace"))
    return found


QUICK = ("daemon", "glutton")


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        pytest.param("fresh", QUICK, id="fresh, two attacks"),
        pytest.param("session", QUICK, id="session, two attacks"),
        *(
            pytest.param(mode, tuple(ATTACKS), id=mode, marks=pytest.mark.slow)
            for mode in ("fresh", "fork", "session")
        ),
    ],
)
def test_an_attack_ends_with_its_cell(
    mode: str, names: tuple[str, ...], run_body: Run
) -> None:
    branches = [
        f"if request.unit == {unit!r}:\n{textwrap.indent(ATTACKS[unit][0], '    ')}"
        for unit in names
    ]
    body = "\n".join(
        [
            "if request.arm == 'candidate':",
            textwrap.indent("\n".join(branches), "    "),
            "return {'score': 1}",
        ]
    )
    began = time.monotonic()
    record = run_body(
        body, units=["a", *names, "z"], timeout=2.0, mode=mode, extra=LIMITS
    )
    assert time.monotonic() - began < 60
    found = {row.unit: row.failure_class for row in record.rows if row.arm != "no_op"}
    for unit in names:
        assert found[unit] in ATTACKS[unit][1], (unit, found[unit], record.failures)
    assert {row.value for row in record.rows if row.arm == "no_op"} == {1.0}
    assert found["a"] is None
    assert found["z"] is None
    for row in record.rows:
        assert row.wall_s is None or row.wall_s < 20, row
    assert survivors() == []

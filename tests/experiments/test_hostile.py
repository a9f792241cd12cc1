"""Workers that attack their host end with their cell and leave nothing behind."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import RunRecord

    Run = Callable[..., RunRecord]

MARK = "lazycore-hostile-marker"
LIMITS = "memory_bytes = 268435456\nprocesses = 32\noutput_bytes = 65536\n"
ATTACKS: dict[str, tuple[str, set[str | None]]] = {
    "fork bomb": (
        "import os\n"
        "while True:\n"
        "    try:\n"
        "        os.fork()\n"
        "    except OSError:\n"
        "        pass",
        {"timeout", "oom", "crash"},
    ),
    "daemon": (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)', {MARK!r}],"
        " start_new_session=True)\n"
        "return {'score': 1}",
        # A child that holds the pipes open may cost the cell its time, never more.
        {None, "timeout"},
    ),
    "flood": (
        "import sys\n"
        "chunk = 'x' * 65536\n"
        "for _ in range(800): sys.stdout.write(chunk); sys.stderr.write(chunk)\n"
        "return {'score': 1}",
        {None},
    ),
    "closed": (
        "import os\nfor fd in range(256):\n    try:\n        os.close(fd)\n"
        "    except OSError: pass\n"
        "import time; time.sleep(60)",
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


@pytest.mark.parametrize("mode", ["fresh", "fork"])
def test_an_attack_ends_with_its_cell(mode: str, run_body: Run) -> None:
    branches = [
        f"if request.unit == {unit!r}:\n{textwrap.indent(code, '    ')}"
        for unit, (code, _) in ATTACKS.items()
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
        body, units=["a", *ATTACKS, "z"], timeout=2.0, mode=mode, extra=LIMITS
    )
    assert time.monotonic() - began < 60
    found = {row.unit: row.failure_class for row in record.rows if row.arm != "no_op"}
    for unit, (_, allowed) in ATTACKS.items():
        assert found[unit] in allowed, (unit, found[unit], record.failures)
    assert {row.value for row in record.rows if row.arm == "no_op"} == {1.0}
    assert found["a"] is None
    assert found["z"] is None
    for row in record.rows:
        assert row.wall_s is None or row.wall_s < 3.0, row
    assert survivors() == []

"""The same promises for a caller without privileges, whoever runs the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    RunScript = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.once

NAMES = ["LinuxNamespaceSandboxExecutor", "LandlockSandboxExecutor"]


def said(done: subprocess.CompletedProcess[str]) -> str:
    if "SKIP" in done.stdout:
        pytest.skip(done.stdout.strip().removeprefix("SKIP "))
    assert done.returncode == 0, done.stderr
    return done.stdout


PREAMBLE = """
import operator, os, sys
from lazycore.sandbox import *
backend = globals()[sys.argv[1]]
report = backend.probe_for(frozenset(Guarantee) if "all" in sys.argv else frozenset())
if not report.available:
    print("SKIP the backend", backend.name, "cannot run here:", report.reason)
    sys.exit()
executor = backend(allow_degraded=set(Guarantee))
assert os.geteuid() != 0
"""


@pytest.mark.parametrize("name", NAMES)
def test_every_guarantee_of_root_s_holds_for_a_plain_user(
    as_plain_user: RunScript, name: str
) -> None:
    script = PREAMBLE + "print(*sorted(set(Guarantee) - report.guarantees))"
    lacking = said(as_plain_user(script, name, "all")).split()
    expected = {
        "LinuxNamespaceSandboxExecutor": [],
        "LandlockSandboxExecutor": [
            *("deny-in-allow", "exec-list", "fs-metadata", "processes")
        ],
    }
    assert lacking == expected[name]


@pytest.mark.parametrize("name", NAMES)
def test_commands_calls_and_sessions_run(as_plain_user: RunScript, name: str) -> None:
    script = (
        PREAMBLE
        + """
policy = SandboxPolicy(timeout_s=20)
print(executor.run_command(["sh", "-c", "echo out; id -u"], policy).stdout_text)
print(executor.run_callable(operator.add, policy, (1, 2)).value)
with SandboxSession(policy, executor, preload=["decimal"]) as session:
    print(session.run_callable(operator.add, 3, 4).value)
    print(session.run_command(["echo", "in"]).stdout_text)
slow = executor.run_command(["sleep", "60"], SandboxPolicy(timeout_s=0.2))
print(slow.timed_out)
executor.close()
"""
    )
    words = said(as_plain_user(script, name)).split()
    assert words[0] == "out"
    assert words[1] != "0"
    assert words[2:] == ["3", "7", "in", "True"]


def test_a_process_limit_holds_without_cgroups(as_plain_user: RunScript) -> None:
    script = (
        PREAMBLE
        + """
code = (
    "import os, time\\ncount = 0\\n"
    "try:\\n"
    "    while count < 40:\\n"
    "        if os.fork() == 0: time.sleep(30)\\n"
    "        count += 1\\n"
    "except OSError: pass\\n"
    "print(count, flush=True); os._exit(0)"
)
policy = SandboxPolicy(limits=ResourceLimits(processes=10))
argv = [sys.executable, "-I", "-S", "-c", code]
print(executor.run_command(argv, policy).stdout_text)
"""
    )
    assert said(as_plain_user(script, NAMES[0])).split() == ["9"]


@pytest.mark.parametrize(
    "closing",
    [
        'chmod 000 "$TMPDIR"',
        'mkdir -p "$TMPDIR/a/b" && chmod 500 "$TMPDIR"',
        'mkdir -p "$TMPDIR/a/b/c" && chmod 000 "$TMPDIR/a/b" "$TMPDIR/a" "$TMPDIR"',
        'mkdir -p "$TMPDIR/a/b/c" && chmod 100 "$TMPDIR/a/b" && chmod 400 "$TMPDIR/a"',
    ],
)
def test_a_scratch_directory_that_its_run_closed_is_gone_and_the_result_is_there(
    as_plain_user: RunScript, closing: str
) -> None:
    script = (
        PREAMBLE
        + """
import tempfile
place = tempfile.mkdtemp(dir="/tmp")
tempfile.tempdir = os.environ["TMPDIR"] = place
with executor:
    print(executor.run_command(["sh", "-c", sys.argv[2]], SandboxPolicy()).stdout_text)
    with SandboxSession(SandboxPolicy(), executor) as session:
        print(session.run_command(["sh", "-c", sys.argv[2]]).stdout_text)
print(os.listdir(place))
os.rmdir(place)
"""
    )
    done = as_plain_user(script, NAMES[1], f"echo data; {closing}")
    assert said(done).split() == ["data", "data", "[]"]
    assert "Warning" not in done.stderr


def test_a_scratch_directory_that_cannot_be_removed_is_named_beside_the_result(
    as_plain_user: RunScript,
) -> None:
    script = (
        PREAMBLE
        + """
import tempfile, threading, warnings
place = tempfile.mkdtemp(dir="/tmp")
with executor, warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always", ResourceWarning)
    executor.run_command(["true"], SandboxPolicy())
    tempfile.tempdir = os.environ["TMPDIR"] = place
    timer = threading.Timer(0.5, os.chmod, (place, 0o500))
    timer.start()
    result = executor.run_command(["sh", "-c", "sleep 1.5; echo data"], SandboxPolicy())
    timer.join()
os.chmod(place, 0o700)
left = os.listdir(place)
print(result.stdout_text, len(left), *(item.category.__name__ for item in told))
assert os.path.join(place, left[0]) in str(told[0].message), told[0].message
os.rmdir(os.path.join(place, left[0]))
os.rmdir(place)
"""
    )
    words = said(as_plain_user(script, NAMES[1])).split()
    assert words == ["data", "1", "ResourceWarning"]

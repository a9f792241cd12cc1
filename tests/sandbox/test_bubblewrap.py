"""The bubblewrap backend, beside what the corpus and the table hold it to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from lazycore.sandbox import (
    BubblewrapSandboxExecutor,
    Guarantee,
    ResourceLimits,
    SandboxBackendUnavailableError,
    SandboxCommandNotFoundError,
    SandboxError,
    SandboxLaunchError,
    SandboxLostError,
    SandboxPolicy,
    SandboxPolicyViolationError,
)
from lazycore.sandbox._linux import _bubblewrap as module
from lazycore.sandbox._linux._cgroup_tree import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.once

_DEGRADED = {Guarantee.PROCESSES, Guarantee.SURVIVES_ROOT}


@pytest.fixture(scope="module")
def bubblewrap() -> Iterator[BubblewrapSandboxExecutor]:
    report = BubblewrapSandboxExecutor.probe()
    if not report.available:
        pytest.skip(f"the backend bubblewrap cannot run here: {report.reason}")
    with BubblewrapSandboxExecutor(allow_degraded=_DEGRADED) as executor:
        yield executor


def test_status_signal_streams_and_input_come_back(
    bubblewrap: BubblewrapSandboxExecutor,
) -> None:
    policy = SandboxPolicy()
    result = bubblewrap.run_command(
        ["sh", "-c", "cat; echo err >&2; exit 7"], policy, input=b"in" * 100_000
    )
    assert (result.returncode, result.signal) == (7, None)
    assert result.stdout == b"in" * 100_000
    assert result.stderr == b"err\n"
    killed = bubblewrap.run_command(["sh", "-c", "kill -15 $$"], policy)
    assert (killed.returncode, killed.signal) == (None, signal.SIGTERM)


def test_a_target_cannot_pass_for_a_bubblewrap_that_failed(
    bubblewrap: BubblewrapSandboxExecutor,
) -> None:
    script = "echo 'bwrap: no permission' >&2; exit 3"
    result = bubblewrap.run_command(["sh", "-c", script], SandboxPolicy())
    assert (result.returncode, result.stderr) == (3, b"bwrap: no permission\n")


def test_without_input_bubblewrap_holds_no_node_of_the_host(
    bubblewrap: BubblewrapSandboxExecutor,
) -> None:
    script = "readlink /proc/1/fd/0 /proc/self/fd/0; cat"
    told = bubblewrap.run_command(["sh", "-c", script], SandboxPolicy()).stdout_text
    first, own = told.split()
    assert first.startswith("pipe:")
    assert own == "/dev/null"


@pytest.mark.skipif(os.geteuid() != 0, reason="only a root caller owns the nodes")
def test_for_a_root_caller_bubblewrap_does_not_claim_to_survive_root() -> None:
    # It can mount device nodes writable only, so their modes stay the target's.
    assert Guarantee.SURVIVES_ROOT not in BubblewrapSandboxExecutor.probe().guarantees


def test_a_callable_returns_its_value(bubblewrap: BubblewrapSandboxExecutor) -> None:
    assert bubblewrap.run_callable(max, SandboxPolicy(), (3, 5)).value == 5


def test_a_timeout_keeps_the_output_so_far(
    bubblewrap: BubblewrapSandboxExecutor,
) -> None:
    result = bubblewrap.run_command(
        ["sh", "-c", "echo early; sleep 600"], SandboxPolicy(timeout_s=2)
    )
    assert result.timed_out
    assert result.stdout == b"early\n"
    assert [item.kind for item in result.violations] == ["timeout"]


def test_the_limits_that_end_a_run_are_named(folder: Path) -> None:
    cases = {
        "cpu": ("while :; do :; done", ResourceLimits(cpu_s=1)),
        "file-size": (
            f"exec head -c 9999 /dev/zero > {folder}/big",
            ResourceLimits(file_size_bytes=1000),
        ),
        "output": ("yes | head -c 9999", ResourceLimits(output_bytes=100)),
    }
    everything = frozenset(Guarantee)
    with BubblewrapSandboxExecutor(allow_degraded=everything) as executor:
        if not executor.is_available():
            pytest.skip("the backend bubblewrap cannot run here: see its report")
        for kind, (script, limits) in cases.items():
            policy = SandboxPolicy(allowed_write_paths=[folder], limits=limits)
            result = executor.run_command(["sh", "-c", script], policy)
            assert [item.kind for item in result.violations] == [kind]


def test_a_missing_and_a_refused_program_are_told_apart(
    bubblewrap: BubblewrapSandboxExecutor,
) -> None:
    with pytest.raises(SandboxCommandNotFoundError):
        bubblewrap.run_command(["nonexistent"], SandboxPolicy())
    with pytest.raises(SandboxPolicyViolationError):
        bubblewrap.run_command(["/etc/passwd"], SandboxPolicy())
    with pytest.raises(SandboxCommandNotFoundError):
        bubblewrap.run_command(["/nonexistent"], SandboxPolicy())
    # What the target says itself is its own affair.
    result = bubblewrap.run_command(["sh", "-c", "exit 127"], SandboxPolicy())
    assert result.returncode == 127


def test_the_environment_is_the_policys_and_bwrap_sees_none_of_it(
    bubblewrap: BubblewrapSandboxExecutor, folder: Path
) -> None:
    witness = folder / "loaded"
    policy = SandboxPolicy(env={"LD_PRELOAD": str(witness), "A": "é=1"})
    result = bubblewrap.run_command(["/usr/bin/env"], policy)
    names = {line.split(b"=")[0] for line in result.stdout.splitlines()}
    assert names == {b"PATH", b"HOME", b"LANG", b"TMPDIR", b"LD_PRELOAD", b"A"}
    # The loader complains once per program inside: the shell, then env. A third
    # complaint would be bwrap's, outside.
    assert result.stderr.count(b"LD_PRELOAD") == 2


def test_no_argv_on_the_host_holds_a_secret(
    bubblewrap: BubblewrapSandboxExecutor, folder: Path
) -> None:
    secret = f"secret-{os.getpid()}-value"
    policy = SandboxPolicy(env={"KEY": secret}, allowed_write_paths=[folder])
    script = f"touch {folder}/up; while [ ! -e {folder}/go ]; do sleep 0.01; done"
    thread = threading.Thread(
        target=bubblewrap.run_command, args=(["sh", "-c", script], policy)
    )
    thread.start()
    try:
        while not (folder / "up").exists():
            time.sleep(0.005)
        seen = [_argv(pid) for pid in filter(str.isdigit, os.listdir("/proc"))]
    finally:
        (folder / "go").touch()
        thread.join()
    assert any(b"bwrap" in argv for argv in seen)
    assert not any(secret.encode() in argv for argv in seen)


def _argv(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def test_root_cannot_write_the_kernels_settings(
    bubblewrap: BubblewrapSandboxExecutor,
) -> None:
    script = (
        "for f in sys/kernel/core_pattern sys/kernel/modprobe sysrq-trigger; do"
        " (: >> /proc/$f) 2>/dev/null && echo $f; done; echo done"
    )
    result = bubblewrap.run_command(["sh", "-c", script], SandboxPolicy())
    assert result.stdout == b"done\n"


def test_what_it_cannot_hold_it_refuses(folder: Path) -> None:
    policies = [
        SandboxPolicy(allowed_executables=["/bin/sh"]),
        SandboxPolicy(limits=ResourceLimits(cpu_s=1)),
        SandboxPolicy(limits=ResourceLimits(workspace_bytes=1 << 30)),
    ]
    if "memory" not in places()[0]:
        limits = ResourceLimits(memory_bytes=1 << 30)
        policies.append(SandboxPolicy(limits=limits))
    with BubblewrapSandboxExecutor(allow_degraded=_DEGRADED) as strict:
        for policy in policies:
            with pytest.raises(SandboxBackendUnavailableError):
                strict.run_command(["touch", folder / "ran"], policy)
    assert list(folder.iterdir()) == []


def test_without_the_system_set_a_process_limit_is_refused(
    bubblewrap: BubblewrapSandboxExecutor,
) -> None:
    with pytest.raises(SandboxLaunchError, match="include_system"):
        bubblewrap.run_command(["x"], SandboxPolicy(include_system=False))
    bare = SandboxPolicy(
        include_system=False, limits=ResourceLimits(processes=None), timeout_s=20
    )
    with pytest.raises(SandboxLaunchError, match="bwrap did not start"):
        bubblewrap.run_command(["/bin/true"], bare)


def test_abstract_sockets_of_the_host_are_not_opened_by_the_way(
    bubblewrap: BubblewrapSandboxExecutor,
) -> None:
    both = SandboxPolicy(allow_network=True, allow_unix_sockets=True)
    with pytest.raises(SandboxLaunchError, match="abstract"):
        bubblewrap.run_command(["true"], both)
    for one in (
        SandboxPolicy(allow_network=True),
        SandboxPolicy(allow_unix_sockets=True),
    ):
        bubblewrap.run_command(["true"], one).check()


def test_runs_leave_no_descriptor_behind(
    bubblewrap: BubblewrapSandboxExecutor, folder: Path
) -> None:
    (folder / "inner").mkdir()
    policy = SandboxPolicy(
        allowed_write_paths=[folder], denied_paths=[folder / "inner"]
    )
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        bubblewrap.run_command(["true"], policy).check()
        with pytest.raises(SandboxCommandNotFoundError):
            bubblewrap.run_command(["nonexistent"], policy)
    assert len(os.listdir("/proc/self/fd")) == before


def test_threads_share_an_executor(bubblewrap: BubblewrapSandboxExecutor) -> None:
    seen: list[bytes] = []
    policy = SandboxPolicy()
    threads = [
        threading.Thread(
            target=lambda n=n: seen.append(
                bubblewrap.run_command(["echo", str(n)], policy).stdout
            )
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [b"0\n", b"1\n", b"2\n", b"3\n"]


def _processes_with(mark: str) -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
            if f"sleep\0{mark}".encode() in file.read():
                found.append(name)
    return found


def _wait_for(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.usefixtures("bubblewrap")
def test_closing_ends_what_still_runs_and_refuses_more() -> None:
    mark = f"60.{os.getpid()}1"
    executor = BubblewrapSandboxExecutor(allow_degraded=_DEGRADED)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            argv = ["sh", "-c", f"setsid sleep {mark} & sleep {mark}"]
            executor.run_command(argv, SandboxPolicy())
        except SandboxError as error:
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert _wait_for(lambda: len(_processes_with(mark)) == 4)
    executor.close()
    assert not _processes_with(mark)
    for thread in threads:
        thread.join(20)
    assert [type(error) for error in raised] == [SandboxLostError] * 2
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SandboxError, match="closed") as refused:
        executor.run_command(["true"], SandboxPolicy())
    # Whoever keeps the error keeps no descriptor.
    assert len(os.listdir("/proc/self/fd")) == before, refused


@pytest.mark.usefixtures("bubblewrap")
def test_a_forked_copy_of_the_caller_ends_no_run_by_closing(folder: Path) -> None:
    script = f"""
import os, threading, time
from lazycore.sandbox import *
executor = BubblewrapSandboxExecutor(allow_degraded=frozenset(Guarantee))
argv = ["sh", "-c", "touch up; while [ ! -e go ]; do sleep 0.01; done; echo whole"]
policy = SandboxPolicy(allowed_write_paths=[{str(folder)!r}], cwd={str(folder)!r})
run = threading.Thread(
    target=lambda: print(executor.run_command(argv, policy).stdout_text))
run.start()
while not os.path.exists("up"):
    time.sleep(0.01)
copy = os.fork()
if not copy:
    executor.close()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), flush=True)
open("go", "w").close()
run.join()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    assert done.stdout.split() == ["7", "whole"], done.stderr


@pytest.mark.parametrize("end", ["timeout", "kill"])
@pytest.mark.usefixtures("bubblewrap")
def test_a_forked_copy_of_the_caller_keeps_no_run_alive(end: str) -> None:
    mark = f"60.{os.getpid()}2"
    script = f"""
import os, signal, sys, threading, time
from lazycore.sandbox import *
executor = BubblewrapSandboxExecutor(allow_degraded=frozenset(Guarantee))
policy = SandboxPolicy(timeout_s=60 if sys.argv[1] == "kill" else 1.5)
run = threading.Thread(
    target=lambda: print(executor.run_command(["sleep", "{mark}"], policy).timed_out))
run.start()
while "sleep" not in os.popen("ps -eo args | grep '^sleep {mark}'").read():
    time.sleep(0.01)
copy = os.fork()
if not copy:
    time.sleep(40)
    os._exit(0)
if sys.argv[1] == "kill":
    print(copy, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
run.join()
os.kill(copy, signal.SIGKILL)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, end], stdout=subprocess.PIPE, text=True
    ) as caller:
        assert caller.stdout is not None
        told = caller.stdout.readline().strip()
        caller.wait(30)
    assert _wait_for(lambda: not _processes_with(mark))
    if end == "kill":
        os.kill(int(told), signal.SIGKILL)
    else:
        assert told == "True"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "is not installed"),
        ("echo --args --seccomp", "too old"),
        ("exit 1", "too old"),
        (None, ""),
    ],
)
def test_a_binary_that_is_missing_or_old_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, word: str
) -> None:
    if text:
        fake = folder / "bwrap"
        fake.write_text(f"#!/bin/sh\n{text}\n")
        fake.chmod(0o755)
    if text is not None:
        monkeypatch.setattr(module, "DEFAULT_PATH", str(folder))
    elif not BubblewrapSandboxExecutor.is_available():
        pytest.skip("the backend bubblewrap cannot run here: not installed")
    path, reason = module.find_bubblewrap.__wrapped__()
    assert word in reason
    assert bool(path) == (text is None)


def test_an_old_release_is_warned_of() -> None:
    report = BubblewrapSandboxExecutor.probe()
    if not report.available:
        pytest.skip(f"the backend bubblewrap cannot run here: {report.reason}")
    version = tuple(map(int, report.notes["version"].split(".")[:2]))
    assert ("warning" in report.notes) == (version < (0, 12))
    assert sys.platform == "linux"

"""The macOS backend, as far as a Linux host can hold it to account.

What runs here is everything but Seatbelt itself: starting, feeding, bounding and
ending a target, spelling its environment, refusing elsewhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lazycore.sandbox import (
    Guarantee,
    SandboxBackendUnavailableError,
    SandboxPolicy,
    _monitor,
)
from lazycore.sandbox._errors import (
    SandboxCommandNotFoundError,
    SandboxLaunchError,
    SandboxLostError,
    SandboxPolicyViolationError,
)
from lazycore.sandbox._macos import _executor, _probe
from lazycore.sandbox._macos._executor import (
    SeatbeltSandboxExecutor,
    environment,
    find_program,
    grants_of,
    refuse_failed_launch,
)
from lazycore.sandbox._macos._profile import Grants, build_profile
from lazycore.sandbox._monitored import Target
from lazycore.sandbox._outcome import Outcome, violations
from lazycore.sandbox._preflight import preflight

LINUX_ONLY = pytest.mark.skipif(
    sys.platform == "darwin", reason="this host has Seatbelt"
)


def run(
    argv: list[str],
    *,
    timeout_s: float = 20,
    input_bytes: bytes | None = None,
    reply_limit: int | None = None,
    output_bytes: int = 1 << 16,
    **changes: Any,
) -> Outcome:
    config: dict[str, object] = {
        "argv": argv,
        "env": {"PATH": "/usr/bin:/bin", "MARK": "é"},
        "cwd": "/",
        "scratch": None,
        "mark": "",
        "max_processes": None,
        "limits": {"open_files": 64, "file_size_bytes": None, "cpu_s": None},
        **changes,
    }
    target = Target(
        output_bytes=output_bytes, input_bytes=input_bytes, reply_limit=reply_limit
    )
    return target.run(config, deadline=time.monotonic() + timeout_s)


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@LINUX_ONLY
def test_it_is_not_available_off_macos_and_runs_nothing(tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    assert not SeatbeltSandboxExecutor.is_available()
    careless = SeatbeltSandboxExecutor(allow_degraded=frozenset(Guarantee))
    for engine in (SeatbeltSandboxExecutor(), careless):
        with engine, pytest.raises(SandboxBackendUnavailableError, match="macOS"):
            engine.run_command(["/usr/bin/touch", str(witness)], SandboxPolicy())
        with engine, pytest.raises(SandboxBackendUnavailableError, match="macOS"):
            engine.run_callable(witness.touch, SandboxPolicy())
    # Even the engine that the probe uses refuses here.
    with (
        _executor._UnprovenExecutor() as engine,
        pytest.raises(SandboxBackendUnavailableError),
    ):
        engine.run_command(["/usr/bin/touch", str(witness)], SandboxPolicy())
    assert not witness.exists()


@LINUX_ONLY
def test_a_probe_without_sandbox_exec_promises_nothing() -> None:
    report = _probe._attack(_executor._UnprovenExecutor, "/nonexistent/sandbox-exec")
    assert not report.available
    assert not report.guarantees


@LINUX_ONLY
def test_a_probe_that_breaks_promises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_probe, "_reports", {})
    report = _probe.probe_seatbelt(_executor._UnprovenExecutor, "/bin/true")
    assert not report.available
    assert not report.guarantees
    assert "the probe failed" in report.reason


def test_status_output_and_input_travel() -> None:
    before = descriptors()
    big = b"x" * 300_000
    outcome = run(
        python(
            "import sys,os; d=sys.stdin.buffer.read(); print(len(d)); "
            "print(os.environ['MARK'], file=sys.stderr); sys.exit(7)"
        ),
        input_bytes=big,
    )
    assert os.WEXITSTATUS(outcome.status) == 7
    assert outcome.stdout.data == b"300000\n"
    assert outcome.stderr.data.decode().strip() == "é"
    assert outcome.usage.max_rss_bytes > 1 << 20
    assert descriptors() == before


def test_a_target_that_reads_no_input_ends_all_the_same() -> None:
    outcome = run(["/bin/true"], input_bytes=b"x" * 1_000_000)
    assert outcome.status == 0


def test_the_target_holds_its_own_descriptors_only() -> None:
    listed = "import os;print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"
    assert run(python(listed)).stdout.data == b"[0, 1, 2, 3]\n"  # 3 lists the folder
    outcome = run(python(listed), reply_limit=10)
    assert outcome.stdout.data == b"[0, 1, 2, 3, 4]\n"


def test_the_reply_pipe_is_bounded() -> None:
    outcome = run(python("import os; os.write(3, b'y' * 50000)"), reply_limit=100)
    assert outcome.reply == b"y" * 100
    assert outcome.reply_truncated
    assert run(python("0"), reply_limit=100).reply == b""


def test_a_flood_keeps_head_and_tail() -> None:
    outcome = run(
        python("import sys; sys.stdout.write('a'*9 + 'b'*10**7 + 'c'*9)"),
        output_bytes=100,
    )
    assert outcome.stdout.truncated
    assert outcome.stdout.data.startswith(b"aaaaaaaaab")
    assert outcome.stdout.data.endswith(b"bccccccccc")


@pytest.mark.once
def test_a_timeout_keeps_the_output_so_far_and_kills() -> None:
    code = (
        "import os,signal,sys,time; signal.signal(15, signal.SIG_IGN); os.fork();"
        "print(os.getpid(), flush=True); time.sleep(600)"
    )
    outcome = run(python(code), timeout_s=1.5)
    assert outcome.timed_out
    assert os.WTERMSIG(outcome.status) == signal.SIGKILL
    pids = [int(line) for line in outcome.stdout.data.split()]
    assert pids
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists() or _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_background_child_that_holds_stdout_does_not_hold_the_call() -> None:
    outcome = run(["/bin/sh", "-c", "sleep 600 & echo done"])
    assert outcome.stdout.data == b"done\n"
    assert not outcome.timed_out


@pytest.mark.once
def test_a_daemon_in_a_session_of_its_own_is_gone_too() -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "time.sleep(0.2)\n"
    )
    outcome = run(python(code))
    assert not Path(f"/proc/{int(outcome.stdout.data)}").exists()


def test_a_host_without_waitid_waits_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = os.fork()
    if not child:
        os._exit(7)
    with monkeypatch.context() as patch:
        patch.delattr(os, "waitid")
        end = None
        while end is None:
            end = _monitor._ended(child)
    assert os.WEXITSTATUS(end[0]) == 7


def test_a_crowd_ends_the_run() -> None:
    outcome = run(["/bin/sleep", "600"], max_processes=0)
    kinds = [item.kind for item in violations(SandboxPolicy(), outcome, 9)]
    assert kinds == ["processes"]


def test_a_program_that_cannot_start_is_named() -> None:
    with pytest.raises(SandboxLaunchError, match="No such file"):
        run(["/nonexistent/program"])


def test_a_failing_sandbox_exec_is_no_result_of_the_target() -> None:
    outcome = run(["/bin/sh", "-c", "echo 'sandbox-exec: bad profile' >&2; exit 65"])
    with pytest.raises(SandboxLaunchError, match="did not start"):
        refuse_failed_launch(outcome)


@pytest.mark.once
def test_limits_reach_the_target() -> None:
    code = (
        "import resource as r;"
        "print(r.getrlimit(r.RLIMIT_NOFILE), r.getrlimit(r.RLIMIT_CORE))"
    )
    assert run(python(code)).stdout.data == b"(64, 64) (0, 0)\n"


@pytest.mark.once
def test_the_target_dies_when_its_caller_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "caller.py"
    pidfile = tmp_path / "pid"
    script.write_text(
        "from lazycore.sandbox._monitored import Target\n"
        "Target(output_bytes=9, input_bytes=None, reply_limit=None).run({\n"
        f" 'argv': ['/bin/sh', '-c', 'echo $$ > {pidfile}.new;"
        f" mv {pidfile}.new {pidfile}; exec sleep 600'],\n"
        " 'env': {'PATH': '/usr/bin:/bin'}, 'cwd': '/', 'scratch': None, 'mark': '',\n"
        " 'max_processes': None, 'limits': {'open_files': None,"
        " 'file_size_bytes': None, 'cpu_s': None}}, deadline=None)\n"
    )
    with subprocess.Popen([sys.executable, str(script)]) as caller:
        while not pidfile.exists():
            assert caller.poll() is None
            time.sleep(0.01)
        target = int(pidfile.read_text())
        caller.kill()
        caller.wait()
        give_up = time.monotonic() + 20
        while Path(f"/proc/{target}").exists() and not _is_zombie(target):
            assert time.monotonic() < give_up
            time.sleep(0.01)


def test_a_killed_monitor_is_reported() -> None:
    code = "import os; os.kill(os.getppid(), 9)"
    with pytest.raises(SandboxLostError):
        run(python(code))


def test_grants_spell_the_checked_policy(tmp_path: Path) -> None:
    work, data = tmp_path / "work", tmp_path / "data"
    denied = work / "deep" / "denied"
    denied.mkdir(parents=True)
    data.mkdir()
    policy = SandboxPolicy(
        allowed_read_paths=[data],
        allowed_write_paths=[work],
        denied_paths=[denied],
        allowed_executables=["/bin/sh"],
        include_system=False,
    )
    with preflight(policy) as checked:
        grants = grants_of(checked, "/scratch")
    assert grants.read == (str(data),)
    assert grants.write == (str(work),)
    assert grants.denied == (str(denied),)
    assert grants.executables == (os.path.realpath("/bin/sh"),)
    assert grants.mark.startswith("/scratch/mark-")
    words = build_profile(grants).arguments()
    assert words[0] == "-p"
    assert words[2::2].count("-D") == len(words[2:]) // 2
    assert f"P0={data}" in words


def test_the_environment_holds_nothing_of_the_callers() -> None:
    policy = SandboxPolicy(env={"A": "1", "LANG": "C"})
    env = environment(policy, "/scratch", reply=True)
    assert set(env) == {"PATH", "HOME", "LANG", "TMPDIR", "A", "LAZYCORE_REPLY_FD"}
    assert env["LANG"] == "C"
    assert env["HOME"] == env["TMPDIR"] == "/scratch"


def test_a_program_is_found_among_what_may_run(tmp_path: Path) -> None:
    grants = Grants(
        read=(os.path.realpath("/usr"), os.path.realpath("/bin")),
        write=(),
        denied=(),
        executables=None,
        scratch=str(tmp_path),
        mark="",
        allow_network=False,
        allow_unix_sockets=False,
    )
    assert find_program("sh", grants, "relative:/usr/bin:/bin").endswith("/sh")
    with pytest.raises(SandboxCommandNotFoundError, match="nonexistent"):
        find_program("nonexistent-program", grants, "/usr/bin:/bin")
    from dataclasses import replace

    for closed in (
        replace(grants, executables=()),
        replace(grants, read=()),
        replace(grants, denied=grants.read),
    ):
        with pytest.raises(SandboxPolicyViolationError, match="executed"):
            find_program("sh", closed, "/usr/bin:/bin")

"""What a run sees, hands back and cannot reach, for each Linux backend."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import pty
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.sandbox import (
    BaseSandboxExecutor,
    Guarantee,
    LandlockSandboxExecutor,
    LinuxNamespaceSandboxExecutor,
    ResourceLimits,
    SandboxBackendUnavailableError,
    SandboxCommandNotFoundError,
    SandboxError,
    SandboxLaunchError,
    SandboxPolicy,
    SandboxPolicyError,
    SandboxPolicyViolationError,
)
from lazycore.sandbox._linux._native import NativeExecutor

if TYPE_CHECKING:
    from pathlib import Path

    from lazycore.sandbox import SandboxResult
    from lazycore.sandbox._linux._request import Request


def python(
    executor: BaseSandboxExecutor, code: str, policy: SandboxPolicy | None = None
) -> SandboxResult:
    argv = [sys.executable, "-I", "-S", "-B", "-c", code]
    return executor.run_command(argv, policy or SandboxPolicy())


def test_the_exit_status_comes_back(executor: BaseSandboxExecutor) -> None:
    result = executor.run_command(["sh", "-c", "exit 3"], SandboxPolicy())
    assert (result.returncode, result.signal, result.timed_out) == (3, None, False)
    assert result.backend == executor.name
    assert result.policy_digest == SandboxPolicy().digest


def test_the_ending_signal_comes_back(executor: BaseSandboxExecutor) -> None:
    result = executor.run_command(["sh", "-c", "kill -SEGV $$"], SandboxPolicy())
    assert (result.returncode, result.signal) == (None, signal.SIGSEGV)


def test_streams_are_kept_apart(executor: BaseSandboxExecutor) -> None:
    result = executor.run_command(
        ["sh", "-c", "echo out; echo err >&2"], SandboxPolicy()
    )
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")


def test_input_arrives_whole_and_ends(executor: BaseSandboxExecutor) -> None:
    data = os.urandom(1 << 20)
    limits = ResourceLimits(output_bytes=2 << 20)
    result = executor.run_command(["cat"], SandboxPolicy(limits=limits), input=data)
    assert result.stdout == data


def test_without_input_stdin_is_empty(executor: BaseSandboxExecutor) -> None:
    assert executor.run_command(["cat"], SandboxPolicy()).stdout == b""


def test_input_that_nobody_reads_is_no_error(executor: BaseSandboxExecutor) -> None:
    result = executor.run_command(["true"], SandboxPolicy(), input=b"x" * (1 << 20))
    assert result.returncode == 0


def test_the_reply_pipe_carries_bytes_beside_the_streams(
    executor: BaseSandboxExecutor,
) -> None:
    script = 'printf reply >&"$LAZYCORE_REPLY_FD"; echo out'
    result = executor.run_command(
        ["sh", "-c", script], SandboxPolicy(), reply_limit_bytes=100
    )
    assert (result.reply, result.reply_truncated) == (b"reply", False)
    assert result.stdout == b"out\n"


def test_a_reply_over_its_limit_is_cut_and_says_so(
    executor: BaseSandboxExecutor,
) -> None:
    result = executor.run_command(
        ["sh", "-c", 'head -c 300000 /dev/zero >&"$LAZYCORE_REPLY_FD"'],
        SandboxPolicy(),
        reply_limit_bytes=10,
    )
    assert (result.reply, result.reply_truncated) == (b"\0" * 10, True)
    assert result.returncode == 0


def test_without_a_limit_there_is_no_reply_pipe(executor: BaseSandboxExecutor) -> None:
    result = executor.run_command(["sh", "-c", "echo x >&3"], SandboxPolicy())
    assert result.reply is None
    assert result.returncode != 0


def test_a_timeout_keeps_the_output_so_far(executor: BaseSandboxExecutor) -> None:
    policy = SandboxPolicy(timeout_s=0.3)
    result = executor.run_command(["sh", "-c", "echo early; sleep 60"], policy)
    assert result.timed_out
    assert result.stdout == b"early\n"
    assert result.duration_s < 10
    assert [item.kind for item in result.violations] == ["timeout"]


def test_a_target_that_ignores_signals_is_ended(executor: BaseSandboxExecutor) -> None:
    code = (
        "import signal, os, time\n"
        "for n in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except OSError: pass\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    assert python(executor, code, SandboxPolicy(timeout_s=0.3)).timed_out


def test_a_background_child_that_holds_stdout_does_not_hold_the_call(
    executor: BaseSandboxExecutor,
) -> None:
    began = time.monotonic()
    result = executor.run_command(["sh", "-c", "sleep 60 & echo done"], SandboxPolicy())
    assert result.stdout == b"done\n"
    assert time.monotonic() - began < 30


@pytest.mark.once
def test_no_daemon_outlives_the_call(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        while True:\n"
        f"            open({str(folder / 'beat')!r}, 'a').write('x')\n"
        "            time.sleep(0.01)\n"
        "    os._exit(0)\n"
        f"while not os.path.exists({str(folder / 'beat')!r}): time.sleep(0.001)\n"
    )
    policy = SandboxPolicy(allowed_write_paths=[folder])
    assert python(executor, code, policy).returncode == 0
    size = (folder / "beat").stat().st_size
    time.sleep(0.05)
    assert (folder / "beat").stat().st_size == size


def test_a_missing_command_is_named(executor: BaseSandboxExecutor) -> None:
    with pytest.raises(SandboxCommandNotFoundError, match="no-such-command"):
        executor.run_command(["no-such-command"], SandboxPolicy())


def test_a_file_without_execute_permission_is_refused(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "tool").write_text("#!/bin/sh\n")
    policy = SandboxPolicy(allowed_read_paths=[folder])
    with pytest.raises(SandboxPolicyViolationError):
        executor.run_command([folder / "tool"], policy)


def test_a_file_of_no_known_format_is_no_silent_success(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "tool").write_bytes(b"\0\1\2\3")
    (folder / "tool").chmod(0o755)
    policy = SandboxPolicy(allowed_read_paths=[folder])
    with pytest.raises(SandboxLaunchError, match="exec"):
        executor.run_command([folder / "tool"], policy)


@pytest.mark.parametrize("argv", ["true", b"true", [], [""], ["a\0b"], [3]])
def test_argv_that_is_no_list_of_words_is_refused(argv: object) -> None:
    with (
        LinuxNamespaceSandboxExecutor() as executor,
        pytest.raises((TypeError, ValueError)),
    ):
        executor.run_command(argv, SandboxPolicy())  # type: ignore[arg-type]


def test_enums_stand_for_their_values(executor: BaseSandboxExecutor) -> None:
    class Word(enum.StrEnum):
        TOOL = "printenv"
        NAME = "KEY"
        VALUE = "value"

    class Number(enum.IntEnum):
        FILES = 40

    policy = SandboxPolicy(
        env={Word.NAME: Word.VALUE},
        limits=ResourceLimits(open_files=Number.FILES),
        timeout_s=Number.FILES,
    )
    result = executor.run_command([Word.TOOL, Word.NAME], policy)
    assert result.stdout == b"value\n"
    assert SandboxPolicy.from_json(policy.to_json()) == policy


def test_the_environment_is_the_policy_and_a_minimum(
    executor: BaseSandboxExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECRET", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "GIT_DIR"):
        monkeypatch.setenv(name, "/leak")
    policy = SandboxPolicy(env={"MINE": "1", "PATH": "/usr/bin:/bin"})
    result = executor.run_command(["env"], policy)
    pairs = dict(line.split("=", 1) for line in result.stdout_text.splitlines())
    assert set(pairs) - {"PWD", "_", "SHLVL"} == {
        "HOME",
        "LANG",
        "MINE",
        "PATH",
        "TMPDIR",
    }
    assert pairs["PATH"] == "/usr/bin:/bin"
    assert os.path.isabs(pairs["TMPDIR"])


@pytest.mark.once
def test_the_target_has_no_terminal_and_a_process_group_of_its_own(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    code = """
import os, signal
try: os.close(os.open("/dev/tty", os.O_RDWR))
except OSError: print("no terminal")
print(os.getpgrp() == os.getpid())
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
os.kill(0, signal.SIGUSR1)
print("alive")
"""
    assert python(executor, code).stdout_text.split("\n")[:3] == [
        "no terminal",
        "True",
        "alive",
    ]
    # Once more from a process that has a controlling terminal.
    script = folder / "script.py"
    script.write_text(
        "import sys\n"
        "from lazycore.sandbox import *\n"
        f"with {type(executor).__name__}(allow_degraded=frozenset(Guarantee)) as e:\n"
        "    argv = [sys.executable, '-I', '-S', '-c', sys.argv[1]]\n"
        "    print(e.run_command(argv, SandboxPolicy()).stdout_text)\n"
    )
    pid, terminal = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, str(script), code])
    said = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 4096):
            said += chunk
    os.close(terminal)
    os.waitpid(pid, 0)
    assert said.split()[:4] == [b"no", b"terminal", b"True", b"alive"]


def test_no_descriptor_is_inherited(executor: BaseSandboxExecutor) -> None:
    read, write = os.pipe()
    try:
        for fd in (read, write):
            os.set_inheritable(fd, True)
        code = (
            "import os\n"
            "for fd in range(3, 1000):\n"
            "    try: os.fstat(fd); print(fd)\n"
            "    except OSError: pass\n"
        )
        assert python(executor, code).stdout == b""
    finally:
        os.close(read)
        os.close(write)


def test_the_working_directory_is_the_policy_s_or_private(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    policy = SandboxPolicy(allowed_read_paths=[folder], cwd=folder)
    assert executor.run_command(["pwd"], policy).stdout_text.strip() == str(folder)
    script = "echo x > here && cat here && pwd"
    result = executor.run_command(["sh", "-c", script], SandboxPolicy())
    assert result.stdout_text.startswith("x\n")
    again = executor.run_command(["ls", "-A"], SandboxPolicy())
    # Nothing is left but the way to an interpreter that lies in the host's /tmp.
    left = [f"/tmp/{name}" for name in again.stdout_text.split()]
    assert [path for path in left if not sys.prefix.startswith(path)] == []


@pytest.mark.once
def test_scratch_space_of_any_shape_is_gone_afterwards(
    executor: BaseSandboxExecutor,
) -> None:
    code = (
        "import os\n"
        "print(os.getcwd())\n"
        "os.mkdir('locked'); os.mkdir('locked/in'); os.chmod('locked', 0)\n"
        "os.symlink('/etc', 'link')\n"
        "for i in range(1100):\n"
        "    os.mkdir('d'); os.chdir('d')\n"
        "open('file', 'w').close()\n"
    )
    result = python(executor, code)
    assert result.returncode == 0, result.stderr_text
    left = [
        name
        for name in os.listdir(os.environ.get("TMPDIR", "/tmp"))
        if name.startswith("lazycore-sandbox-")
    ]
    assert os.path.basename(result.stdout_text.strip()) not in left


def test_reading_and_writing_end_at_the_listed_paths(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    for name in ("shown", "work"):
        (folder / name).mkdir()
        (folder / name / "file").write_text(name)
    (folder / "hidden").write_text("hidden")
    (folder / "work" / "link").symlink_to(folder / "hidden")
    policy = SandboxPolicy(
        allowed_read_paths=[folder / "shown"], allowed_write_paths=[folder / "work"]
    )
    script = f"""
        cat {folder}/shown/file {folder}/work/file
        cat {folder}/hidden; cat {folder}/work/link; cat /etc/shadow
        echo x > {folder}/shown/file; echo x > {folder}/shown/new
        rm {folder}/shown/file; mv {folder}/work/file {folder}/shown/file
        echo new > {folder}/work/new
    """
    result = executor.run_command(["sh", "-c", script], policy)
    assert result.stdout == b"shownwork"
    assert (folder / "shown" / "file").read_text() == "shown"
    assert sorted(os.listdir(folder / "shown")) == ["file"]
    assert (folder / "hidden").read_text() == "hidden"
    assert (folder / "work" / "new").read_text() == "new\n"


def test_one_file_can_be_granted_alone(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    for name in ("mine", "other"):
        (folder / name).write_text("old")
    policy = SandboxPolicy(
        allowed_read_paths=[folder / "other"], allowed_write_paths=[folder / "mine"]
    )
    script = f"cat {folder}/other; echo new > {folder}/mine; echo x > {folder}/other"
    assert executor.run_command(["sh", "-c", script], policy).stdout == b"old"
    assert (folder / "mine").read_text() == "new\n"
    assert (folder / "other").read_text() == "old"


def test_odd_names_are_only_names(executor: BaseSandboxExecutor, folder: Path) -> None:
    for name in ("a b", 'q"uote', "back\\slash", "new\nline", "[x]*", "ünïcode", "-v"):
        place = folder / name
        place.mkdir()
        (place / "file").write_text(name)
        policy = SandboxPolicy(allowed_write_paths=[place], cwd=place)
        result = executor.run_command(["cat", "./file"], policy)
        assert result.stdout_text == name


def test_a_replaced_path_is_noticed_between_check_and_run(
    executor: BaseSandboxExecutor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "data").mkdir()
    (folder / "secret").mkdir()
    assert isinstance(executor, NativeExecutor)
    genuine = type(executor).request

    def swap(self: NativeExecutor, *args: Any) -> Request:
        request = genuine(self, *args)
        os.rename(folder / "data", folder / "old")
        os.rename(folder / "secret", folder / "data")
        return request

    monkeypatch.setattr(type(executor), "request", swap)
    policy = SandboxPolicy(allowed_read_paths=[folder / "data"])
    with pytest.raises(SandboxPolicyError, match="replaced"):
        executor.run_command(["true"], policy)


@pytest.mark.once
def test_the_host_cannot_be_reached_over_any_socket(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0)
        os.chdir(folder)
        unix.bind("s")
        unix.listen()
        code = f"""
import socket
def refused(family, kind, proto, address):
    try:
        s = socket.socket(family, kind, proto)
        s.settimeout(1)
        s.sendto(b"x", address) if kind == 2 else s.connect(address)
    except OSError:
        print("refused")
    else:
        print("open")
refused(2, 1, 0, ("127.0.0.1", {tcp.getsockname()[1]}))
refused(1, 1, 0, {str(folder / "s")!r})
refused(1, 1, 0, "s")
try: refused(2, 2, 0, ("127.0.0.1", {udp.getsockname()[1]}))
except OSError: pass
"""
        policy = SandboxPolicy(allowed_write_paths=[folder], cwd=folder)
        lines = python(executor, code, policy).stdout_text.split()
        assert lines[:3] == ["refused"] * 3
        with pytest.raises(BlockingIOError):
            udp.recv(1)


def test_the_network_is_there_when_the_policy_says_so(
    executor: BaseSandboxExecutor,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        result = python(executor, code, SandboxPolicy(allow_network=True))
        assert result.returncode == 0, result.stderr_text
        server.settimeout(5)
        server.accept()[0].close()


def test_unix_sockets_work_when_the_policy_says_so(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        os.chdir(folder)
        unix.bind("s")
        unix.listen()
        policy = SandboxPolicy(
            allowed_read_paths=[folder], cwd=folder, allow_unix_sockets=True
        )
        code = "import socket; socket.socket(socket.AF_UNIX).connect('s')"
        result = python(executor, code, policy)
        assert result.returncode == 0, result.stderr_text


@pytest.mark.once
def test_what_programs_need_of_a_system_is_there(executor: BaseSandboxExecutor) -> None:
    code = """
import json, os, socket, subprocess, ssl, tempfile, threading
a, b = socket.socketpair(); a.send(b"x")
open("/dev/null", "w").write("x"); open("/dev/urandom", "rb").read(1)
threading.Thread(target=lambda: None).start()
subprocess.run(["sh", "-c", "true"], check=True)
tempfile.TemporaryFile().write(b"x")
import asyncio
import contextlib
asyncio.run(asyncio.to_thread(lambda: None))
print("well")
"""
    result = executor.run_command(
        [sys.executable, "-I", "-B", "-c", code], SandboxPolicy()
    )
    assert result.stdout_text == "well\n", result.stderr_text


def test_a_policy_without_the_system_set_shows_nothing_of_it(
    executor: BaseSandboxExecutor,
) -> None:
    policy = SandboxPolicy(include_system=False)
    with pytest.raises((SandboxCommandNotFoundError, SandboxPolicyViolationError)):
        executor.run_command(["/bin/sh", "-c", "true"], policy)


@pytest.mark.once
def test_limits_end_a_run_and_are_named(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    cases = {
        "cpu": ("while True: pass", ResourceLimits(cpu_s=0.1)),
        "memory": (
            "x = b'x' * (200 << 20); import time; time.sleep(30)",
            ResourceLimits(memory_bytes=96 << 20),
        ),
        "workspace": (
            (
                f"open({str(folder / 'big')!r}, 'wb').write(b'x' * (8 << 20))"
                "\nimport time; time.sleep(30)"
            ),
            ResourceLimits(workspace_bytes=1 << 20),
        ),
    }
    for kind, (code, limits) in cases.items():
        policy = SandboxPolicy(allowed_write_paths=[folder], limits=limits)
        result = python(executor, code, policy)
        assert kind in {item.kind for item in result.violations}, kind
        assert not result.timed_out


@pytest.mark.once
def test_cpu_time_counts_for_the_tree_not_for_one_process(
    executor: BaseSandboxExecutor,
) -> None:
    code = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"
    policy = SandboxPolicy(limits=ResourceLimits(cpu_s=0.2), timeout_s=30)
    result = python(executor, code, policy)
    assert [item.kind for item in result.violations] == ["cpu"]
    assert result.usage.cpu_s < 5


@pytest.mark.once
def test_memory_counts_for_the_tree_and_shared_pages_once(
    executor: BaseSandboxExecutor,
) -> None:
    limits = ResourceLimits(memory_bytes=120 << 20)
    policy = SandboxPolicy(limits=limits, timeout_s=30)
    together = (
        "import os, time\nfor _ in range(3): os.fork()\n"
        "x = b'x' * (30 << 20); time.sleep(30)"
    )
    kinds = [item.kind for item in python(executor, together, policy).violations]
    assert kinds == ["memory"]
    shared = (
        "import os, time\nx = b'x' * (50 << 20)\n"
        "for _ in range(3): os.fork()\ntime.sleep(0.2)"
    )
    assert python(executor, shared, policy).returncode == 0


@pytest.mark.once
def test_a_workspace_that_hides_a_directory_is_over_its_limit(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    (folder / "work").mkdir()
    policy = SandboxPolicy(
        allowed_write_paths=[folder / "work"],
        cwd=folder / "work",
        limits=ResourceLimits(workspace_bytes=10 << 20),
        timeout_s=20,
    )
    script = "mkdir in; head -c 20000000 /dev/zero > in/file; chmod 0 in; sleep 20"
    result = namespace_executor.run_command(["sh", "-c", script], policy)
    (folder / "work" / "in").chmod(0o700)
    assert [item.kind for item in result.violations] == ["workspace"]


@pytest.mark.once
def test_memory_of_a_process_that_hides_itself_counts(
    executor: BaseSandboxExecutor,
) -> None:
    code = (
        "import ctypes, time\n"
        "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"  # PR_SET_DUMPABLE
        "x = b'x' * (200 << 20); time.sleep(30)"
    )
    policy = SandboxPolicy(limits=ResourceLimits(memory_bytes=96 << 20), timeout_s=30)
    kinds = [item.kind for item in python(executor, code, policy).violations]
    assert kinds == ["memory"]


@pytest.mark.parametrize("count", [4, 20])
def test_few_open_files_are_enough_to_start(
    executor: BaseSandboxExecutor, count: int
) -> None:
    policy = SandboxPolicy(limits=ResourceLimits(open_files=count))
    assert executor.run_command(["true"], policy).returncode == 0


def test_a_file_over_its_limit_cannot_be_written(
    executor: BaseSandboxExecutor,
) -> None:
    policy = SandboxPolicy(limits=ResourceLimits(file_size_bytes=1000))
    code = (
        "import os\nfd = os.open('f', os.O_CREAT | os.O_WRONLY)\n"
        "print(os.write(fd, b'x' * 5000), flush=True)\nos.write(fd, b'x')"
    )
    result = python(executor, code, policy)
    assert result.stdout == b"1000\n"
    assert "File too large" in result.stderr_text


@pytest.mark.once
def test_a_flood_of_output_is_bounded(executor: BaseSandboxExecutor) -> None:
    policy = SandboxPolicy(limits=ResourceLimits(output_bytes=1000))
    script = "head -c 5000000 /dev/zero; echo end"
    result = executor.run_command(["sh", "-c", script], policy)
    assert len(result.stdout) < 1100
    assert result.stdout.endswith(b"end\n")
    assert result.stdout_total_bytes == 5_000_004
    assert [item.kind for item in result.violations] == ["output"]


def test_core_dumps_are_off_and_open_files_bounded(
    executor: BaseSandboxExecutor,
) -> None:
    policy = SandboxPolicy(limits=ResourceLimits(open_files=20))
    result = executor.run_command(["sh", "-c", "ulimit -c; ulimit -n"], policy)
    assert result.stdout_text.split() == ["0", "20"]


def test_usage_says_what_was_consumed(executor: BaseSandboxExecutor) -> None:
    result = python(executor, "x = b'x' * (30 << 20)\nfor i in range(10**5): pass")
    assert result.usage.max_rss_bytes > 30 << 20
    assert 0 < result.usage.cpu_s < 20
    assert result.usage.processes >= 1


def test_threads_share_an_executor(executor: BaseSandboxExecutor) -> None:
    wrong: list[object] = []

    def work(name: str) -> None:
        for turn in range(2):
            said = f"{name}-{turn}"
            result = executor.run_command(["echo", said], SandboxPolicy())
            if result.stdout_text != said + "\n":
                wrong.append(result)

    threads = [threading.Thread(target=work, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_async_twin_runs_beside_the_loop(executor: BaseSandboxExecutor) -> None:
    async def both() -> list[bytes]:
        runs = [executor.arun_command(["echo", n], SandboxPolicy()) for n in "ab"]
        return [result.stdout for result in await asyncio.gather(*runs)]

    assert asyncio.run(both()) == [b"a\n", b"b\n"]


def test_a_guarantee_that_is_missing_raises_before_anything_runs(folder: Path) -> None:
    with LandlockSandboxExecutor() as executor:
        report = executor.probe_for(frozenset())
        if not report.available:
            pytest.skip(f"the backend landlock cannot run here: {report.reason}")
        with pytest.raises(SandboxBackendUnavailableError) as caught:
            executor.run_command(["touch", str(folder / "x")], SandboxPolicy())
    assert "Guarantee.FS_METADATA" in str(caught.value)
    assert not (folder / "x").exists()


def test_what_was_degraded_is_written_into_the_result(
    landlock_executor: LandlockSandboxExecutor,
) -> None:
    result = landlock_executor.run_command(["true"], SandboxPolicy())
    assert Guarantee.FS_METADATA in result.degraded
    assert Guarantee.FS_METADATA not in result.guarantees


def test_a_closed_executor_does_not_run() -> None:
    executor = LinuxNamespaceSandboxExecutor()
    executor.close()
    executor.close()
    with pytest.raises(SandboxError):
        executor.run_command(["true"], SandboxPolicy())

"""Ways out that once worked, each held shut by a run on the live backends."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from lazycore.sandbox import (
    BaseSandboxExecutor,
    LandlockSandboxExecutor,
    LinuxNamespaceSandboxExecutor,
    SandboxCallableError,
    SandboxLaunchError,
    SandboxPolicy,
    SandboxSession,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    RunScript = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.once


def _python(executor: BaseSandboxExecutor, code: str, policy: SandboxPolicy) -> str:
    argv = [sys.executable, "-I", "-S", "-B", "-c", code]
    result = executor.run_command(argv, policy)
    assert result.returncode == 0, result.stderr_text
    return result.stdout_text


@pytest.mark.parametrize("kind", ["SOCK_DGRAM", "SOCK_RAW"])
def test_a_pair_of_sockets_cannot_turn_to_a_socket_of_the_host(
    executor: BaseSandboxExecutor,
    folder: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = f"""
import socket
try:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.{kind})
    ours.sendto(b"out", "host")
except PermissionError:
    print("refused")
"""
    monkeypatch.chdir(folder)  # a socket's name is short: unix(7)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.bind("host")
        host.setblocking(False)
        policy = SandboxPolicy(allowed_write_paths=[folder], cwd=folder)
        assert _python(executor, code, policy) == "refused\n"
        with pytest.raises(BlockingIOError):
            host.recv(10)


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_SEQPACKET"])
def test_pairs_that_stay_with_their_peer_work(
    executor: BaseSandboxExecutor, kind: str
) -> None:
    code = f"""
import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.{kind})
a.send(b"x")
print(b.recv(1))
"""
    assert _python(executor, code, SandboxPolicy()) == "b'x'\n"


def test_the_standard_input_is_no_node_of_the_host(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    # The mode is the one that it has: without the fix this harms nothing.
    code = """
import os
for change in (lambda: os.fchmod(0, 0o666), lambda: os.utime(0)):
    try:
        change()
    except OSError:
        continue
    print("changed")
print(os.readlink("/proc/self/fd/0"), os.read(0, 1))
"""
    told = _python(namespace_executor, code, SandboxPolicy())
    assert told == "/dev/null b''\n"


def test_a_call_has_no_node_of_the_host_either(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    with (
        SandboxSession(SandboxPolicy(), namespace_executor) as session,
        pytest.raises(SandboxCallableError, match=r"OSError|PermissionError"),
    ):
        session.run_callable(os.fchmod, 0, 0o666)


def test_the_kernels_secrets_are_covered(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    code = """
import os, stat
for name in sorted(os.listdir("/proc")):
    path = "/proc/" + name
    mode = os.lstat(path).st_mode
    if stat.S_ISREG(mode) and (not mode & 4 or name.startswith("key")):
        try:
            if os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 8):
                print(name)
        except OSError:
            pass
"""
    assert _python(namespace_executor, code, SandboxPolicy()) == ""


@pytest.mark.parametrize("layout", ["plain", "package", "link"])
def test_a_session_imports_nothing_that_a_run_may_have_written(
    executor: BaseSandboxExecutor, folder: Path, layout: str
) -> None:
    code, work = folder / "code", folder / "code" / "work"
    work.mkdir(parents=True)
    planted = work / "lazycore_planted.py"
    planted.write_text(f"open({str(work / 'ran')!r}, 'w').close()\n")
    name, path = "lazycore_planted", work
    if layout == "package":
        name, path = "work.lazycore_planted", code
    elif layout == "link":
        (code / "lazycore_planted.py").symlink_to(planted)
        path = code
    policy = SandboxPolicy(allowed_read_paths=[code], allowed_write_paths=[work])
    with pytest.raises(SandboxLaunchError, match="where runs may write"):
        SandboxSession(policy, executor, preload=[name], path=[path])
    assert not (work / "ran").exists()


def test_a_session_still_calls_what_a_run_may_have_written(
    landlock_executor: LandlockSandboxExecutor,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "lazycore_written.py").write_text("def two():\n    return 2\n")
    monkeypatch.syspath_prepend(folder)
    import lazycore_written  # type: ignore[import-not-found]

    policy = SandboxPolicy(allowed_write_paths=[folder])
    with SandboxSession(policy, landlock_executor, path=[folder]) as session:
        assert session.run_callable(lazycore_written.two).value == 2


def test_a_target_cannot_bound_or_slow_down_what_meters_it(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    code = """
import os, resource
for change in (
    lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)),
    lambda: os.sched_setaffinity(1, {0}),
    lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
    lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
):
    try:
        change()
    except PermissionError:
        print("refused")
os.setpriority(os.PRIO_PROCESS, os.getpid(), 19)
os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))
"""
    assert _python(namespace_executor, code, SandboxPolicy()) == "refused\n" * 5


def test_a_plain_users_keys_have_no_name_inside(as_plain_user: RunScript) -> None:
    done = as_plain_user(
        """
        from lazycore.sandbox import LinuxNamespaceSandboxExecutor, SandboxPolicy
        with LinuxNamespaceSandboxExecutor() as executor:
            argv = ["cat", "/proc/keys", "/proc/key-users"]
            print(executor.run_command(argv, SandboxPolicy()).stdout)
        """
    )
    assert done.stdout == "b''\n", done.stderr

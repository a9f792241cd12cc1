"""What a run needed of its policy, learnt by watching it confined."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

import pytest

from lazycore.sandbox import (
    BaseSandboxExecutor,
    SandboxBackendUnavailableError,
    SandboxError,
    SandboxPolicy,
)
from lazycore.sandbox import _explain as explaining
from lazycore.sandbox._explain import explain, learn
from lazycore.sandbox._linux._trace import Access, _address, trace

if TYPE_CHECKING:
    from pathlib import Path


def access(kind: str, subject: object, error: int = 0) -> Access:
    return Access(kind=kind, subject=str(subject), error=error)


@pytest.fixture
def place(folder: Path) -> Path:
    (folder / "shown").mkdir()
    (folder / "shown" / "file").write_text("x")
    (folder / "hidden").mkdir()
    for name in "abcdef":
        (folder / "hidden" / name).write_text("x")
    return folder


def test_a_live_run_is_explained(executor: BaseSandboxExecutor, place: Path) -> None:
    policy = SandboxPolicy(allowed_read_paths=[place / "shown"], timeout_s=30)
    script = (
        f"cat {place}/shown/file {place}/hidden/a; cd {place}/shown;"
        f"(echo x > {place}/hidden/new); cat ../hidden/b; exit 7"
    )
    result, learnt = learn(executor, ["sh", "-c", script], policy)
    assert result.returncode == 7
    assert result.stdout == b"x"
    assert learnt.used == (f"--read {place}/shown",)
    assert f"--read {place}/hidden/a" in learnt.missing
    assert f"--write {place}/hidden" in learnt.missing
    assert any(line.startswith(f"read {place}/hidden/a: ") for line in learnt.refused)
    assert not (place / "hidden" / "new").exists()


@pytest.mark.once
def test_descendants_and_threads_are_watched(
    namespace_executor: BaseSandboxExecutor, place: Path
) -> None:
    code = (
        "import os, subprocess, threading\n"
        f"def look(n):\n"
        f"    try: open('{place}/hidden/' + n)\n"
        "    except OSError: pass\n"
        "t = threading.Thread(target=look, args=('a',)); t.start(); t.join()\n"
        "if os.fork() == 0: look('b'); os._exit(0)\n"
        "os.wait()\n"
        f"subprocess.run(['cat', '{place}/hidden/c'])\n"
    )
    words = [sys.executable, "-I", "-S", "-c", code]
    _, accesses = trace(namespace_executor, words, SandboxPolicy(timeout_s=30))
    failed = {each.subject for each in accesses if each.error}
    assert {f"{place}/hidden/{name}" for name in "abc"} <= failed


@pytest.mark.once
def test_a_target_that_passes_nonsense_does_not_stop_the_tracer(
    namespace_executor: BaseSandboxExecutor, place: Path
) -> None:
    code = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.open.argtypes = [ctypes.c_void_p, ctypes.c_int]\n"
        "libc.connect.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]\n"
        "for address in (0, 1, 2**63, 2**64 - 1):\n"
        "    libc.open(address, 0)\n"
        "    libc.connect(-1, address, 16)\n"
        "libc.connect(-1, b'x', 1)\n"
        "libc.connect(-1, b'\\377' * 16, 16)\n"
        f"try: open('{place}/hidden/a')\n"
        "except OSError: pass\n"
        "for _ in range(300): os.path.exists('/nowhere')\n"
    )
    words = [sys.executable, "-I", "-S", "-c", code]
    result, accesses = trace(namespace_executor, words, SandboxPolicy(timeout_s=30))
    assert result.returncode == 0
    assert access("read", place / "hidden" / "a", errno.ENOENT) in accesses
    assert len(set(accesses)) == len(accesses)


@pytest.mark.once
def test_a_connection_is_explained(namespace_executor: BaseSandboxExecutor) -> None:
    code = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    words = [sys.executable, "-I", "-S", "-c", code]
    _, learnt = learn(namespace_executor, words, SandboxPolicy(timeout_s=30))
    assert learnt.missing == ("--net",)
    assert learnt.refused[0].startswith("connect 127.0.0.1:9: ")


@pytest.mark.once
def test_a_list_of_programs_is_explained(
    namespace_executor: BaseSandboxExecutor,
) -> None:
    policy = SandboxPolicy(allowed_executables=["/bin/sh"], timeout_s=30)
    _, learnt = learn(
        namespace_executor, ["/bin/sh", "-c", "/bin/cat </dev/null"], policy
    )
    assert f"--exec {os.path.realpath('/bin/cat')}" in learnt.missing


@pytest.mark.once
def test_a_run_that_hangs_ends_with_its_timeout(
    executor: BaseSandboxExecutor,
) -> None:
    result, _ = learn(executor, ["sleep", "600"], SandboxPolicy(timeout_s=0.7))
    assert result.timed_out


@pytest.mark.once
def test_a_command_that_is_not_there_is_the_shells_to_tell(
    executor: BaseSandboxExecutor,
) -> None:
    result, _ = learn(executor, ["nonexistent"], SandboxPolicy(timeout_s=30))
    assert result.returncode == 127


def test_a_policy_that_cannot_be_held_is_no_trace(
    executor: BaseSandboxExecutor,
) -> None:
    with pytest.raises(SandboxError):
        learn(executor, ["true"], SandboxPolicy(allowed_read_paths=["/nonexistent"]))


def test_other_systems_have_no_tracer(
    executor: BaseSandboxExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "_SYSTEM", "darwin")
    with pytest.raises(SandboxBackendUnavailableError, match="ptrace"):
        learn(executor, ["true"], SandboxPolicy())


def test_what_is_nowhere_on_the_host_is_not_missed(place: Path) -> None:
    learnt = explain(
        [
            access("read", place / "nowhere", errno.ENOENT),
            access("metadata", place / "nowhere" / "x", errno.ENOENT),
            access("write", place / "nowhere" / "x", errno.ENOENT),
            access("read", "/usr/lib/nowhere", errno.ENOENT),
            access("read", "/proc/1/environ", errno.EACCES),
            access("read", place / "hidden" / "a", errno.EINTR),
        ],
        SandboxPolicy(),
    )
    assert learnt == explain([], SandboxPolicy())


def test_many_files_of_one_directory_become_the_directory(place: Path) -> None:
    tried = [access("read", place / "hidden" / n, errno.ENOENT) for n in "abcdef"]
    assert explain(tried, SandboxPolicy()).missing == (f"--read {place}/hidden",)
    assert len(explain(tried[:3], SandboxPolicy()).missing) == 3


def test_what_is_denied_on_purpose_is_told_and_not_offered(place: Path) -> None:
    policy = SandboxPolicy(allowed_read_paths=[place], denied_paths=[place / "hidden"])
    learnt = explain([access("read", place / "hidden" / "a", errno.EACCES)], policy)
    assert learnt.missing == ()
    assert len(learnt.refused) == 1


def test_sockets_are_told_apart(place: Path) -> None:
    unix = f"unix:{place}/s"
    closed = explain(
        [
            access("connect", unix, errno.EACCES),
            access("connect", "127.0.0.1:80", errno.EINPROGRESS),
            access("socket", "2"),
            access("socket", "1", errno.EACCES),
        ],
        SandboxPolicy(),
    )
    assert closed.missing == ("--net", "--unix-sockets")
    assert len(closed.refused) == 3
    opened = explain(
        [access("connect", unix), access("connect", "127.0.0.1:80")],
        SandboxPolicy(allow_network=True, allow_unix_sockets=True),
    )
    assert opened.used == ("--net", "--unix-sockets")
    assert opened.refused == ()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\2\0\0\x50\x7f\0\0\1", "127.0.0.1:80"),
        (b"\x0a\0\0\x50\0\0\0\0" + bytes(15) + b"\1", "[::1]:80"),
        (b"\1\0/run/x\0junk", "unix:/run/x"),
        (b"\1\0\0abs\0", "unix:@abs"),
    ],
)
def test_an_address_is_read(data: bytes, text: str) -> None:
    if sys.byteorder == "big":
        pytest.skip("written for a little-endian host")
    assert _address(data) == text

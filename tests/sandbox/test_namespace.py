"""What only a root of one's own can hold."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lazycore.sandbox
from lazycore.sandbox import (
    LinuxNamespaceSandboxExecutor,
    ResourceLimits,
    SandboxPolicy,
    SandboxPolicyError,
    SandboxPolicyViolationError,
    SandboxSession,
)
from lazycore.sandbox._linux._plan import policy_binds, split_links
from lazycore.sandbox._linux._proc import RESERVED_PIDS
from lazycore.sandbox._preflight import preflight

if TYPE_CHECKING:
    from lazycore.sandbox import SandboxResult

pytestmark = pytest.mark.once

PACKAGE_ROOT = Path(next(iter(lazycore.sandbox.__path__))).parents[1]
SH = os.path.realpath("/bin/sh")


def shell(
    executor: LinuxNamespaceSandboxExecutor, script: str, policy: SandboxPolicy
) -> SandboxResult:
    return executor.run_command([SH, "-c", script], policy)


def python(
    executor: LinuxNamespaceSandboxExecutor, code: str, policy: SandboxPolicy
) -> SandboxResult:
    argv = [sys.executable, "-I", "-S", "-B", "-c", code]
    return executor.run_command(argv, policy)


def test_nothing_but_the_plan_has_a_name(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    (folder / "shown").mkdir()
    (folder / "hidden").write_text("x")
    policy = SandboxPolicy(allowed_read_paths=[folder / "shown"])
    script = f"ls -A {folder}; test -e {folder}/hidden && echo seen; ls -A /etc"
    words = shell(namespace_executor, script, policy).stdout_text.split()
    assert words[0] == "shown"
    assert "seen" not in words
    assert not {"shadow", "hostname", "ssh"} & set(words)


def test_metadata_of_readable_paths_cannot_be_changed(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    (folder / "shown").mkdir()
    target = folder / "shown" / "file"
    target.write_text("x")
    before = target.stat()
    policy = SandboxPolicy(allowed_read_paths=[folder / "shown"])
    code = f"""
import os
p = {str(target)!r}
for attempt in (
    lambda: os.chmod(p, 0o600), lambda: os.utime(p, (1, 1)),
    lambda: os.setxattr(p, b"user.x", b"1"), lambda: os.chown(p, -1, os.getgid()),
):
    try: attempt()
    except OSError: continue
    print("changed")
"""
    assert python(namespace_executor, code, policy).stdout == b""
    after = target.stat()
    assert (after.st_mode, after.st_mtime) == (before.st_mode, before.st_mtime)


def test_a_denied_path_is_closed_inside_an_allowed_one(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    (folder / "repo" / ".git" / "hooks").mkdir(parents=True)
    (folder / "repo" / ".git" / "hooks" / "pre-commit").write_text("secret")
    (folder / "repo" / ".env").write_text("secret")
    (folder / "repo" / "code").write_text("open")
    policy = SandboxPolicy(
        allowed_write_paths=[folder / "repo"],
        denied_paths=[folder / "repo" / ".env", folder / "repo" / ".git" / "hooks"],
        cwd=folder / "repo",
    )
    script = """
        cat code; cat .env; ls .git/hooks; cat .git/hooks/pre-commit
        chmod 777 .env .git/hooks; rm -rf .env .git/hooks; echo x > .env
        mv .git moved; mv .git/hooks away; ln .env copy; cat copy
        mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit
        cat /proc/self/root/$PWD/.env /proc/self/cwd/.env
    """
    result = shell(namespace_executor, script, policy)
    assert result.stdout == b"open"
    assert (folder / "repo" / ".env").read_text() == "secret"
    hook = folder / "repo" / ".git" / "hooks" / "pre-commit"
    assert hook.read_text() == "secret"
    # mv falls back to copying what it may see: an empty directory.
    left = set(os.listdir(folder / "repo")) - {"away"}
    assert left == {".env", ".git", "code"}


def test_the_parent_of_a_protected_path_cannot_be_moved_away(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    deep = folder / "work" / "a" / "b" / "secret"
    deep.mkdir(parents=True)
    policy = SandboxPolicy(
        allowed_write_paths=[folder / "work"], denied_paths=[deep], cwd=folder / "work"
    )
    script = "mv a x; mv a/b a/y; rmdir a/b; echo rest; touch a/ok a/b/ok"
    result = shell(namespace_executor, script, policy)
    assert result.stdout == b"rest\n"
    assert deep.is_dir()
    assert (folder / "work" / "a" / "b" / "ok").exists()


def test_a_readable_path_inside_a_writable_one_stays_read_only(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    (folder / "work" / "in" / "kept").mkdir(parents=True)
    (folder / "work" / "in" / "kept" / "file").write_text("old")
    policy = SandboxPolicy(
        allowed_write_paths=[folder / "work"],
        allowed_read_paths=[folder / "work" / "in" / "kept"],
        cwd=folder / "work",
    )
    script = "echo x > in/kept/file; mv in other; cat in/kept/file; echo y > in/new"
    assert shell(namespace_executor, script, policy).stdout == b"old"
    assert (folder / "work" / "in" / "kept" / "file").read_text() == "old"
    assert (folder / "work" / "in" / "new").exists()


def test_a_writable_path_inside_a_readable_one_is_writable(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    (folder / "tree" / "out").mkdir(parents=True)
    policy = SandboxPolicy(
        allowed_read_paths=[folder / "tree"],
        allowed_write_paths=[folder / "tree" / "out"],
        cwd=folder / "tree",
    )
    shell(namespace_executor, "echo x > out/file; echo x > file", policy)
    assert os.listdir(folder / "tree" / "out") == ["file"]
    assert sorted(os.listdir(folder / "tree")) == ["out"]


def test_mount_points_are_never_made_on_the_host(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    before = sorted(str(path) for path in folder.rglob("*"))
    policy = SandboxPolicy(
        allowed_write_paths=[folder / "a"], denied_paths=[folder / "a" / "b"]
    )
    shell(namespace_executor, "true", policy)
    assert sorted(str(path) for path in folder.rglob("*")) == before


def test_only_listed_executables_start(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    copy = os.path.realpath("/bin/cp")
    policy = SandboxPolicy(
        allowed_write_paths=[folder], allowed_executables=[SH, copy], cwd=folder
    )
    loader = "/lib64/ld-linux-x86-64.so.2"
    if not os.path.exists(loader):
        loader = "/lib/ld-linux-aarch64.so.1"
    script = f"""
        ls; id; cp /usr/bin/id mine; ./mine; cp /usr/bin/id /tmp/id; /tmp/id
        {loader} /usr/bin/id; {loader} ./mine; {loader} /tmp/id
        /proc/self/exe -c 'echo again'; echo end
    """
    result = shell(namespace_executor, script, policy)
    assert result.stdout_text.split() == ["again", "end"]
    with pytest.raises(SandboxPolicyViolationError):
        namespace_executor.run_command(["ls"], policy)


def test_a_program_in_memory_does_not_start_under_a_list(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    policy = SandboxPolicy(allowed_executables=[os.path.realpath(sys.executable)])
    code = "import os; os.memfd_create('x')"
    assert b"Operation not permitted" in python(namespace_executor, code, policy).stderr


def test_a_listed_script_needs_its_interpreter_on_the_list(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    (folder / "tool").write_text(f"#!{SH}\necho ran\n")
    (folder / "tool").chmod(0o755)
    alone = SandboxPolicy(
        allowed_read_paths=[folder], allowed_executables=[folder / "tool"]
    )
    with pytest.raises(SandboxPolicyError, match="interpreter"):
        namespace_executor.run_command([folder / "tool"], alone)
    both = SandboxPolicy(
        allowed_read_paths=[folder], allowed_executables=[folder / "tool", SH]
    )
    ran = namespace_executor.run_command([folder / "tool"], both)
    assert ran.stdout == b"ran\n"


def test_processes_are_counted_for_the_whole_tree(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    policy = SandboxPolicy(limits=ResourceLimits(processes=10), timeout_s=30)
    code = """
import os, time
count = 0
try:
    for _ in range(40):
        if os.fork() == 0:
            time.sleep(30)
        count += 1
except OSError as error:
    print(count, error.errno, flush=True)
os._exit(0)
"""
    result = python(namespace_executor, code, policy)
    count, code_ = map(int, result.stdout_text.split())
    assert count == 9
    assert code_ == 11


def test_a_fork_bomb_ends_with_its_timeout(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    policy = SandboxPolicy(limits=ResourceLimits(processes=64), timeout_s=0.5)
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    result = python(namespace_executor, bomb, policy)
    assert result.timed_out
    assert result.duration_s < 20


def test_the_target_holds_no_capability_and_cannot_mount(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    script = """
        grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status
        mount -o remount,rw /usr; mount -t tmpfs none /tmp; umount /tmp
        unshare -Ur true; chroot / true; mknod /tmp/n c 1 1; hostname evil
        for f in kernel/core_pattern vm/drop_caches kernel/hostname; do
            echo x > /proc/sys/$f && echo wrote; done
        echo b > /proc/sysrq-trigger; echo end
    """
    words = shell(namespace_executor, script, SandboxPolicy()).stdout_text.split()
    fields = dict(zip(words[:-1:2], words[1:-1:2], strict=True))
    assert words[-1] == "end"
    assert all(int(v, 16) == 0 for k, v in fields.items() if k.startswith("Cap"))
    assert (fields["NoNewPrivs:"], fields["Seccomp:"]) == ("1", "2")


def test_pid_1_keeps_its_memory_descriptors_and_life(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    code = """
import ctypes, os, signal
for path in ("environ", "mem", "maps", "auxv", "syscall", "stack", "io"):
    try: open(f"/proc/1/{path}", "rb").read(64)
    except OSError: continue
    print("read", path)
for path in ("root", "cwd", "exe"):
    try: os.stat(f"/proc/1/{path}")
    except OSError: continue
    print("followed", path)
try: numbers = os.listdir("/proc/1/fd")  # uid 0 may count them
except OSError: numbers = []
for number in numbers:
    for attempt in (os.readlink, os.stat, open):
        try: attempt("/proc/1/fd/" + number)
        except OSError: continue
        print("reached", number)
for number in signal.valid_signals():
    try: os.kill(1, number)
    except OSError: pass
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, 1, 0, 0) == 0: print("traced")
print("end")
"""
    result = python(namespace_executor, code, SandboxPolicy())
    assert result.stdout == b"end\n"
    assert result.returncode == 0


def test_a_run_finds_its_own_processes_alone(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    script = "cat /proc/1/mountinfo /proc/1/net/unix; ls -d /proc/1; sleep 1 & ls /proc"
    result = shell(namespace_executor, script, SandboxPolicy())
    pids = [int(word) for word in result.stdout_text.split() if word.isdigit()]
    assert len(pids) == 3  # the shell, sleep and ls
    assert min(pids) >= RESERVED_PIDS
    assert result.stderr_text.count("No such file") == 3


def test_the_host_s_devices_and_processes_are_not_there(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    script = f"ls /dev; ls -d /sys /proc/{os.getpid()}; kill -0 {os.getpid()}; ls /run"
    words = set(shell(namespace_executor, script, SandboxPolicy()).stdout_text.split())
    assert words == {
        *("fd", "full", "null", "ptmx", "pts", "random", "shm"),
        *("stderr", "stdin", "stdout", "urandom", "zero"),
    }


def test_a_device_node_cannot_be_changed_on_the_host(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    before = os.stat("/dev/null").st_mode
    script = "chmod 600 /dev/null; chown 1 /dev/null; rm /dev/null; echo x > /dev/null"
    shell(namespace_executor, script, SandboxPolicy())
    assert os.stat("/dev/null").st_mode == before


def test_no_set_id_file_can_be_left_behind(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    policy = SandboxPolicy(allowed_write_paths=[folder], cwd=folder)
    code = """
import ctypes, os
for attempt in (
    lambda: os.close(os.open("a", os.O_CREAT | os.O_WRONLY, 0o6755)),
    lambda: os.mknod("b", 0o106755),
    lambda: os.chmod("c", 0o4755),
    lambda: os.fchmod(os.open("c", os.O_RDONLY), 0o2755),
):
    try: attempt()
    except OSError: pass
"""
    (folder / "c").touch()
    python(namespace_executor, code, policy)
    modes = {path.name: path.stat().st_mode & 0o6000 for path in folder.iterdir()}
    assert not any(modes.values()), modes


def test_loopback_inside_is_private_and_works(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    code = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
print("connected")
"""
    result = python(namespace_executor, code, SandboxPolicy())
    assert result.stdout == b"connected\n"


def test_an_interpreter_in_the_host_s_temporary_directory_is_found(
    tmp_path: Path,
) -> None:
    home = tmp_path.resolve() / "env"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(home)], check=True
    )
    script = """
import sys
from lazycore.sandbox import LinuxNamespaceSandboxExecutor, SandboxPolicy
report = LinuxNamespaceSandboxExecutor.probe_for(frozenset())
if not report.available:
    sys.exit(report.reason)
with LinuxNamespaceSandboxExecutor() as executor:
    argv = [sys.executable, "-c", "import sys; print(sys.prefix)"]
    print(executor.run_command(argv, SandboxPolicy()).stdout_text)
"""
    done = subprocess.run(
        [str(home / "bin" / "python"), "-c", script],
        env={"PYTHONPATH": str(PACKAGE_ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == str(home), done.stderr


def test_multiprocessing_and_terminals_work_inside(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    code = """
import multiprocessing, os, pty
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(abs, [-1, -2]))
    os.openpty()
"""
    result = namespace_executor.run_command(
        [sys.executable, "-I", "-B", "-c", code], SandboxPolicy()
    )
    assert result.stdout == b"[1, 2]\n", result.stderr_text


def test_the_plan_repeats_links_of_the_host_and_binds_what_they_lead_to(
    folder: Path,
) -> None:
    (folder / "real" / "lib").mkdir(parents=True)
    (folder / "link").symlink_to("real")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    paths = [f"{folder}/{name}" for name in ("link/lib", "real", "loop", "dangling")]
    binds, links = split_links(paths)
    assert [bind[1] for bind in binds] == [f"{folder}/real"]
    assert (f"{folder}/link", "real") in links


def test_the_plan_drops_what_an_enclosing_grant_covers(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    policy = SandboxPolicy(allowed_read_paths=[folder / "a", folder / "a" / "b"])
    with preflight(policy) as checked:
        assert [step[:2] for step in policy_binds(checked, [])] == [
            ("read", f"{folder}/a")
        ]


_LEAVE = """
import ctypes, os, socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if sys.argv[2] == "use":
    socket.create_connection(server.getsockname()).sendall(b"x")
open("/dev/shm/left", "w").close()
open("/tmp/left", "w").close()
segment = ctypes.CDLL(None).shmget(77, 4096, 0o1666)
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
print(os.getpid(), os.readlink("/proc/self/ns/net"), segment >= 0)
"""
_LOOK = """
import ctypes, os, socket, sys
files = [path for path in ("/dev/shm/left", "/tmp/left") if os.path.exists(path)]
pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
answer = socket.socket().connect_ex(("127.0.0.1", int(sys.argv[1])))
segment = ctypes.CDLL(None).shmget(77, 4096, 0)
print(os.getpid(), os.readlink("/proc/self/ns/net"), files, pids, answer, segment)
"""


@pytest.mark.once
@pytest.mark.parametrize("net", ["leave", "use"])
def test_a_run_finds_nothing_of_the_one_before_it_in_its_slot(
    namespace_executor: LinuxNamespaceSandboxExecutor, net: str
) -> None:
    def run(code: str) -> list[str]:
        words = [sys.executable, "-c", code, "7654", net]
        policy = SandboxPolicy(limits=ResourceLimits(memory_bytes=None))
        result = namespace_executor.run_command(words, policy)
        return result.check().stdout_text.split()

    pid, namespace, made = run(_LEAVE)
    again, other, files, seen, refused, segment = run(_LOOK)
    assert made == "True"
    # Numbers begin anew, so that none tells how many there were.
    assert again == pid
    assert (files, seen) == ("[]", f"[{pid}]")
    assert int(refused) == errno.ECONNREFUSED
    assert segment == "-1"
    # A network namespace is lent again only where it was never used.
    assert (other == namespace) == (net == "leave")


def _remake(path: Path, content: str) -> None:
    """Do what a checkout does: remove, and make again, at best with the same inode."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if path.suffix:
        path.write_text(content)
    else:
        path.mkdir()
        (path / "key").write_text(content)


@pytest.mark.parametrize("name", ["secret.txt", "secret"])
def test_a_denied_path_that_the_host_remakes_stays_closed_to_the_next_run(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path, name: str
) -> None:
    secret = folder / name
    policy = SandboxPolicy(allowed_write_paths=[folder], denied_paths=[secret])
    for _ in range(4):
        _remake(secret, "loot")
        result = shell(namespace_executor, f"cat {secret} {secret}/key", policy)
        assert result.stdout == b""
        assert result.stderr_text.count("denied") >= 1


def test_a_protected_path_that_the_host_remakes_stays_read_only(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    kept = folder / "deep" / "kept"
    kept.parent.mkdir()
    for _ in range(4):
        _remake(kept, "mine")
        policy = SandboxPolicy(
            allowed_write_paths=[folder], allowed_read_paths=[kept], timeout_s=20
        )
        script = f"echo x > {kept}/key; mv {kept.parent} {folder}/away; echo end"
        result = shell(namespace_executor, script, policy)
        assert result.stdout == b"end\n"
        assert (kept / "key").read_text() == "mine"


def test_a_session_refuses_calls_once_a_denied_path_was_remade(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    secret = folder / "secret"
    _remake(secret, "loot")
    policy = SandboxPolicy(allowed_read_paths=[folder], denied_paths=[secret])
    with SandboxSession(policy, namespace_executor) as session:
        words = ["cat", str(secret / "key")]
        assert session.run_command(words).stdout == b""
        _remake(secret, "loot")
        for _ in range(3):
            with pytest.raises(SandboxPolicyError, match="was replaced"):
                session.run_command(words)


def test_a_new_mount_on_the_host_is_seen_by_the_next_run(
    namespace_executor: LinuxNamespaceSandboxExecutor, folder: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount on the host")
    place = folder / "place"
    place.mkdir()
    policy = SandboxPolicy(allowed_read_paths=[folder])
    shell(namespace_executor, "true", policy)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "none", str(place)], check=False, capture_output=True
    )
    if done.returncode:
        pytest.skip("this root cannot mount on the host")
    try:
        (place / "file").write_text("new")
        result = shell(namespace_executor, f"cat {place}/file", policy)
        assert result.stdout == b"new"
        shell(namespace_executor, f"echo x > {place}/file", policy)
        assert (place / "file").read_text() == "new"
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_foreign_system_call_interface_ends_the_target(
    namespace_executor: LinuxNamespaceSandboxExecutor,
) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("int 0x80 exists on x86_64 only")
    code = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(b"\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3")  # getpid over int 0x80
ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
    result = python(namespace_executor, code, SandboxPolicy())
    assert result.signal == signal.SIGSYS
    assert [item.kind for item in result.violations] == ["syscall"]

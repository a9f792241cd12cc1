"""What users of other sandboxes complained about, one test each, by number.

The numbers are those of the collected complaints; rows of the attack corpus that
answer one are run there against every backend.
"""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lazycore.sandbox import (
    BaseSandboxExecutor,
    Guarantee,
    LandlockSandboxExecutor,
    ResourceLimits,
    SandboxBackendUnavailableError,
    SandboxError,
    SandboxPolicy,
    SandboxPolicyError,
    SandboxPolicyViolationError,
    Workspace,
)
from lazycore.sandbox._attacks._corpus import CORPUS
from lazycore.sandbox._linux import _calls, _probe
from lazycore.sandbox._linux._cgroup_tree import places
from lazycore.sandbox._linux._numbers import AUDIT_ARCH, numbers
from lazycore.sandbox._linux._remedies import namespace_remedy

pytestmark = pytest.mark.once

MACHINE = os.uname().machine

# Installs a filter like that of a container: no new namespaces, no mounts.
CONTAINER = f"""
import ctypes, os, struct, sys
sys.path.insert(0, {str(Path(_probe.__file__).parents[3])!r})
from lazycore.sandbox._linux._numbers import AUDIT_ARCH, numbers
machine = os.uname().machine
n = numbers(machine)
code = [(0x20, 0, 0, 4), (0x15, 1, 0, AUDIT_ARCH[machine]), (0x06, 0, 0, 0x7fff0000),
        (0x20, 0, 0, 0)]
refused = [n[x] for x in ("unshare", "mount", "umount2", "setns", "pivot_root")]
for number in refused:
    code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050001)]
code += [(0x15, 0, 1, n["clone3"]), (0x06, 0, 0, 0x00050026)]
code += [(0x15, 0, 3, n["clone"]), (0x20, 0, 0, 16), (0x45, 0, 1, 0x7e020000),
         (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
program = b"".join(struct.pack("HBBI", *one) for one in code)
buffer = ctypes.create_string_buffer(program, len(program))
header = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(header), 0, 0) == 0
"""


def in_a_container(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-B", "-c", CONTAINER + script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def container() -> list[str]:
    """Ask, where namespaces are refused, three questions at once."""
    script = """
from lazycore.sandbox import *
from lazycore.sandbox import Guarantee as G
reports = {report.backend: report for report in diagnose()}
ns = reports["linux-namespace"]
print(ns.available, bool(ns.reason), "seccomp" in ns.remedy, "Docker" in ns.remedy)
try:
    get_default_executor()
    print("ran")
except SandboxBackendUnavailableError as error:
    print("landlock: lacks" in str(error) and "allow_degraded=" in str(error))
try:
    with get_default_executor(allow_degraded={G.FS_METADATA, G.PROCESSES}) as executor:
        result = executor.run_command(["sh", "-c", "cat /etc/shadow || echo confined"],
                                      SandboxPolicy())
        degraded = sorted(map(str, result.degraded))
        print(result.backend, result.stdout_text.strip(), degraded)
except SandboxBackendUnavailableError:
    print("no landlock")
"""
    return in_a_container(script).splitlines()


def test_01_a_host_that_restricts_namespaces_is_told_with_the_fix(
    container: list[str],
) -> None:
    assert container[0] == "False True True True"


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("sys/user/max_user_namespaces", "0\n", "user.max_user_namespaces=15000"),
        ("sys/kernel/unprivileged_userns_clone", "0\n", "unprivileged_userns_clone=1"),
        ("sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "PROFILE"),
        ("self/status", "Name:\tx\nSeccomp:\t2\n", "seccomp=unconfined"),
        ("self/mountinfo", "1 2 0:3 / /proc/kcore rw - tmpfs t rw\n", "/proc/kcore"),
    ],
)
def test_01b_the_fix_is_for_what_the_host_has(
    folder: Path, name: str, text: str, word: str
) -> None:
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(text)
    told = namespace_remedy(apparmor="PROFILE", proc=str(folder))
    assert word in told
    assert told.count("; ") == 1
    # A host that tells nothing gets what it may be.
    (folder / name).write_text("")
    told = namespace_remedy(apparmor="PROFILE", proc=str(folder))
    assert "on Ubuntu, PROFILE; in Docker" in told


@pytest.mark.usefixtures("namespace_executor")
def test_02_one_level_of_user_namespaces_is_enough() -> None:
    script = (
        "from lazycore.sandbox import *\n"
        "with LinuxNamespaceSandboxExecutor() as e:\n"
        "    print(e.run_command(['echo', 'inside'], SandboxPolicy()).stdout_text)\n"
    )
    nested = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert nested.stdout.strip() == "inside", nested.stderr


def test_03_a_container_without_namespaces_is_no_crash(container: list[str]) -> None:
    assert len(container) == 3


def after_mounting(place: str) -> list[str]:
    """Diagnose and run in a mount namespace where `place` is an empty directory."""
    script = """
from lazycore.sandbox import *
for report in diagnose():
    text = report.reason + "; " + report.remedy
    print(report.backend, report.available, "/proc" in text, "systempaths" in text)
try:
    get_default_executor().run_command(["true"], SandboxPolicy())
    print("ran")
except SandboxBackendUnavailableError:
    print("refused")
"""
    mount = f'mount -t tmpfs none {place} && exec "$0" "$@"'
    done = subprocess.run(
        [
            *("unshare", "--map-root-user", "--mount", "sh", "-c", mount),
            *(sys.executable, "-B", "-c", script),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.stderr.startswith("unshare:"):
        pytest.skip(f"the backend linux-namespace cannot run here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_03b_where_proc_is_covered_the_fix_is_told() -> None:
    told = after_mounting("/proc/sys")
    assert told[0] == "linux-namespace False True True"
    assert told[-1] == "refused"


def test_03c_where_there_is_no_proc_nothing_runs() -> None:
    told = after_mounting("/proc")
    assert told[0] == "linux-namespace False True False"
    assert told[2] == "landlock False True False"
    assert told[-1] == "refused"


def test_04_the_weaker_backend_is_offered_and_taken_when_asked(
    container: list[str],
) -> None:
    assert container[1] == "True"
    if container[2] == "no landlock":
        pytest.skip("this kernel's Landlock is too old")
    lacking = ["fs-metadata"]
    if "pids" not in places()[0]:
        lacking.append("processes")
    assert container[2] == f"landlock confined {lacking}"


@pytest.mark.parametrize("path", ["*.env", "secrets/", "./x", "~/.ssh"])
def test_05_a_relative_or_glob_entry_is_refused_not_dropped(path: str) -> None:
    for role in ("denied_paths", "allowed_read_paths", "allowed_write_paths"):
        fields: dict[str, Any] = {role: [path]}
        with pytest.raises(SandboxPolicyError, match=role):
            SandboxPolicy(**fields)


def test_05b_an_absolute_glob_is_a_name_that_must_exist(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    with pytest.raises(SandboxPolicyError, match="not expanded"):
        executor.run_command(
            ["true"],
            SandboxPolicy(allowed_read_paths=[folder, f"{folder}/*.key"]),
        )


def test_06_a_denied_path_through_a_link_is_named(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    policy = SandboxPolicy(allowed_read_paths=[folder], denied_paths=[folder / "link"])
    with pytest.raises((SandboxPolicyError, SandboxBackendUnavailableError)):
        executor.run_command(["true"], policy)


@pytest.mark.parametrize("name", ["[id]", "a(b)", "x*y", 'q"q', "b\\b", "$(id)", "-n"])
def test_07_a_bracket_in_a_name_is_a_letter(
    namespace_executor: BaseSandboxExecutor, folder: Path, name: str
) -> None:
    secret = folder / name / "secret"
    secret.parent.mkdir()
    secret.write_text("secret")
    (folder / "open").write_text("open")
    policy = SandboxPolicy(allowed_read_paths=[folder], denied_paths=[folder / name])
    result = namespace_executor.run_command(["cat", folder / "open", secret], policy)
    assert result.stdout == b"open"
    assert result.returncode == 1


def test_08_a_worktree_is_granted_by_naming_both_places(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    main, tree = folder / "main", folder / "tree"
    main.mkdir()
    tree.mkdir()
    (main / "HEAD").write_text("ref")
    (tree / ".git").write_text(f"gitdir: {main}\n")
    script = f"cat .git && cat {main}/HEAD"
    closed = SandboxPolicy(allowed_read_paths=[tree], cwd=tree)
    result = executor.run_command(["sh", "-c", script], closed)
    assert result.returncode != 0
    both = SandboxPolicy(allowed_read_paths=[tree, main], cwd=tree)
    executor.run_command(["sh", "-c", script], both).check()


def test_09_protecting_what_does_not_exist_creates_nothing(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    policy = SandboxPolicy(
        allowed_write_paths=[folder], denied_paths=[folder / ".git" / "hooks"]
    )
    with pytest.raises(SandboxError):
        executor.run_command(["true"], policy)
    assert list(folder.iterdir()) == []


def test_10_files_the_host_runs_later_are_seen_before_they_are_applied(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / ".git").mkdir()
    with Workspace(folder) as work:
        result = work.run_command(
            executor,
            ["sh", "-c", "mkdir .git/hooks; echo evil > .git/hooks/pre-commit"],
        )
        assert [change.path for change in result.changes] == [
            ".git/hooks",
            ".git/hooks/pre-commit",
        ]
        assert "+evil" in work.diff()
    assert list((folder / ".git").iterdir()) == []


def test_11_the_temporary_directory_exists_and_is_writable(
    executor: BaseSandboxExecutor,
) -> None:
    script = 'cd "$TMPDIR" && mktemp && mktemp -d && python3 -c "0" ; test -w "$HOME"'
    executor.run_command(["sh", "-c", script], SandboxPolicy()).check()


@pytest.mark.usefixtures("namespace_executor")
def test_12_a_deep_temporary_directory_of_the_caller_is_no_obstacle(
    folder: Path,
) -> None:
    deep = folder
    for _ in range(12):
        deep /= "twenty-letters-in-it"
    deep.mkdir(parents=True)
    script = (
        "from lazycore.sandbox import *\n"
        "with get_default_executor() as executor:\n"
        "    executor.run_command(['true'], SandboxPolicy()).check()\n"
    )
    subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(deep)},
        check=True,
        timeout=60,
    )


def test_13_no_proxy_stands_between_a_shared_network_and_a_program(
    executor: BaseSandboxExecutor,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            "import os, socket\n"
            "assert not [n for n in os.environ if n.lower().endswith('_proxy')]\n"
            f"socket.create_connection(('127.0.0.1', {port}), 5).close()\n"
        )
        executor.run_command(
            [sys.executable, "-c", code], SandboxPolicy(allow_network=True)
        ).check()


def test_14_there_is_no_domain_filter_that_could_fail_open() -> None:
    with pytest.raises(SandboxPolicyError, match="unknown keys"):
        SandboxPolicy.from_json('{"allow_network": true, "allowed_domains": []}')
    with pytest.raises(SandboxPolicyError, match="True or False"):
        SandboxPolicy(allow_network=[])  # type: ignore[arg-type] # on purpose


def test_15_a_socket_cannot_be_granted(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "docker.sock"))
        server.listen()
        for role in ("allowed_read_paths", "allowed_write_paths"):
            fields: dict[str, Any] = {role: [folder / "docker.sock"]}
            policy = SandboxPolicy(**fields)
            with pytest.raises(SandboxPolicyError, match="socket"):
                executor.run_command(["true"], policy)
        code = "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        result = executor.run_command(
            [sys.executable, "-c", code, folder / "docker.sock"],
            SandboxPolicy(allowed_write_paths=[folder]),
        )
        assert result.returncode == 1
        assert b"PermissionError" in result.stderr


def test_17_what_landlock_cannot_hold_it_does_not_promise() -> None:
    report = LandlockSandboxExecutor.probe()
    assert Guarantee.FS_METADATA not in report.guarantees
    with (
        LandlockSandboxExecutor() as strict,
        pytest.raises(SandboxBackendUnavailableError),
    ):
        strict.run_command(["true"], SandboxPolicy())


def test_18_an_older_landlock_is_refused_not_done_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_calls, "landlock_abi", lambda: 5)
    assert "ABI is 5" in _probe._unsupported("landlock")
    monkeypatch.setattr(_calls, "landlock_abi", lambda: 0)
    assert _probe._unsupported("landlock")


def test_19_denial_within_a_grant_is_not_emulated(folder: Path) -> None:
    (folder / "inner").mkdir()
    policy = SandboxPolicy(allowed_read_paths=[folder], denied_paths=[folder / "inner"])
    others = frozenset(Guarantee) - {Guarantee.DENY_IN_ALLOW}
    with (
        LandlockSandboxExecutor(allow_degraded=others) as executor,
        pytest.raises(SandboxBackendUnavailableError),
    ):
        executor.run_command(["true"], policy)


def test_21_the_list_of_programs_holds_for_the_second_one_too(
    namespace_executor: BaseSandboxExecutor,
) -> None:
    if Guarantee.EXEC_LIST not in namespace_executor.probe().guarantees:
        pytest.skip("this backend holds no list of executables")
    policy = SandboxPolicy(allowed_executables=["/bin/sh"])
    result = namespace_executor.run_command(
        ["/bin/sh", "-c", "/bin/ls / || (exec /bin/ls /) || echo none"], policy
    )
    assert result.stdout == b"none\n"
    with pytest.raises(SandboxPolicyViolationError):
        namespace_executor.run_command(["/bin/ls"], policy)


def test_24_output_before_a_timeout_survives_head_and_tail(
    executor: BaseSandboxExecutor,
) -> None:
    policy = SandboxPolicy(timeout_s=1.5, limits=ResourceLimits(output_bytes=100))
    result = executor.run_command(
        ["sh", "-c", "echo first; yes | head -c 100000; echo last; sleep 60"], policy
    )
    assert result.timed_out
    assert result.stdout.startswith(b"first\n")
    assert result.stdout.endswith(b"last\n")


def test_26_root_inside_holds_no_capability(executor: BaseSandboxExecutor) -> None:
    script = "grep -E '^Cap(Prm|Eff|Amb)' /proc/self/status || echo unreadable"
    result = executor.run_command(["sh", "-c", script], SandboxPolicy())
    for line in result.stdout_text.splitlines():
        assert line == "unreadable" or int(line.split()[1], 16) == 0


@pytest.mark.parametrize(
    ("name", "number"),
    [("mount", 40), ("clone", 220), ("ptrace", 117), ("socket", 198), ("clone3", 435)],
)
def test_27_the_numbers_of_aarch64_are_its_own(name: str, number: int) -> None:
    assert numbers("aarch64")[name] == number
    assert AUDIT_ARCH["aarch64"] == 0xC00000B7


@pytest.mark.usefixtures("namespace_executor")
def test_28_the_terminal_stays_the_callers() -> None:
    pid, leader = pty.fork()
    if pid == 0:
        code = (
            "import os, sys\n"
            "from lazycore.sandbox import *\n"
            "with LinuxNamespaceSandboxExecutor() as e:\n"
            "    r = e.run_command(['sh', '-c', '(exec 3</dev/tty) || echo none'],\n"
            "                      SandboxPolicy())\n"
            "mine = os.tcgetpgrp(0) == os.getpgrp()\n"
            "print('VERDICT', mine, r.stdout_text.strip())\n"
        )
        os.execv(sys.executable, [sys.executable, "-c", code])
    seen = b""
    try:
        while chunk := os.read(leader, 4096):
            seen += chunk
    except OSError:
        pass  # EIO: the other side is gone
    finally:
        os.close(leader)
        os.waitpid(pid, 0)
    assert b"VERDICT True none" in seen


@pytest.mark.parametrize(
    ("complaint", "rows"),
    [
        (16, {"48", "50"}),
        (20, {"30"}),
        (22, {"73", "74", "75", "76"}),
        (23, {"77"}),
        (25, {"69", "69b"}),
    ],
)
def test_the_other_complaints_are_rows_of_the_corpus(
    complaint: int, rows: set[str]
) -> None:
    assert complaint
    assert rows <= {attack.id for attack in CORPUS}

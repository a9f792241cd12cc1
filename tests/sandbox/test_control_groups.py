"""Control groups: found where this user may make them, entered, counted, removed."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lazycore.sandbox import (
    BubblewrapSandboxExecutor,
    Guarantee,
    LandlockSandboxExecutor,
    LinuxNamespaceSandboxExecutor,
    ResourceLimits,
    SandboxCallableError,
    SandboxLaunchError,
    SandboxPolicy,
    SandboxSession,
)
from lazycore.sandbox._linux import _cgroup, _cgroup_tree
from lazycore.sandbox._linux._cgroup import Group, Lease, sweep
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazycore.sandbox._linux._cgroup import Bounds
    from lazycore.sandbox._linux._native import NativeExecutor

MEMORY = 64 << 20
PROCESSES = 20
LIMITS = ResourceLimits(memory_bytes=MEMORY, processes=PROCESSES)


@pytest.fixture(
    params=[LinuxNamespaceSandboxExecutor, LandlockSandboxExecutor],
    ids=lambda backend: backend.name,
)
def executor(request: pytest.FixtureRequest) -> Iterator[NativeExecutor]:
    backend: type[NativeExecutor] = request.param
    if not backend.is_available():
        pytest.skip(f"the backend {backend.name} cannot run here: see its report")
    with backend(allow_degraded=frozenset(Guarantee)) as opened:
        yield opened


@pytest.fixture
def bounds() -> Bounds:
    found, reason = _cgroup_tree.places()
    if len(found) < 2:
        pytest.skip(f"this user may make no control groups here: {reason}")
    return {"memory": (*found["memory"], MEMORY), "pids": (*found["pids"], PROCESSES)}


def groups(bounds: Bounds) -> list[str]:
    parents = {parent for _, parent, _ in bounds.values()}
    return [
        f"{parent}/{name}"
        for parent in parents
        for name in os.listdir(parent)
        if name.startswith("lazycore-sandbox-")
    ]


def members(group: Group) -> set[int]:
    return {
        int(word) for door in group.doors() for word in Path(door).read_text().split()
    }


def test_what_cannot_be_used_has_a_reason() -> None:
    found, reason = _cgroup_tree.places()
    assert set(found) <= {"memory", "pids"}
    assert (len(found) == 2) == (reason == "")
    for place in found.values():
        assert place.version in {1, 2}
        assert Path(place.path, "cgroup.procs").exists()


def gone(group: Group) -> None:
    """Remove a group that its last process is leaving."""
    end = time.monotonic() + 5
    while not group.remove():
        assert time.monotonic() < end
        time.sleep(0.005)


def _kernel() -> tuple[int, int]:
    major, minor, *_ = os.uname().release.split(".")
    return int(major), int(minor)


def tree(top: Path, **files: str) -> Path:
    """Make what the kernel shows of a group of version 2."""
    top.mkdir(parents=True)
    defaults = {"procs": "", "controllers": "cpu memory pids\n", "subtree_control": ""}
    for name, text in (defaults | files).items():
        (top / f"cgroup.{name}").write_text(text)
    return top


def found(folder: Path, group: str, *, root: str = "/") -> _cgroup_tree.Place:
    mounts = [
        _cgroup_tree.Mount("proc", "/", "/proc", ["rw"]),
        _cgroup_tree.Mount("cgroup2", root, str(folder), ["rw"]),
    ]
    return _cgroup_tree.find("memory", {"": group}, mounts)


def test_groups_lie_beside_the_caller_s_own_where_the_parent_hands_down(
    folder: Path,
) -> None:
    parent = tree(folder / "a", subtree_control="memory pids\n")
    tree(parent / "own", type="domain\n")
    assert found(folder, "/a/own") == (2, str(parent))
    # A container that sees a part of the tree.
    assert found(folder, "/x/a/own", root="/x") == (2, str(parent))


def test_a_parent_without_processes_is_made_to_hand_down(folder: Path) -> None:
    parent = tree(folder / "a")
    tree(parent / "own", type="domain\n")
    assert found(folder, "/a/own") == (2, str(parent))
    assert (parent / "cgroup.subtree_control").read_text() == "+memory"


def test_the_root_of_the_tree_may_hold_groups_and_processes(folder: Path) -> None:
    top = tree(folder / "top", subtree_control="memory\n")
    assert found(top, "/") == (2, str(top))


def test_the_top_of_a_container_cannot_hold_groups(folder: Path) -> None:
    top = tree(folder / "top", type="domain\n")
    with pytest.raises(OSError, match="start the program one group below"):
        found(top, "/")


def test_a_controller_that_is_not_handed_down_so_far_is_no_place(folder: Path) -> None:
    parent = tree(folder / "a", controllers="cpu\n")
    tree(parent / "own", type="domain\n")
    with pytest.raises(OSError, match="has no such controller"):
        found(folder, "/a/own")


def test_a_group_that_is_mounted_nowhere_is_named(folder: Path) -> None:
    with pytest.raises(OSError, match="that holds /y is mounted here"):
        found(folder, "/y", root="/x")
    with pytest.raises(OSError, match="no such group"):
        _cgroup_tree.find("memory", {"cpu": "/"}, [])


def test_a_parent_that_is_another_user_s_is_no_place(folder: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    parent = tree(folder / "a", subtree_control="memory\n")
    tree(parent / "own", type="domain\n")
    (parent / "cgroup.procs").chmod(0o444)
    with pytest.raises(PermissionError, match="not this user's to write"):
        found(folder, "/a/own")


def test_version_1_takes_the_hierarchy_of_its_controller(folder: Path) -> None:
    own = tree(folder / "memory" / "own")
    mounts = [
        _cgroup_tree.Mount("cgroup", "/", str(folder / "cpu"), ["rw", "cpu"]),
        _cgroup_tree.Mount("cgroup", "/", str(folder / "memory"), ["rw", "memory"]),
    ]
    groups = {"memory": "/own", "cpu": "/"}
    assert _cgroup_tree.find("memory", groups, mounts) == (1, str(own))


def test_a_process_enters_and_what_it_starts_is_born_inside(bounds: Bounds) -> None:
    group = Group(bounds)
    fds = group.open()
    code = f"""
import os, subprocess, sys
from lazycore.sandbox._linux._cgroup import Lease
lease = Lease({bounds!r}, {fds!r})
lease.enter()
child = subprocess.Popen(["sleep", "60"])
print(os.getpid(), child.pid, lease.kills(), flush=True)
sys.stdin.read()
child.kill()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=fds,
    ) as process:
        assert process.stdout is not None
        *pids, kills = map(int, process.stdout.readline().split())
        try:
            assert members(group) == set(pids)
            assert kills == 0
            assert not group.remove()
        finally:
            process.communicate(b"")
    for fd in fds:
        os.close(fd)
    gone(group)
    assert all(not Path(door).exists() for door in group.doors())


def test_the_kernel_takes_any_number_of_processes(bounds: Bounds) -> None:
    pids = {"pids": (*bounds["pids"][:2], 1 << 60)}
    group = Group(pids)
    fds = group.open()
    lease = Lease(pids, fds)
    lease.begin(2)
    lease.settle(1)
    for fd in fds:
        os.close(fd)
    gone(group)


def test_a_place_that_is_gone_is_named(bounds: Bounds) -> None:
    version, parent, bound = bounds["memory"]
    with pytest.raises(StageError, match="gone"):
        Group({"memory": (version, f"{parent}/gone", bound)})


def test_a_group_that_fails_half_way_leaves_nothing(bounds: Bounds) -> None:
    version, parent, bound = bounds["pids"]
    before = set(groups(bounds))
    with pytest.raises(StageError):
        Group({"memory": bounds["memory"], "pids": (version, f"{parent}/gone", bound)})
    assert set(groups(bounds)) <= before


def test_the_groups_of_the_dead_are_swept_and_no_others(bounds: Bounds) -> None:
    kept = Group(bounds)
    code = f"""
import os, signal
from lazycore.sandbox._linux._cgroup import Group
group = Group({bounds!r})
print(*group.doors(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    left = [Path(word).parent for word in done.stdout.split()]
    assert done.returncode == -signal.SIGKILL
    assert left
    assert all(path.is_dir() for path in left)
    sweep(bounds)
    assert not any(path.exists() for path in left)
    assert all(Path(door).exists() for door in kept.doors())
    gone(kept)


_FORKS = """
import os, time
made = 0
try:
    while made < 60:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made + 1)
os.killpg(0, 9)
"""


def test_processes_are_bounded_exactly_in_every_run_of_a_slot(
    executor: NativeExecutor, bounds: Bounds
) -> None:
    del bounds
    policy = SandboxPolicy(limits=LIMITS)
    for _ in range(2):
        result = executor.run_command([sys.executable, "-uc", _FORKS], policy)
        assert result.stdout_text == f"{PROCESSES}\n"


def test_no_process_of_a_run_is_outside_its_group(
    executor: NativeExecutor, bounds: Bounds
) -> None:
    # What a slot starts counts; a second run beside has a group of its own.
    policy = SandboxPolicy(limits=LIMITS, timeout_s=20)
    before = set(groups(bounds))
    seen: list[set[str]] = []

    def hold() -> None:
        executor.run_command(["sh", "-c", "sleep 0.6; true"], policy)

    threads = [threading.Thread(target=hold) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen.append(set(groups(bounds)) - before)
    hierarchies = len({parent for _, parent, _ in bounds.values()})
    bounded = 1 if executor.name == "linux-namespace" else hierarchies
    assert max(map(len, seen)) == 2 * bounded
    executor.close()
    assert set(groups(bounds)) <= before


_PEAK = """
import sys
size, keep = int(sys.argv[1]), []
while True:
    keep.append(b"x" * size)
"""


def test_memory_is_never_passed_however_fast_it_is_taken(
    executor: NativeExecutor, bounds: Bounds
) -> None:
    del bounds
    policy = SandboxPolicy(limits=LIMITS)
    result = executor.run_command([sys.executable, "-c", _PEAK, str(64 << 20)], policy)
    assert result.signal == signal.SIGKILL
    assert [item.kind for item in result.violations] == ["memory"]
    # Pages of files count there, and for whoever read them first in the group.
    assert result.usage.max_rss_bytes <= MEMORY + _cgroup._OUR_BYTES + (8 << 20)
    after = executor.run_command(["echo", "fine"], policy)
    assert (after.stdout, after.violations) == (b"fine\n", ())


_SWARM = """
import os, time
for _ in range(12):
    if os.fork() == 0:
        taken = b"x" * (16 << 20)
        time.sleep(20)
        os._exit(0)
time.sleep(20)
"""


@pytest.mark.once
def test_a_process_that_is_killed_for_its_memory_ends_the_run(
    executor: NativeExecutor, bounds: Bounds
) -> None:
    del bounds
    policy = SandboxPolicy(limits=LIMITS, timeout_s=15)
    result = executor.run_command([sys.executable, "-c", _SWARM], policy)
    assert [item.kind for item in result.violations] == ["memory"]
    assert not result.timed_out


_BUFFERS = """
import socket
kept = []
while True:
    pair = socket.socketpair()
    pair[0].setblocking(False)
    kept.append(pair)
    try:
        while True:
            pair[0].send(bytes(100_000))
    except BlockingIOError:
        pass
"""


@pytest.mark.once
def test_memory_in_buffers_of_the_kernel_counts(
    executor: NativeExecutor, bounds: Bounds
) -> None:
    del bounds
    if _kernel() < (6, 18):
        pytest.skip("the kernel charges buffers of sockets to no group: seen on 6.1")
    limits = ResourceLimits(memory_bytes=40 << 20)
    policy = SandboxPolicy(limits=limits, timeout_s=30)
    result = executor.run_command([sys.executable, "-c", _BUFFERS], policy)
    assert [item.kind for item in result.violations] == ["memory"]


def test_a_session_bounds_each_call(executor: NativeExecutor, bounds: Bounds) -> None:
    before = set(groups(bounds))
    policy = SandboxPolicy(limits=LIMITS, timeout_s=30)
    with SandboxSession(policy, executor) as session:
        for _ in range(2):
            with pytest.raises(SandboxCallableError, match="limit memory of") as caught:
                session.run_callable(operator.mul, b"x", 300 << 20)
            result = caught.value.result
            assert result is not None
            assert [item.kind for item in result.violations] == ["memory"]
            assert session.run_callable(len, b"abc").value == 3
        forks = session.run_command([sys.executable, "-uc", _FORKS])
        assert forks.stdout_text == f"{PROCESSES}\n"
        assert set(groups(bounds)) > before
    executor.close()
    assert set(groups(bounds)) <= before


@pytest.fixture
def bubblewrap() -> Iterator[BubblewrapSandboxExecutor]:
    report = BubblewrapSandboxExecutor.probe()
    if not report.available:
        pytest.skip(f"bubblewrap cannot run here: {report.reason}")
    with BubblewrapSandboxExecutor(allow_degraded=frozenset(Guarantee)) as opened:
        yield opened


def test_bubblewrap_bounds_a_run_by_a_group(
    bubblewrap: BubblewrapSandboxExecutor, bounds: Bounds
) -> None:
    before = set(groups(bounds))
    policy = SandboxPolicy(limits=LIMITS, timeout_s=20)
    forks = bubblewrap.run_command([sys.executable, "-uc", _FORKS], policy)
    assert forks.stdout_text == f"{PROCESSES}\n"
    swarm = bubblewrap.run_command([sys.executable, "-c", _SWARM], policy)
    assert [item.kind for item in swarm.violations] == ["memory"]
    assert not swarm.timed_out
    assert swarm.guarantees >= {Guarantee.MEMORY, Guarantee.PROCESSES}
    after = bubblewrap.run_command(["echo", "fine"], policy)
    assert (after.stdout, after.violations) == (b"fine\n", ())
    assert set(groups(bounds)) <= before


def test_bubblewrap_runs_nothing_when_its_group_cannot_be_made(
    bubblewrap: BubblewrapSandboxExecutor,
    bounds: Bounds,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = {name: (*at[:1], f"{at[1]}/gone", at[2]) for name, at in bounds.items()}
    monkeypatch.setattr(
        "lazycore.sandbox._linux._bubblewrap.bounds_of", lambda *_, **__: gone
    )
    with pytest.raises(SandboxLaunchError, match="no control group can be made"):
        bubblewrap.run_command(["true"], SandboxPolicy(limits=LIMITS))


def test_a_launcher_that_is_killed_leaves_groups_to_the_next(
    executor: NativeExecutor, bounds: Bounds
) -> None:
    before = set(groups(bounds))
    policy = SandboxPolicy(limits=LIMITS)
    executor.run_command(["true"], policy)
    owned = executor._launcher._owned
    assert owned is not None
    os.kill(owned.process.pid, signal.SIGKILL)
    owned.process.wait()
    executor.run_command(["true"], policy)
    executor.close()
    assert set(groups(bounds)) <= before


def test_a_run_whose_group_cannot_be_made_is_refused(
    executor: NativeExecutor, bounds: Bounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = {name: (*at[:1], f"{at[1]}/gone", at[2]) for name, at in bounds.items()}
    monkeypatch.setattr(
        "lazycore.sandbox._linux._native.bounds_of", lambda *_, **__: gone
    )
    policy = SandboxPolicy(limits=LIMITS)
    with pytest.raises(SandboxLaunchError, match="no control group can be made"):
        executor.run_command(["true"], policy)
    with (
        SandboxSession(policy, executor) as session,
        pytest.raises(SandboxLaunchError, match="no control group can be made"),
    ):
        session.run_callable(len, b"")

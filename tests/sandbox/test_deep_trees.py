"""A run may leave a tree of any depth; whoever looks at it later must bear that."""

from __future__ import annotations

import os
import resource
import stat
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from lazycore.sandbox import (
    BaseSandboxExecutor,
    ResourceLimits,
    SandboxPolicy,
    SandboxPolicyError,
    SandboxWorkspaceError,
    Workspace,
)
from lazycore.sandbox._descent import Descent
from lazycore.sandbox._linux._remove import remove_tree
from lazycore.sandbox._preflight import preflight

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEVELS = 10_000


def dig(top: Path, levels: int) -> None:
    """Nest directories below `top`, with a file in the innermost one."""
    fd = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("x", dir_fd=fd)
        inner = os.open("x", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("last", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


@pytest.fixture
def deep(folder: Path) -> Iterator[Path]:
    top = folder / "deep"
    top.mkdir()
    dig(top, LEVELS)
    yield top
    if top.exists():
        remove_tree(str(top))


def walked(top: Path) -> list[str]:
    fd = os.open(top, os.O_RDONLY)
    try:
        walk = Descent(fd)
        return [walk.path(name) for name, _ in walk]
    finally:
        os.close(fd)


def test_a_walk_gives_every_path_once_and_follows_no_link(folder: Path) -> None:
    for path in ("a/b/c", "a/d", "e"):
        (folder / path).mkdir(parents=True)
    for path in ("a/b/c/1", "a/2", "a/d/3", "4"):
        (folder / path).touch()
    (folder / "a" / "up").symlink_to("..")
    dig(folder / "e", 40)
    found = walked(folder)
    assert len(found) == len(set(found))
    expected = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert set(found) == expected
    for place, path in enumerate(found):
        assert os.path.dirname(path) in ("", *found[:place])


@pytest.mark.once
def test_a_walk_needs_few_descriptors_and_little_stack(deep: Path) -> None:
    count: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 24, hard))
    size = threading.stack_size(256 << 10)
    try:
        fd = os.open(deep, os.O_RDONLY)
        worker = threading.Thread(
            target=lambda: count.append(sum(1 for _ in Descent(fd)))
        )
        worker.start()
        worker.join()
    finally:
        threading.stack_size(size)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(fd)
    assert count == [LEVELS + 1]


def test_a_walk_notices_when_it_was_carried_elsewhere(folder: Path) -> None:
    dig(folder, 40)
    (folder / "other").mkdir()
    fd = os.open(folder, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="moved meanwhile"):  # noqa: PT012
            for name, info in Descent(fd):
                if stat.S_ISREG(info.st_mode):
                    place = "x/" * 10
                    (folder / place).rename(folder / "other" / name)
    finally:
        os.close(fd)


@pytest.mark.once
def test_a_deep_tree_in_a_write_path_is_searched_and_measured(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    top = folder / "work"
    top.mkdir()
    policy = SandboxPolicy(
        allowed_write_paths=[top],
        timeout_s=60,
        limits=ResourceLimits(workspace_bytes=200 << 20),
    )
    code = (
        "import os\n"
        f"os.chdir({str(top)!r})\n"
        f"for _ in range(3_000): os.mkdir('x'); os.chdir('x')\n"
    )
    first = executor.run_command([sys.executable, "-I", "-S", "-c", code], policy)
    assert (first.returncode, first.violations) == (0, ())
    second = executor.run_command(["sh", "-c", "sleep 0.2; echo ok"], policy)
    assert (second.stdout_text, second.violations) == ("ok\n", ())
    tight = SandboxPolicy(
        allowed_write_paths=[top],
        timeout_s=60,
        limits=ResourceLimits(workspace_bytes=1 << 20),
    )
    more = f"head -c 4000000 /dev/zero > {top}/file; sleep 20"
    third = executor.run_command(["sh", "-c", more], tight)
    assert [item.kind for item in third.violations] == ["workspace"]
    remove_tree(str(top))


@pytest.mark.once
def test_a_hard_link_below_ten_thousand_levels_is_found(
    deep: Path, folder: Path
) -> None:
    with preflight(SandboxPolicy(allowed_write_paths=[deep])):
        pass
    (folder / "outside").touch()
    fd = os.open(deep, os.O_RDONLY)
    for _ in range(LEVELS):
        inner = os.open("x", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.link(folder / "outside", "name", dst_dir_fd=fd)
    os.close(fd)
    with pytest.raises(SandboxPolicyError, match="2 names"):
        preflight(SandboxPolicy(allowed_write_paths=[deep]))


@pytest.mark.once
def test_a_workspace_too_deep_for_paths_is_refused_by_name(
    deep: Path, folder: Path
) -> None:
    with pytest.raises(SandboxWorkspaceError, match="deep"):
        Workspace(deep)
    (folder / "plain").mkdir()
    with Workspace(folder / "plain") as work:
        os.rename(deep / "x", os.path.join(work.root, "x"))
        with pytest.raises(SandboxWorkspaceError, match="deeper than any path"):
            work.changes()
        with pytest.raises(SandboxWorkspaceError, match="deeper than any path"):
            work.apply()


@pytest.mark.once
def test_a_workspace_as_deep_as_paths_go_is_applied_and_the_old_tree_removed(
    folder: Path,
) -> None:
    top = folder / "original"
    top.mkdir()
    dig(top, 1_500)  # deeper than an interpreter recurses
    with Workspace(top) as work:
        with open(os.path.join(work.root, "new"), "w"):
            pass
        assert [change.path for change in work.apply()] == ["new"]
    assert sorted(os.listdir(folder)) == ["original"]
    assert sorted(os.listdir(top)) == ["new", "x"]
    remove_tree(str(top))

"""Where temporary files lie is full: nothing runs unconfined, and it passes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lazycore.sandbox import BubblewrapSandboxExecutor, LandlockSandboxExecutor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk"),
]
START = """
    import os, sys, tempfile
    from lazycore.sandbox import *
    tempfile.tempdir, filler = sys.argv[1], sys.argv[1] + "/filler"
    everything = frozenset(Guarantee)

    def said(error, ask):
        try:
            ask()
        except error as told:
            return str(told)
        raise AssertionError("no error")
"""


@contextmanager
def full_disk(place: Path) -> Iterator[Path]:
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=99", "tmpfs", str(place)]
    subprocess.run(mount, check=True, timeout=30)
    try:
        (place / "filler").write_bytes(b"-" * (1 << 20))
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True, timeout=30)


def run(script: str, *words: str) -> None:
    code = textwrap.dedent(START) + textwrap.dedent(script)
    subprocess.run([sys.executable, "-c", code, *words], check=True, timeout=120)


@pytest.mark.parametrize(
    "backend",
    [
        "LinuxNamespaceSandboxExecutor",
        "LandlockSandboxExecutor",
        "BubblewrapSandboxExecutor",
    ],
)
def test_a_backend_that_cannot_be_probed_for_now_says_what_to_do(
    folder: Path, backend: str
) -> None:
    for kind in (LandlockSandboxExecutor, BubblewrapSandboxExecutor):
        if kind.__name__ == backend and not kind.is_available():
            pytest.skip(
                f"the backend {kind.name} cannot run here: {kind.probe().reason}"
            )
    script = f"""
        ask = {backend}(allow_degraded=everything).run_command
        policy = SandboxPolicy()
        told = said(SandboxBackendUnavailableError, lambda: ask(["true"], policy))
        assert "No space left" in told and "make room in " + sys.argv[1] in told, told
        os.unlink(filler)
        assert ask(["echo", "on"], SandboxPolicy()).stdout == b"on\\n"
        assert os.listdir(sys.argv[1]) == []
    """
    with full_disk(folder / "disk") as disk:
        run(script, str(disk))


def test_a_landlock_run_without_room_for_its_scratch_does_not_start(
    folder: Path,
) -> None:
    if not LandlockSandboxExecutor.is_available():
        pytest.skip("the backend landlock cannot run here")
    script = """
        os.unlink(filler)
        ask = LandlockSandboxExecutor(allow_degraded=everything).run_command
        ask(["true"], SandboxPolicy())
        try:
            for number in range(99):
                open(filler + str(number), "x").close()
        except OSError:
            pass
        told = said(SandboxLaunchError, lambda: ask(["true"], SandboxPolicy()))
        assert "make room in" in told, told
    """
    with full_disk(folder / "disk") as disk:
        run(script, str(disk))


def test_a_workspace_without_room_for_its_copy_leaves_nothing(folder: Path) -> None:
    (folder / "tree").mkdir()
    (folder / "tree" / "large").write_bytes(b"-" * 600_000)
    script = """
        told = said(SandboxWorkspaceError, lambda: Workspace(sys.argv[2]))
        assert "No space left" in told and "make room in" in told, told
        os.truncate(filler, 700_000)
        told = said(SandboxWorkspaceError, lambda: Workspace(sys.argv[2]))
        assert os.listdir(sys.argv[1]) == ["filler"]
        os.unlink(filler)
        with Workspace(sys.argv[2]) as work:
            work.run_command(get_default_executor(), ["sh", "-c", "echo x > new"])
            assert [change.path for change in work.changes()] == ["new"]
    """
    with full_disk(folder / "disk") as disk:
        run(script, str(disk), str(folder / "tree"))
    assert os.listdir(folder / "tree") == ["large"]


def test_changes_that_have_no_room_are_not_half_applied(folder: Path) -> None:
    with full_disk(folder / "disk") as disk:
        (disk / "filler").unlink()
        tree = disk / "tree"
        tree.mkdir()
        (tree / "kept").write_text("kept")
        script = """
            tempfile.tempdir = sys.argv[2]
            with Workspace(sys.argv[1] + "/tree") as work:
                work.run_command(
                    get_default_executor(),
                    ["sh", "-c", "head -c 2000000 /dev/zero > large; echo x > kept"],
                )
                told = said(SandboxWorkspaceError, work.apply)
                assert "No space left" in told, told
        """
        run(script, str(disk), str(folder))
        assert os.listdir(tree) == ["kept"]
        assert (tree / "kept").read_text() == "kept"
        assert os.listdir(disk) == ["tree"]

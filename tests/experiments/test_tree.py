"""A tree is read file by file into git's own id, and no way round it is known."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lazycore.experiments import ArtifactError
from lazycore.experiments._snapshot import take_snapshot
from lazycore.experiments._tree import read_tree

needs_git = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is not installed"
)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    return done.stdout.strip()


def make_tree(folder: Path) -> Path:
    folder.mkdir()
    (folder / "worker.py").write_text("VALUE = 1\n")
    (folder / "a").mkdir()
    (folder / "a" / "b.txt").write_text("b")
    (folder / "a.txt").write_text("sorted between a and a/")
    (folder / "a-b").mkdir()
    (folder / "a-b" / "ü.txt").write_text("umlaut")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("a/b.txt")
    (folder / "empty").mkdir()
    return folder


def test_the_id_of_a_known_tree_is_gits(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    assert read_tree(folder).git_tree == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    (folder / "hello").write_bytes(b"hello world\n")
    tree = read_tree(folder)
    assert tree.files[0].blob == "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"
    assert tree.git_tree == "7604755fe13e27f5327d6d13dc6663d44847562d"


@needs_git
def test_the_id_equals_that_of_a_clean_checkout(tmp_path: Path) -> None:
    folder = make_tree(tmp_path / "t")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    assert read_tree(folder).git_tree == git(folder, "rev-parse", "HEAD^{tree}")


@needs_git
@pytest.mark.parametrize("way", ["ignored", "assume-unchanged", "skip-worktree"])
def test_what_git_status_calls_clean_is_read_all_the_same(
    tmp_path: Path, way: str
) -> None:
    folder = make_tree(tmp_path / "t")
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("helper.py\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    before = read_tree(folder)
    if way == "ignored":
        (folder / "helper.py").write_text("VALUE = 99")
    else:
        git(folder, "update-index", f"--{way}", "worker.py")
        (folder / "worker.py").write_text("VALUE = 99")
    assert git(folder, "status", "--porcelain") == ""
    changes = before.difference(read_tree(folder))
    assert changes == (
        ["helper.py added"] if way == "ignored" else ["worker.py changed"]
    )


@needs_git
def test_a_hook_in_the_checkouts_configuration_never_runs(tmp_path: Path) -> None:
    folder = make_tree(tmp_path / "t")
    git(folder, "init", "-q")
    trap = tmp_path / "ran"
    hook = folder / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
    hook.chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(hook))
    (tmp_path / "copy").mkdir()
    read_tree(folder, copy_to=tmp_path / "copy")
    assert not trap.exists()
    assert not (tmp_path / "copy" / ".git").exists()


def test_a_copy_holds_what_was_hashed_and_is_read_only(tmp_path: Path) -> None:
    folder = make_tree(tmp_path / "t")
    expected = read_tree(folder)
    snapshot = take_snapshot(folder, (), tmp_path / "snap", expected.sha256)
    assert read_tree(snapshot.root) == expected
    for file in snapshot.root.rglob("*"):
        if file.is_file() and not file.is_symlink():
            assert file.stat().st_mode & 0o222 == 0
    assert (snapshot.root / "link").readlink() == Path("a/b.txt")
    snapshot.attest()
    assert snapshot.changed() == []


def test_a_changed_copy_is_named(tmp_path: Path) -> None:
    folder = make_tree(tmp_path / "t")
    snapshot = take_snapshot(folder, (), tmp_path / "snap", read_tree(folder).sha256)
    file = snapshot.root / "worker.py"
    file.chmod(0o644)
    file.write_text("VALUE = 2\n")
    assert snapshot.changed() == ["worker.py"]
    with pytest.raises(ArtifactError, match=r"worker\.py changed"):
        snapshot.attest()
    with pytest.raises(ArtifactError, match="not the locked tree any more"):
        take_snapshot(folder, (), snapshot.root, snapshot.tree.sha256)


def test_a_tree_that_changed_since_the_lock_leaves_no_copy(tmp_path: Path) -> None:
    folder = make_tree(tmp_path / "t")
    expected = read_tree(folder).sha256
    (folder / "late.py").write_text("")
    with pytest.raises(ArtifactError, match="changed since it was locked"):
        take_snapshot(folder, (), tmp_path / "snap", expected)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_copy_that_was_cut_short_is_taken_again(tmp_path: Path) -> None:
    folder = make_tree(tmp_path / "t")
    partial = tmp_path / "snap.partial"
    partial.mkdir()
    (partial / "junk").write_text("from a killed process")
    snapshot = take_snapshot(folder, (), tmp_path / "snap", read_tree(folder).sha256)
    assert not (snapshot.root / "junk").exists()


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "a/../../x", ".."])
def test_a_link_out_of_the_tree_is_refused(tmp_path: Path, target: str) -> None:
    folder = make_tree(tmp_path / "t")
    (folder / "out").symlink_to(target)
    with pytest.raises(ArtifactError, match="outside the tree"):
        read_tree(folder)
    assert read_tree(folder, ("out",)).files


def test_a_fifo_is_refused_without_opening_it(tmp_path: Path) -> None:
    folder = make_tree(tmp_path / "t")
    os.mkfifo(folder / "pipe")
    with pytest.raises(ArtifactError, match="pipe: neither a file"):
        read_tree(folder)


def test_caches_git_folders_and_runs_are_left_out(tmp_path: Path) -> None:
    folder = make_tree(tmp_path / "t")
    before = read_tree(folder)
    for name in ("__pycache__/worker.pyc", ".git/config", "runs/journal.jsonl"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("x")
    assert read_tree(folder) == before
    (folder / "note.log").write_text("x")
    assert read_tree(folder, ("*.log",)) == before
    assert read_tree(folder) != before


def test_mode_and_name_are_part_of_the_digest(tmp_path: Path) -> None:
    folder = make_tree(tmp_path / "t")
    before = read_tree(folder)
    (folder / "worker.py").chmod(0o755)
    assert before.difference(read_tree(folder)) == ["worker.py changed"]
    assert read_tree(folder).git_tree != before.git_tree
    assert read_tree(folder).sha256 != before.sha256
    (folder / "worker.py").chmod(0o644)
    assert read_tree(folder).sha256 == before.sha256
    (folder / "worker.py").rename(folder / "other.py")
    assert read_tree(folder).sha256 != before.sha256

"""A workspace: the run edits a copy, the host looks, and takes all of it or nothing."""

from __future__ import annotations

import dataclasses
import mmap
import os
import socket
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from lazycore.sandbox import (
    BaseSandboxExecutor,
    SandboxCallableError,
    SandboxPolicy,
    SandboxPolicyError,
    SandboxSession,
    SandboxWorkspaceError,
    Workspace,
    WorkspaceChange,
    _workspace_tree,
)
from lazycore.sandbox import _workspace_apply as applying


@pytest.fixture
def tree(folder: Path) -> Path:
    root = folder / "tree"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "b.bin").write_bytes(b"\0\xff" * 100)
    (root / "sub" / "c.txt").write_text("c\n")
    (root / "sub" / "deep" / "run.sh").write_text("#!/bin/sh\n")
    (root / "sub" / "deep" / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    (root / "hard").write_text("hard\n")
    os.link(root / "hard", folder / "outside")
    return root


def snapshot(root: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        if path.is_symlink():
            content: object = os.readlink(path)
        else:
            content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(root))] = (stat.S_IMODE(info.st_mode), content)
    return found


def kinds(changes: tuple[WorkspaceChange, ...]) -> dict[str, str]:
    return {change.path: change.kind for change in changes}


SCRIPT = """
set -e
echo three >> a.txt
rm sub/c.txt
mkdir new && echo x > new/file
chmod 700 sub/deep/run.sh
ln -s new/file inner
mv b.bin moved.bin
rmdir empty
echo gone-astray > hard
"""
EXPECTED = {
    "a.txt": "modified",
    "b.bin": "deleted",
    "empty": "deleted",
    "hard": "modified",
    "inner": "added",
    "moved.bin": "added",
    "new": "added",
    "new/file": "added",
    "sub/c.txt": "deleted",
    "sub/deep/run.sh": "modified",
}


def test_a_run_edits_the_copy_and_the_host_keeps_its_own(
    tree: Path, executor: BaseSandboxExecutor
) -> None:
    before = snapshot(tree)
    with Workspace(tree) as work:
        result = work.run_command(executor, ["sh", "-c", SCRIPT]).check()
        assert kinds(result.changes) == EXPECTED
        sizes = {each.path: each for each in result.changes}
        assert sizes["a.txt"].size_bytes == 14
        assert sizes["a.txt"].previous_size_bytes == 8
        assert sizes["new"].size_bytes is None
        assert snapshot(tree) == before
        root = work.root
    assert not os.path.lexists(root)
    assert snapshot(tree) == before
    assert (tree.parent / "outside").read_text() == "hard\n"


def test_apply_makes_all_changes_the_hosts(
    tree: Path, namespace_executor: BaseSandboxExecutor
) -> None:
    untouched = (tree / "sub" / "deep").stat().st_mtime_ns
    inode = tree.joinpath("link").lstat().st_mode
    with Workspace(tree) as work:
        work.run_command(namespace_executor, ["sh", "-c", SCRIPT]).check()
        wanted = snapshot(Path(work.root))
        assert kinds(work.apply()) == EXPECTED
        assert snapshot(tree) == wanted
        with pytest.raises(SandboxWorkspaceError, match="applied or discarded"):
            work.changes()
    assert (tree / "sub" / "deep").stat().st_mtime_ns == untouched
    assert tree.joinpath("link").lstat().st_mode == inode
    assert (tree.parent / "outside").read_text() == "hard\n"
    assert sorted(os.listdir(tree.parent)) == ["outside", "tree"]


def test_nothing_changed_is_nothing_listed_and_nothing_applied(tree: Path) -> None:
    inode = tree.stat().st_ino
    with Workspace(tree) as work:
        assert work.changes() == ()
        assert work.diff() == ""
        assert work.apply() == ()
    assert tree.stat().st_ino == inode


def test_a_restored_time_does_not_hide_a_change(tree: Path) -> None:
    with Workspace(tree) as work:
        path = Path(work.root, "a.txt")
        info = path.stat()
        path.write_text("ONE\ntwo\n")
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
        assert kinds(work.changes()) == {"a.txt": "modified"}
        path.write_text("one\ntwo\n")
        assert work.changes() == ()


def test_the_diff_is_unified_and_names_what_is_not_text(tree: Path) -> None:
    with Workspace(tree) as work:
        root = Path(work.root)
        (root / "a.txt").write_text("one\n2")
        (root / "b.bin").write_bytes(b"\0")
        (root / "sub" / "c.txt").unlink()
        (root / "bad\nname\x1b").write_text("x\n")
        (root / "large").write_bytes(b"x" * 2_000_000)
        text = work.diff()
    assert "--- a/a.txt\n+++ b/a.txt\n" in text
    assert "-two\n+2\n\\ No newline at end of file\n" in text
    assert "--- a/sub/c.txt\n+++ /dev/null\n" in text
    assert "modified: b.bin\n" in text
    assert "added: large\n" in text
    assert "\x1b" not in text
    assert "bad\\nname" in text


def test_a_conflict_with_the_host_applies_nothing(tree: Path) -> None:
    with Workspace(tree) as work:
        Path(work.root, "a.txt").write_text("theirs\n")
        Path(work.root, "b.bin").write_bytes(b"theirs")
        (tree / "a.txt").write_text("ours\n")
        before = snapshot(tree)
        with pytest.raises(SandboxWorkspaceError, match=r"a\.txt"):
            work.apply()
        assert snapshot(tree) == before
        assert kinds(work.changes())["b.bin"] == "modified"


def test_a_change_of_the_host_beside_the_runs_survives(tree: Path) -> None:
    with Workspace(tree) as work:
        Path(work.root, "a.txt").write_text("theirs\n")
        (tree / "sub" / "c.txt").write_text("ours\n")
        work.apply()
    assert (tree / "a.txt").read_text() == "theirs\n"
    assert (tree / "sub" / "c.txt").read_text() == "ours\n"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("x", "/etc/passwd"),
        ("x", ".."),
        ("x", "../outside"),
        ("sub/x", "../../outside"),
        ("x", "sub/../../outside"),
        ("x", "link2/y"),
    ],
)
def test_a_link_that_leads_out_is_not_applied(
    tree: Path, name: str, target: str
) -> None:
    (tree / "link2").symlink_to("sub")
    before = snapshot(tree)
    with Workspace(tree) as work:
        Path(work.root, name).symlink_to(target)
        with pytest.raises(SandboxWorkspaceError, match="leads out"):
            work.apply()
    assert snapshot(tree) == before


def test_a_link_of_the_hosts_own_may_lead_anywhere(tree: Path) -> None:
    (tree / "own").symlink_to("/etc/hostname")
    with Workspace(tree) as work:
        Path(work.root, "a.txt").write_text("x")
        work.apply()
    assert os.readlink(tree / "own") == "/etc/hostname"


def test_set_id_bits_are_not_applied(tree: Path) -> None:
    with Workspace(tree) as work:
        tool = Path(work.root, "tool")
        tool.write_text("x")
        tool.chmod(0o6755)
        work.apply()
    assert stat.S_IMODE((tree / "tool").stat().st_mode) == 0o755


def test_a_pipe_left_by_the_run_is_named_and_blocks_nothing(tree: Path) -> None:
    with Workspace(tree) as work:
        os.mkfifo(Path(work.root, "pipe"))
        with pytest.raises(SandboxWorkspaceError, match=r"'pipe' .* socket, pipe"):
            work.changes()


def test_a_failed_swap_leaves_the_original(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(tree)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with Workspace(tree) as work:
        Path(work.root, "a.txt").write_text("x")
        Path(work.root, "b.bin").write_text("x")
        for step in ("copy_file", "_exchange"):
            with monkeypatch.context() as patch:
                patch.setattr(applying, step, full)
                with pytest.raises(SandboxWorkspaceError, match="No space left"):
                    work.apply()
            assert snapshot(tree) == before
        work.apply()
    assert (tree / "a.txt").read_text() == "x"
    assert sorted(os.listdir(tree.parent)) == ["outside", "tree"]


def test_whoever_looks_sees_the_old_tree_or_the_new_one(folder: Path) -> None:
    root = folder / "tree"
    root.mkdir()
    for at in range(50):
        (root / f"f{at}").write_text("old")
    seen: set[tuple[str, ...]] = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            top = os.open(root, os.O_RDONLY)
            try:
                texts = []
                for at in range(50):
                    fd = os.open(f"f{at}", os.O_RDONLY, dir_fd=top)
                    texts.append(os.read(fd, 9).decode())
                    os.close(fd)
                seen.add(tuple(sorted(set(texts))))
            except FileNotFoundError:
                pass  # the old tree, removed while we held it
            finally:
                os.close(top)

    watcher = threading.Thread(target=look)
    with Workspace(root) as work:
        for at in range(50):
            Path(work.root, f"f{at}").write_text("new")
        watcher.start()
        work.apply()
    stop.set()
    watcher.join()
    assert seen <= {("old",), ("new",)}
    assert {path.read_text() for path in root.iterdir()} == {"new"}


@pytest.mark.parametrize("name", ["missing", "file", "link"])
def test_what_is_no_plain_directory_is_refused(folder: Path, name: str) -> None:
    (folder / "file").write_text("x")
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    with pytest.raises(SandboxPolicyError):
        Workspace(folder / name)
    with pytest.raises(SandboxPolicyError):
        Workspace("relative")


def test_a_tree_with_a_socket_is_refused_and_nothing_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    spare = folder / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    (folder / "tree").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "tree" / "s"))
        with pytest.raises(SandboxWorkspaceError, match="socket"):
            Workspace(folder / "tree")
    assert list(spare.iterdir()) == []


def test_the_grant_adds_to_a_policy_and_keeps_the_rest(tree: Path) -> None:
    base = SandboxPolicy(timeout_s=3, allowed_read_paths=["/usr/share"])
    with Workspace(tree) as work:
        policy = work.grant(base)
        assert policy.allowed_write_paths == (work.root,)
        assert policy.cwd == work.root
        assert policy.timeout_s == 3
        assert work.grant(SandboxPolicy(cwd="/usr/share")).cwd == "/usr/share"
    with pytest.raises(ValueError, match="copy-on-write"):
        Workspace(tree, mode="direct")


def test_what_is_denied_in_the_original_is_denied_in_the_copy(
    tree: Path, namespace_executor: BaseSandboxExecutor
) -> None:
    policy = SandboxPolicy(
        denied_paths=[tree / "sub" / "c.txt", tree / "sub" / "deep"],
        cwd=tree / "sub",
    )
    script = "cat c.txt deep/run.sh; echo x > deep/new; mv deep away; ls; pwd"
    with Workspace(tree) as work:
        result = work.run_command(namespace_executor, ["sh", "-c", script], policy)
        assert result.stdout_text.split() == ["c.txt", "deep", f"{work.root}/sub"]
        assert result.changes == ()
        with pytest.raises(SandboxPolicyError, match="denied_paths"):
            work.grant(SandboxPolicy(denied_paths=[tree]))


def test_a_policy_may_name_the_workspace(
    tree: Path, executor: BaseSandboxExecutor
) -> None:
    before = snapshot(tree)
    policy = SandboxPolicy(workspace=tree, timeout_s=30)
    result = executor.run_command(["sh", "-c", SCRIPT], policy).check()
    assert kinds(result.changes) == EXPECTED
    assert result.policy_digest == policy.digest
    called = executor.run_callable(os.mkdir, policy, ("made",))
    assert kinds(called.changes) == {"made": "added"}
    with pytest.raises(SandboxCallableError) as raised:
        executor.run_callable(exec, policy, ("open('x', 'w'); raise KeyError",))
    assert raised.value.result is not None
    assert kinds(raised.value.result.changes) == {"x": "added"}
    assert snapshot(tree) == before
    assert SandboxPolicy.from_json(policy.to_json()) == policy
    assert f"a copy, dropped afterwards): {tree}" in policy.describe()


def test_a_workspace_of_a_policy_is_never_dropped_in_silence(
    tree: Path, executor: BaseSandboxExecutor
) -> None:
    policy = SandboxPolicy(workspace=tree)
    with pytest.raises(SandboxPolicyError, match="run_command"):
        SandboxSession(policy, executor)
    with Workspace(tree.parent) as work, pytest.raises(SandboxPolicyError):
        work.grant(policy)
    with Workspace(tree) as work:
        assert work.run_command(executor, ["touch", "n"], policy).changes
    with pytest.raises(SandboxPolicyError, match="workspace"):
        SandboxPolicy(workspace=tree, denied_paths=[tree.parent])
    with pytest.raises(SandboxPolicyError, match="workspace"):
        SandboxPolicy(workspace="relative")


@pytest.mark.once
def test_discarding_twice_is_harmless_and_deep_trees_go_too(tree: Path) -> None:
    work = Workspace(tree)
    here = os.open(work.root, os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    with pytest.raises(SandboxWorkspaceError, match="nested deeper"):
        work.changes()
    work.discard()
    work.discard()
    assert not os.path.lexists(work.root)


@pytest.mark.once
def test_holes_of_a_huge_file_are_kept_and_cost_nothing(folder: Path) -> None:
    (folder / "tree").mkdir()
    with Workspace(folder / "tree") as work:
        with open(os.path.join(work.root, "big"), "wb") as file:
            file.write(b"head")
            file.seek(1 << 35)
            file.write(b"middle")
            file.truncate(1 << 40)
        work.apply()
    info = (folder / "tree" / "big").stat()
    assert info.st_size == 1 << 40
    assert info.st_blocks * 512 < 1 << 20
    with open(folder / "tree" / "big", "rb") as file:
        assert file.read(5) == b"head\0"
        file.seek(1 << 35)
        assert file.read(7) == b"middle\0"


@pytest.mark.parametrize("place", ["/dev/shm", None], ids=["tmpfs", "disk"])
def test_a_write_through_a_mapping_is_listed_where_no_time_tells(
    tree: Path, place: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place is not None and not os.access(place, os.W_OK):
        pytest.skip(f"no {place} here")
    monkeypatch.setattr(tempfile, "tempdir", place)
    (tree / "mapped").write_bytes(b"good" * 2_000)
    with Workspace(tree) as work:
        assert work.root.startswith(place or "/")
        (tree / "b.bin").write_bytes(b"the host's own")
        with (
            open(os.path.join(work.root, "mapped"), "r+b") as file,
            mmap.mmap(file.fileno(), 0) as view,
        ):
            assert view[0] == ord("g")  # tmpfs maps what was read writable at once
            assert work.changes() == ()
            view[:4] = b"EVIL"
        assert kinds(work.changes()) == {"mapped": "modified"}
        assert "EVIL" in work.diff()
        work.apply()
    assert (tree / "mapped").read_bytes().startswith(b"EVILgood")
    assert (tree / "b.bin").read_bytes() == b"the host's own"


def test_a_change_within_one_tick_of_the_clock_is_listed(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if every time were the same tick: no stamp tells anything.
    def same_tick(root: str, path: str, full: str) -> _workspace_tree.Entry:
        entry = read_entry(root, path, full)
        return dataclasses.replace(entry, stamp=(entry.stamp[0], 0, 1))

    read_entry = _workspace_tree._entry
    monkeypatch.setattr(_workspace_tree, "_entry", same_tick)
    (tree / "file").write_bytes(b"good")
    with Workspace(tree) as work:
        assert work.changes() == ()
        with open(os.path.join(work.root, "file"), "r+b") as file:
            file.write(b"EVIL")
        assert kinds(work.changes()) == {"file": "modified"}

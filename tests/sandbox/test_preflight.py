"""Policy paths against the real file system."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from lazycore.sandbox import SandboxPolicy, SandboxPolicyError
from lazycore.sandbox._preflight import preflight
from lazycore.sandbox._system import interpreter_paths

if TYPE_CHECKING:
    from pathlib import Path


def _refused(policy: SandboxPolicy) -> str:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SandboxPolicyError) as caught:
        preflight(policy)
    assert len(os.listdir("/proc/self/fd")) == before, "a descriptor leaked"
    return str(caught.value)


def test_a_missing_path_is_refused_and_not_created(folder: Path) -> None:
    missing = [folder / "nowhere"]
    for policy in (
        SandboxPolicy(allowed_read_paths=missing),
        SandboxPolicy(allowed_write_paths=missing),
    ):
        text = _refused(policy)
        assert "nowhere" in text
        assert "not expanded" in text
    assert not (folder / "nowhere").exists()


def test_a_pattern_is_a_name_and_is_refused_when_no_file_has_it(folder: Path) -> None:
    (folder / "a.txt").touch()
    assert "*.txt" in _refused(SandboxPolicy(allowed_read_paths=[folder / "*.txt"]))


def test_brackets_in_a_name_are_only_a_name(folder: Path) -> None:
    odd = folder / "data[1] (copy)"
    odd.mkdir()
    with preflight(SandboxPolicy(allowed_read_paths=[odd])) as checked:
        assert checked.read[0].path == str(odd)


def test_a_symbolic_link_anywhere_on_the_way_is_refused_with_its_target(
    folder: Path,
) -> None:
    (folder / "real" / "inner").mkdir(parents=True)
    (folder / "link").symlink_to("real")
    text = _refused(SandboxPolicy(allowed_write_paths=[folder / "link" / "inner"]))
    assert "symbolic link" in text
    assert str(folder / "real" / "inner") in text
    (folder / "last").symlink_to("real")
    assert "symbolic link" in _refused(
        SandboxPolicy(allowed_read_paths=[folder / "last"])
    )


def test_a_dangling_link_is_refused(folder: Path) -> None:
    (folder / "link").symlink_to("nowhere")
    _refused(SandboxPolicy(allowed_read_paths=[folder / "link"]))


def test_sockets_pipes_and_devices_cannot_be_granted(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert "neither" in _refused(SandboxPolicy(allowed_read_paths=[folder / "pipe"]))
    with socket.socket(socket.AF_UNIX) as sock:
        os.chdir(folder)
        sock.bind("sock")
    assert "neither" in _refused(SandboxPolicy(allowed_read_paths=[folder / "sock"]))


def test_the_home_directory_and_what_holds_it_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder / "people" / "me"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for path in (home, folder / "people"):
        assert "home" in _refused(SandboxPolicy(allowed_write_paths=[path]))
    preflight(SandboxPolicy(allowed_write_paths=[home / "work"])).close()


@pytest.mark.parametrize("path", ["/usr", "/etc", "/usr/lib", "/bin"])
def test_a_write_path_that_holds_the_system_is_refused(path: str) -> None:
    _refused(SandboxPolicy(allowed_write_paths=[path]))


def test_a_write_path_that_holds_the_interpreter_is_refused() -> None:
    for tree in interpreter_paths():
        assert "writable" in _refused(SandboxPolicy(allowed_write_paths=[tree]))
    standard = os.path.dirname(os.path.realpath(os.__file__))
    assert "code" in _refused(SandboxPolicy(allowed_write_paths=[standard + "/json"]))
    assert sys.executable


def test_a_denied_path_inside_an_allowed_one_must_exist(folder: Path) -> None:
    (folder / "repo").mkdir()
    policy = SandboxPolicy(
        allowed_write_paths=[folder / "repo"],
        denied_paths=[folder / "repo" / ".git" / "hooks"],
    )
    assert "hooks" in _refused(policy)
    assert not (folder / "repo" / ".git").exists()


def test_a_denied_path_outside_everything_allowed_may_be_missing(folder: Path) -> None:
    with preflight(SandboxPolicy(denied_paths=[folder / "nowhere"])) as checked:
        assert checked.denied == []


def test_a_hard_link_that_leads_out_of_a_write_path_is_refused(folder: Path) -> None:
    (folder / "work").mkdir()
    (folder / "outside").write_text("x")
    os.link(folder / "outside", folder / "work" / "inside")
    policy = SandboxPolicy(allowed_write_paths=[folder / "work"])
    text = _refused(policy)
    assert str(folder / "work" / "inside") in text
    assert "allow_hard_links" in text
    accepted = SandboxPolicy(
        allowed_write_paths=[folder / "work"], allow_hard_links=True
    )
    preflight(accepted).close()


def test_a_hard_link_deep_in_the_tree_is_found(folder: Path) -> None:
    deep = folder / "work" / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (folder / "outside").write_text("x")
    os.link(folder / "outside", deep / "inside")
    _refused(SandboxPolicy(allowed_write_paths=[folder / "work"]))


def test_hard_links_that_stay_inside_write_paths_are_harmless(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir()
    (folder / "one" / "a").write_text("x")
    os.link(folder / "one" / "a", folder / "one" / "b")
    os.link(folder / "one" / "a", folder / "two" / "c")
    both = [folder / "one", folder / "two"]
    preflight(SandboxPolicy(allowed_write_paths=both)).close()
    _refused(SandboxPolicy(allowed_write_paths=both[:1]))


def test_a_hard_linked_file_granted_by_itself_is_refused(folder: Path) -> None:
    (folder / "a").write_text("x")
    os.link(folder / "a", folder / "b")
    _refused(SandboxPolicy(allowed_write_paths=[folder / "a"]))


def test_overlapping_write_paths_do_not_count_a_link_twice(folder: Path) -> None:
    (folder / "work" / "in").mkdir(parents=True)
    (folder / "outside").write_text("x")
    os.link(folder / "outside", folder / "work" / "in" / "link")
    overlapping = [folder / "work", folder / "work" / "in"]
    _refused(SandboxPolicy(allowed_write_paths=overlapping))


def test_executables_must_be_executable_files(folder: Path) -> None:
    (folder / "data").write_text("x")
    for path in (folder / "data", folder):
        text = _refused(SandboxPolicy(allowed_executables=[path]))
        assert "not an executable" in text


def test_the_working_directory_must_lie_in_an_allowed_path(folder: Path) -> None:
    assert "cwd" in _refused(SandboxPolicy(cwd=folder))
    (folder / "file").write_text("x")
    text = _refused(SandboxPolicy(cwd=folder / "file", allowed_read_paths=[folder]))
    assert "not a directory" in text


def test_pins_are_closed_with_the_checked_policy(folder: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with preflight(SandboxPolicy(allowed_write_paths=[folder])) as checked:
        assert checked.write[0].inode == folder.stat().st_ino
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_denied_file_with_a_second_name_is_refused(folder: Path) -> None:
    (folder / "secret").write_text("x")
    os.link(folder / "secret", folder / "alias")
    options = {"allowed_read_paths": [folder], "denied_paths": [folder / "secret"]}
    with pytest.raises(SandboxPolicyError, match="a file with 2 names"):
        preflight(SandboxPolicy(**options))  # type: ignore[arg-type]
    with preflight(SandboxPolicy(allow_hard_links=True, **options)) as checked:  # type: ignore[arg-type]
        assert len(checked.denied) == 1


@pytest.mark.parametrize(
    ("mode", "refused"),
    [(0o4644, True), (0o2755, True), (0o2644, False), (0o1644, False)],
    ids=["set-uid", "set-gid", "mandatory locking", "sticky"],
)
def test_a_set_id_file_in_a_write_path_is_refused(
    folder: Path,
    mode: int,
    refused: bool,  # noqa: FBT001 - a column of the table
) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "program").write_text("x")
    (folder / "in" / "program").chmod(mode)
    policy = SandboxPolicy(allowed_write_paths=[folder])
    if refused:
        with pytest.raises(SandboxPolicyError, match="set-id file"):
            preflight(policy)
    else:
        preflight(policy).close()

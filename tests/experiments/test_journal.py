"""The journal has one writer, a chain that holds, and survives a killed process."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import JournalError, RunBusyError
from lazycore.experiments._journal import GENESIS, Journal, Record, read_journal

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, count: int) -> Path:
    with Journal(folder) as journal:
        for number in range(count):
            journal.append("cell", {"number": number})
    return folder / "journal.jsonl"


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = write(tmp_path, 3)
    records = list(read_journal(path))
    assert [record.body["number"] for record in records] == [0, 1, 2]
    for record in records:
        with path.open("rb") as file:
            file.seek(record.offset)
            assert json.loads(file.read(record.length))["seq"] == record.seq
    assert json.loads(path.read_bytes().splitlines()[0])["prev"] == GENESIS


def test_a_second_session_continues_the_chain(tmp_path: Path) -> None:
    write(tmp_path, 2)
    seen: list[Record] = []
    with Journal(tmp_path, seen.append) as journal:
        journal.append("cell", {"number": 2})
    assert len(seen) == 2
    assert len(list(read_journal(tmp_path / "journal.jsonl"))) == 3


@pytest.mark.once
def test_every_cut_of_the_last_line_is_mended(tmp_path: Path) -> None:
    path = write(tmp_path, 2)
    data = path.read_bytes()
    start = data.index(b"\n") + 1
    for end in [start, *range(start + 1, len(data), 7), len(data) - 1]:
        path.write_bytes(data[:end])
        expected = 1 if end < len(data) else 2
        assert len(list(read_journal(path, torn_tail=True))) == expected
        if end > start:
            with pytest.raises(JournalError, match="record 1 is cut off"):
                list(read_journal(path))
        with Journal(tmp_path) as journal:
            journal.append("cell", {"number": 9})
        assert [r.body["number"] for r in read_journal(path)] == [0, 9]


@pytest.mark.once
def test_every_changed_byte_is_found_with_its_record(tmp_path: Path) -> None:
    path = write(tmp_path, 3)
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    last = len(lines[0]) + len(lines[1])
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= 1
        path.write_bytes(changed)
        if index < last:
            with pytest.raises(JournalError, match=r"journal\.jsonl: record \d"):
                list(read_journal(path))


@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: lines[1:],
        lambda lines: lines[:1] + lines[2:],
        lambda lines: [lines[0], lines[2], lines[1]],
        lambda lines: [lines[0], lines[0], *lines[1:]],
    ],
    ids=["first removed", "middle removed", "swapped", "doubled"],
)
def test_removed_moved_and_doubled_records_are_found(
    tmp_path: Path, edit: object
) -> None:
    path = write(tmp_path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    assert callable(edit)
    path.write_bytes(b"".join(edit(lines)))
    with pytest.raises(JournalError, match="does not follow"):
        list(read_journal(path))
    with pytest.raises(JournalError, match="does not follow"):
        Journal(tmp_path)


def test_a_second_writer_is_refused_and_the_first_keeps_writing(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append("cell", {})
        with pytest.raises(RunBusyError, match=str(os.getpid())):
            Journal(tmp_path)
        journal.append("cell", {})
    assert len(list(read_journal(tmp_path / "journal.jsonl"))) == 2


def test_a_full_disk_leaves_a_whole_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, 1)
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 10:
            return real(descriptor, bytes(data)[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Journal(tmp_path) as journal:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            journal.append("cell", {"a": "b" * 40})
        monkeypatch.undo()
        journal.append("cell", {"number": 1})
    assert [r.body["number"] for r in read_journal(path)] == [0, 1]


def test_a_symbolic_link_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        Journal(tmp_path)

"""Verification names every changed byte of a run folder by file."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import ArtifactError, verify_run
from lazycore.experiments._canonical import canonical, sha256_hex
from lazycore.experiments._strict_json import parse

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(finished: Path) -> Path:
    assert verify_run(finished).findings == ()
    return finished


def files_of(run: Path) -> list[Path]:
    return sorted(
        path for path in run.rglob("*") if path.is_file() and path.name != "run.lock"
    )


@pytest.mark.once
def test_any_changed_byte_is_named(run: Path) -> None:
    choose = random.Random(5)
    for path in files_of(run):
        path.chmod(0o644)
        data = path.read_bytes()
        places = {0, len(data) - 1, *(choose.randrange(len(data)) for _ in range(4))}
        for place in sorted(places):
            changed = bytearray(data)
            changed[place] ^= 1
            path.write_bytes(changed)
            findings = verify_run(run).findings
            assert any(path.name in finding for finding in findings), (path, place)
        path.write_bytes(data)
    # What was mended holds again, but for the mode of the snapshot's files.
    assert verify_run(run).findings == ()


def test_a_missing_and_an_added_file_are_named(run: Path) -> None:
    (run / "notes.txt").write_text("mine")
    (run / "snapshot" / "extra.py").write_text("")
    findings = "\n".join(verify_run(run).findings)
    assert "notes.txt: no file of a run" in findings
    assert "extra.py added" in findings
    (run / "notes.txt").unlink()
    shutil.rmtree(run / "snapshot")
    assert "snapshot: missing" in "\n".join(verify_run(run).findings)


def reseal(lines: list[bytes]) -> bytes:
    """Recompute a journal's chain, as somebody who knows the format would."""
    previous = "0" * 64
    out = []
    for seq, line in enumerate(lines):
        record = {**parse(line), "prev": previous, "seq": seq}
        data = canonical(record)
        previous = sha256_hex(data)
        out.append(data + b"\n")
    return b"".join(out)


def test_a_value_changed_with_its_chain_mended_is_still_found(run: Path) -> None:
    path = run / "journal.jsonl"
    lines = path.read_bytes().splitlines()
    place = next(i for i, line in enumerate(lines) if b'"type":"cell"' in line)
    lines[place] = lines[place].replace(b'"score":0', b'"score":5')
    path.write_bytes(reseal(lines))
    findings = "\n".join(verify_run(run).findings)
    assert "states another results digest" in findings
    assert "journal.jsonl: is not the journal that seal.json names" in findings


def test_a_doubled_and_a_foreign_cell_are_found_by_record(run: Path) -> None:
    path = run / "journal.jsonl"
    lines = path.read_bytes().splitlines()
    cell = next(line for line in lines if b'"type":"cell"' in line)
    path.write_bytes(reseal([*lines[:-1], cell, lines[-1]]))
    assert "in the journal twice" in "\n".join(verify_run(run).findings)
    body = parse(cell)["body"]
    foreign = cell.replace(body["cell"].encode(), b"0" * 64)
    path.write_bytes(reseal([*lines[:-1], foreign, lines[-1]]))
    findings = "\n".join(verify_run(run).findings)
    assert "record 3: cell 000000000000 is not in the plan" in findings


def test_a_run_without_a_seal_was_not_finished(run: Path) -> None:
    (run / "seal.json").unlink()
    assert "was not finished" in verify_run(run).findings[0]


def test_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no run folder"):
        verify_run(tmp_path)

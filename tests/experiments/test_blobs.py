"""Large outputs lie beside the journal, once each, and no changed byte goes unnamed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.experiments import ArtifactError, load_run, run_study, verify_run
from lazycore.experiments._blobs import BLOBS, INLINE_BYTES, _may_be_large
from lazycore.experiments._canonical import canonical, sha256_hex

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import RunRecord, StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]
    RunBody = Callable[..., RunRecord]

pytestmark = pytest.mark.usefixtures("one_sandbox")

# Both arms say the same of u0; u1 is small.
BODY = """\
if request.unit == "u1":
    return Reply({"score": 1}, output="short")
return Reply({"score": 1}, output={"text": "x" * 20_000, "unit": request.unit})
"""
LARGE = canonical({"text": "x" * 20_000, "unit": "u0"})


@pytest.fixture
def run(run_body: RunBody) -> Path:
    path = run_body(BODY, units=["u0", "u1"]).path
    assert verify_run(path).findings == ()
    return path


def cells(run: Path) -> list[dict[str, Any]]:
    lines = (run / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [record["body"] for record in records if record["type"] == "cell"]


def record_of(run: Path) -> int:
    """Return the record of the unit with the large output; cells may swap."""
    return 1 + [body["units"] for body in cells(run)].index(["u0"])


def test_a_large_output_is_stored_once_and_read_back(run: Path) -> None:
    (blob,) = (run / BLOBS).iterdir()
    assert blob.read_bytes() == LARGE
    assert blob.name == sha256_hex(LARGE)
    assert (run / "journal.jsonl").stat().st_size < len(LARGE)
    record = load_run(run)
    by_unit = {row.unit: row.cell for row in record.rows}
    for arm in ("no_op", "candidate"):
        assert record.output(by_unit["u0"], arm, "u0") == json.loads(LARGE)
        assert record.output(by_unit["u1"], arm, "u1") == "short"
    rows = [arm["units"] for body in cells(run) for arm in body["arms"].values()]
    assert sum("blob" in row for units in rows for row in units.values()) == 2


def test_every_changed_byte_of_a_blob_is_named(run: Path) -> None:
    (blob,) = (run / BLOBS).iterdir()
    for place in (0, 7, len(LARGE) - 1):
        changed = bytearray(LARGE)
        changed[place] ^= 1
        blob.write_bytes(changed)
        (finding,) = verify_run(run).findings
        assert finding == f"{blob}: not the output that record {record_of(run)} names"
    cell = next(body["cell"] for body in cells(run) if body["units"] == ["u0"])
    with pytest.raises(ArtifactError, match="not the output that the journal names"):
        load_run(run).output(cell, "no_op", "u0")
    blob.unlink()
    (finding,) = verify_run(run).findings
    assert f"missing, though record {record_of(run)} names it" in finding
    with pytest.raises(ArtifactError, match="No such file"):
        load_run(run).output(cell, "no_op", "u0")


def test_a_stranger_and_a_link_among_the_blobs_are_named(
    run: Path, tmp_path: Path
) -> None:
    (run / BLOBS / "notes").write_text("mine")
    (finding,) = verify_run(run).findings
    assert finding == f"{run / BLOBS / 'notes'}: named by no record"
    (run / BLOBS / "notes").unlink()
    (blob,) = (run / BLOBS).iterdir()
    blob.rename(tmp_path / "elsewhere")
    blob.symlink_to(tmp_path / "elsewhere")
    (finding,) = verify_run(run).findings
    assert finding == f"{blob}: no regular file"
    blob.unlink()
    (run / BLOBS).rmdir()
    (run / BLOBS).symlink_to(tmp_path)
    assert f"{run / BLOBS}: no folder of its own" in verify_run(run).findings


def test_a_continued_run_has_the_same_blobs_and_sweeps_the_rest(
    run: Path, write_study: Write, make_lock: Make
) -> None:
    results = load_run(run).results_digest
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    # As after a kill: the second cell torn, a blob without a record, no seal.
    journal.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    (run / "seal.json").unlink()
    (run / BLOBS / ("0" * 64)).write_bytes(b"half")
    again = run_study(make_lock(write_study(BODY, units=["u0", "u1"])), run, slots=1)
    assert again.results_digest == results
    assert [blob.read_bytes() for blob in (run / BLOBS).iterdir()] == [LARGE]
    assert verify_run(run).findings == ()


def test_a_blob_left_half_written_under_its_name_is_written_again(
    run: Path, write_study: Write, make_lock: Make
) -> None:
    (blob,) = (run / BLOBS).iterdir()
    blob.write_bytes(b"half")
    (run / "journal.jsonl").write_bytes(b"")
    run_study(make_lock(write_study(BODY, units=["u0", "u1"])), run)
    assert blob.read_bytes() == LARGE
    assert verify_run(run).findings == ()


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("\x01" * 1_400, id="escapes"),
        pytest.param([0.1234567890123456e-100] * 370, id="long numbers"),
        pytest.param({str(i): [] for i in range(2_000)}, id="keys"),
        pytest.param([[[]]] * 2_000, id="brackets"),
        pytest.param("é" * 5_000, id="two bytes a character"),
    ],
)
def test_the_cheap_guess_never_calls_a_large_value_small(value: object) -> None:
    assert len(canonical(value)) > INLINE_BYTES
    assert _may_be_large(value)


def test_the_cheap_guess_spares_small_values() -> None:
    assert not _may_be_large({"prediction": 3, "words": ["a", "b"], "p": 0.25})

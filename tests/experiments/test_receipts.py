"""Receipts are signed in-toto statements that others verify without this package."""

from __future__ import annotations

import base64
import json
import stat
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed")

from lazycore.experiments import (
    ArtifactError,
    Signer,
    generate_key,
    run_study,
    verify_run,
)
from lazycore.experiments._receipts import RECEIPTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    generate_key(path)
    return path


@pytest.fixture
def run(finished: Path, make_lock: Make, key: Path) -> Path:
    """Sign a finished run, as whoever asks again with a key does."""
    lock = make_lock(finished.with_name("study") / "study.toml")
    run_study(lock, finished, signer=Signer(key))
    return finished


def public(key: Path) -> Path:
    return key.with_name(f"{key.name}.pub")


def test_a_signed_run_verifies_with_its_key_and_with_no_other(
    run: Path, key: Path, tmp_path: Path
) -> None:
    assert verify_run(run, public_key=public(key)).findings == ()
    other = tmp_path / "other.pem"
    generate_key(other)
    findings = verify_run(run, public_key=public(other)).findings
    assert len(findings) == 4
    assert all("the signature does not hold" in finding for finding in findings)


def test_asking_again_for_a_signed_run_keeps_its_receipts(
    run: Path, key: Path, write_study: Write, make_lock: Make
) -> None:
    before = (run / RECEIPTS).read_bytes()
    run_study(make_lock(write_study(units=["u0", "u1"])), run)
    assert (run / RECEIPTS).read_bytes() == before
    assert verify_run(run, public_key=public(key)).holds


@pytest.mark.once
def test_every_changed_byte_of_the_receipts_is_named_by_record(
    run: Path, key: Path
) -> None:
    path = run / RECEIPTS
    data = path.read_bytes()
    for place in range(0, len(data), max(1, len(data) // 60)):
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        number = data[:place].count(b"\n")
        findings = verify_run(run, public_key=public(key)).findings
        assert any(f"{RECEIPTS}: record {number}" in text for text in findings), place


def test_receipts_of_another_run_do_not_fit(
    run: Path, key: Path, write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    lock = make_lock(write_study("return {'score': 9}", units=["u0", "u1"]))
    run_study(lock, other, signer=Signer(key))
    (run / RECEIPTS).write_bytes((other / RECEIPTS).read_bytes())
    text = "\n".join(verify_run(run, public_key=public(key)).findings)
    assert "record 0: does not describe this run" in text


def test_a_removed_receipt_is_missed(run: Path, key: Path) -> None:
    path = run / RECEIPTS
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    text = "\n".join(verify_run(run, public_key=public(key)).findings)
    assert "1 receipts are missing after 3" in text
    path.unlink()
    text = "\n".join(verify_run(run, public_key=public(key)).findings)
    assert "the run was not signed" in text


def test_securesystemslib_alone_verifies_every_receipt(run: Path, key: Path) -> None:
    dsse = pytest.importorskip(
        "securesystemslib.dsse", reason="securesystemslib is not installed"
    )
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    loaded = load_pem_public_key(public(key).read_bytes())
    signer = pytest.importorskip("securesystemslib.signer")
    trusted = signer.SSlibKey.from_crypto(loaded)
    lines = (run / RECEIPTS).read_text().splitlines()
    assert len(lines) == 4
    for line in lines:
        envelope = dsse.Envelope.from_dict(json.loads(line))
        assert envelope.verify([trusted], 1)
        statement = json.loads(envelope.payload)
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        assert statement["subject"][0]["digest"]["sha256"]


def test_statements_name_provenance_outcome_and_cells(run: Path) -> None:
    lines = (run / RECEIPTS).read_text().splitlines()
    statements = [json.loads(base64.b64decode(json.loads(x)["payload"])) for x in lines]
    assert [statement["predicateType"] for statement in statements] == [
        "https://slsa.dev/provenance/v1",
        "https://in-toto.io/attestation/test-result/v0.1",
        "urn:lazycore:experiments:cell:1",
        "urn:lazycore:experiments:cell:1",
    ]
    assert statements[1]["predicate"]["result"] == "PASSED"


def test_a_key_is_private_and_never_overwritten(key: Path) -> None:
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    with pytest.raises(ArtifactError, match="is there already"):
        generate_key(key)
    with pytest.raises(ArtifactError, match="no private key"):
        Signer(public(key))

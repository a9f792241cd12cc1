"""Receipts are chained, appended under a lock, and void when terms or use change."""

from __future__ import annotations

import json
import multiprocessing
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lazycore.licensing import (
    Allowlist,
    ModelLicenseEntry,
    ModelTier,
    ReceiptError,
    ReceiptLog,
    RestrictedLicenseNotAcceptedError,
    TermsChangedError,
)

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = ModelLicenseEntry(
    model_id="org/big",
    license="CC-BY-NC-4.0",
    tier=ModelTier.RESTRICTED,
    terms_sha256="0" * 64,
)


@pytest.fixture
def log(tmp_path: Path) -> ReceiptLog:
    return ReceiptLog(tmp_path / "receipts.jsonl")


def test_a_receipt_admits_its_model_for_its_use(log: ReceiptLog) -> None:
    receipt = log.accept(ENTRY, usage="weights-research", by="ada")
    allowed = Allowlist([ENTRY])
    found = allowed.check("org/big", usage="weights-research", receipt=receipt)
    assert found == ENTRY
    for usage in ("weights-commercial", None):
        with pytest.raises(RestrictedLicenseNotAcceptedError, match="receipt is for"):
            allowed.check("org/big", usage=usage, receipt=receipt)


@pytest.mark.parametrize(
    "change",
    [
        {"terms_sha256": "1" * 64},
        {"license": "CC-BY-NC-ND-4.0"},
        {"revision": "a" * 40},
        {"terms_sha256": None},
    ],
    ids=str,
)
def test_changed_terms_void_a_receipt(
    log: ReceiptLog, change: dict[str, str | None]
) -> None:
    receipt = log.accept(ENTRY, usage="weights-research", by="ada")
    changed = replace(ENTRY, **change)  # type: ignore[arg-type]
    with pytest.raises(TermsChangedError):
        Allowlist([changed]).check(
            "org/big", changed.revision, usage="weights-research", receipt=receipt
        )


def test_a_receipt_is_for_one_model(log: ReceiptLog) -> None:
    receipt = log.accept(ENTRY, usage="weights-research", by="ada")
    other = replace(ENTRY, model_id="org/other")
    with pytest.raises(RestrictedLicenseNotAcceptedError, match=r"for hf:org/big"):
        Allowlist([other]).check("org/other", usage="weights-research", receipt=receipt)


def test_each_receipt_names_the_one_before(log: ReceiptLog) -> None:
    first = log.accept(ENTRY, usage="weights-research", by="ada")
    second = log.accept(ENTRY, usage="dataset", by="bob")
    assert second.previous == first.digest
    assert log.read() == (first, second)
    assert log.find(ENTRY, usage="dataset") == second
    assert log.find(ENTRY, usage="distributed") is None


def test_an_absent_file_holds_no_receipts(log: ReceiptLog) -> None:
    assert log.read() == ()


@pytest.mark.parametrize("damage", ["edit", "remove", "reorder", "junk", "bytes"])
def test_damage_is_found_and_nothing_is_appended(log: ReceiptLog, damage: str) -> None:
    for name in ("ada", "bob", "eve"):
        log.accept(ENTRY, usage="weights-research", by=name)
    lines = log.path.read_text().splitlines(keepends=True)
    broken = {
        "edit": [lines[0].replace("ada", "eva"), *lines[1:]],
        "remove": lines[1:],
        "reorder": [lines[1], lines[0], lines[2]],
        "junk": [*lines, "{}\n"],
        "bytes": [*lines, "\ufffd\n"],
    }[damage]
    log.path.write_text("".join(broken))
    before = log.path.read_bytes()
    with pytest.raises(ReceiptError, match=r"receipts\.jsonl"):
        log.read()
    with pytest.raises(ReceiptError):
        log.accept(ENTRY, usage="weights-research", by="mal")
    assert log.path.read_bytes() == before


def test_a_receipt_names_who_accepts(log: ReceiptLog) -> None:
    with pytest.raises(ValueError, match="names who accepts"):
        log.accept(ENTRY, usage="weights-research", by="  ")
    assert not log.path.exists()


def _accept(path: str, name: str) -> None:
    for _ in range(5):
        ReceiptLog(path).accept(ENTRY, usage="weights-research", by=name)


def test_processes_append_one_after_the_other(log: ReceiptLog) -> None:
    context = multiprocessing.get_context("fork")
    writers = [
        context.Process(target=_accept, args=(str(log.path), name)) for name in "abcd"
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
        writer.close()
    assert len(log.read()) == 20


def test_a_line_that_was_never_finished_grants_nothing_and_is_dropped(
    log: ReceiptLog,
) -> None:
    first = log.accept(ENTRY, usage="weights-research", by="ada")
    whole = log.path.read_bytes()
    log.accept(ENTRY, usage="dataset", by="bob")
    raw = log.path.read_bytes()
    for cut in (len(whole) + 1, len(whole) + 90, len(raw) - 1):
        log.path.write_bytes(raw[:cut])
        assert log.read() == (first,)
        assert log.find(ENTRY, usage="dataset") is None
    again = log.accept(ENTRY, usage="dataset", by="eve")
    assert log.read() == (first, again)


def _accept_for_ever(path: str, name: str) -> None:
    while True:
        ReceiptLog(path).accept(ENTRY, usage="weights-research", by=name)


def test_a_killed_writer_leaves_a_chain_that_holds(log: ReceiptLog) -> None:
    context = multiprocessing.get_context("fork")
    for pause_s in (0.01, 0.013, 0.017, 0.02):
        pair = [
            context.Process(target=_accept_for_ever, args=(str(log.path), name))
            for name in ("ada", "bob")
        ]
        for writer in pair:
            writer.start()
        time.sleep(pause_s)
        for writer in pair:
            writer.kill()
            writer.join()
        known = log.read()
        made = log.accept(ENTRY, usage="dataset", by="eve")  # no lock is left behind
        assert log.read() == (*known, made)


def test_a_line_is_plain_json(log: ReceiptLog) -> None:
    log.accept(ENTRY, usage="weights-research", by="adä")
    assert json.loads(log.path.read_text("ascii"))["accepted_by"] == "adä"

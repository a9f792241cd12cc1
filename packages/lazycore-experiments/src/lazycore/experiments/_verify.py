"""Verify a run folder: every byte of it, each finding with file and record."""

from __future__ import annotations

import os
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments._blobs import BLOBS, blob_findings, blobs_of
from lazycore.experiments._digests import ResultsDigest
from lazycore.experiments._errors import (
    ArtifactError,
    ExperimentError,
    JournalError,
)
from lazycore.experiments._file_hashes import hash_file
from lazycore.experiments._journal import read_journal
from lazycore.experiments._lock import StudyLock
from lazycore.experiments._order_check import SAMPLE
from lazycore.experiments._outcome import leaf_digest
from lazycore.experiments._plan import Cell, plan_cells
from lazycore.experiments._protocol import request_digest
from lazycore.experiments._receipts import RECEIPTS, receipt_findings
from lazycore.experiments._seal import DERIVED, SEAL_FIELDS, read_seal
from lazycore.experiments._tree import read_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments._journal import Record

__all__ = ["Verification", "verify_run"]

_OWN = {
    BLOBS,
    "journal.jsonl",
    "lock.json",
    "run.lock",
    "seal.json",
    "snapshot",
    "study",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What verification found.

    Attributes:
        findings: One line per deviation, naming file and record; empty when the
            run holds.
        lock_digest: SHA-256 of the lock, or None when it can't be read.
        results_digest: SHA-256 over the journal's values, or None.
        records: Journal records that were read.

    Examples:
        >>> Verification(
        ...     findings=(), lock_digest=None, results_digest=None, records=0
        ... ).holds
        True
    """

    findings: tuple[str, ...]
    lock_digest: str | None
    results_digest: str | None
    records: int

    @property
    def holds(self) -> bool:
        """Whether nothing deviates."""
        return not self.findings


def verify_run(
    path: str | Path,
    *,
    public_key: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Check lock, snapshot, journal, results and derived files of a run.

    The journal's chain is followed record by record; every cell must be one of the
    plan, once, and answer the request that the lock implies. Digests in
    ``seal.json`` cover the rest. Without a key that proves consistency; with one,
    every receipt must be signed by it and describe this very run.

    Args:
        path: The run folder.
        public_key: PEM file of the key that signed the run.
        progress: Called with records read and cells planned.

    Raises:
        ArtifactError: There is no run folder.

    Examples:
        >>> verify_run("no/such/folder")
        Traceback (most recent call last):
        ...
        lazycore.experiments._errors.ArtifactError: no/such/folder: no run folder
    """
    folder = Path(path)
    if not (folder / "journal.jsonl").is_file():
        raise ArtifactError(f"{folder}: no run folder")
    findings: list[str] = []
    lock: StudyLock | None = None
    try:
        lock = StudyLock.read(folder / "lock.json")
    except ArtifactError as error:
        findings.append(str(error))
    results: str | None = None
    records, complete = 0, False
    if lock is not None:
        results, records, complete = _verify_journal(folder, lock, findings, progress)
        _verify_trees(folder, lock, findings)
    _verify_seal(folder, lock, results, complete=complete, findings=findings)
    if public_key is not None and lock is not None:
        try:
            findings += receipt_findings(folder, lock, Path(public_key))
        except (JournalError, KeyError) as error:
            findings.append(f"{folder / RECEIPTS}: can't be compared: {error}")
    _verify_strangers(folder, findings)
    return Verification(
        findings=tuple(findings),
        lock_digest=None if lock is None else lock.digest,
        results_digest=results,
        records=records,
    )


def _verify_journal(
    folder: Path,
    lock: StudyLock,
    findings: list[str],
    progress: Callable[[int, int], None] | None,
) -> tuple[str | None, int, bool]:
    plan = {cell.id: cell for cell in plan_cells(lock.study, lock.digest)}
    total = ResultsDigest()
    path = folder / "journal.jsonl"
    count = 0
    named: dict[str, int] = {}
    tried: dict[tuple[str, str], int] = {}
    try:
        for record in read_journal(path):
            count += 1
            problem = _record_problem(record, lock, plan, total) or _attempt_problem(
                record, tried
            )
            if problem:
                findings.append(f"{path}: record {record.seq}: {problem}")
            if record.type == "cell":
                total.add(record.body["cell"], leaf_digest(record.body))
                for blob in blobs_of(record.body):
                    named.setdefault(blob, record.seq)
            if progress is not None and count % 500 == 0:
                progress(count, len(plan))
    except ExperimentError as error:
        findings.append(str(error))
        return None, count, False
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        findings.append(f"{path}: record {count - 1}: malformed body ({error!r})")
        return None, count, False
    findings += blob_findings(folder, named)
    if len(total) != len(plan):
        findings.append(
            f"{path}: {len(total)} of {len(plan)} cells are finished; continue the run"
        )
    return total.value(), count, len(total) == len(plan)


def _record_problem(
    record: Record, lock: StudyLock, plan: dict[str, Cell], total: ResultsDigest
) -> str | None:
    if record.type == "session" and record.body.get("lock") != lock.digest:
        return "belongs to another lock"
    if record.type == "end" and record.body["results"] != total.value():
        return "states another results digest"
    if record.type == "order":
        return _order_problem(plan, record.body)
    return _cell_problem(lock, plan, record.body) if record.type == "cell" else None


def _attempt_problem(record: Record, tried: dict[tuple[str, str], int]) -> str | None:
    """Hold the attempts of an arm to 1, 2, 3 ... up to the one in the cell's record.

    Args:
        record: The next record of the journal.
        tried: Attempts so far of arms whose cell is not finished; brought up to date.
    """
    body = record.body
    if record.type == "attempt":
        found = {body["arm"]: body["attempt"]}
    elif record.type == "cell":
        found = {name: arm["attempt"] for name, arm in body["arms"].items()}
    else:
        return None
    for arm, number in found.items():
        expected = tried.get((body["cell"], arm), 0) + 1
        if number != expected:
            return f"arm {arm}: attempt {number} where attempt {expected} follows"
        if record.type == "attempt":
            tried[body["cell"], arm] = number
    return None


def _order_problem(plan: dict[str, Cell], body: dict[str, Any]) -> str | None:
    sample = set(nsmallest(SAMPLE, plan))
    named = {*body["differing"], *body["failed"]}
    if body["checked"] != len(sample) or not named <= sample:
        return "asked other cells again than the plan's sample"
    return None


def _cell_problem(
    lock: StudyLock, plan: dict[str, Cell], body: dict[str, Any]
) -> str | None:
    cell = plan.get(body["cell"])
    if cell is None:
        return f"cell {body['cell'][:12]} is not in the plan"
    stated = (body["index"], body["benchmark"], body["model"], body["seed"])
    planned = (cell.index, cell.benchmark, cell.model, cell.seed)
    if stated != planned or tuple(body["units"]) != cell.units:
        return "describes another cell than its id"
    if tuple(body["order"]) != cell.order or body["block"] != cell.block:
        return "the arms did not run in the derived order"
    if body["arms"].keys() != set(cell.order):
        return "has other arms than the study"
    for name, arm in body["arms"].items():
        if arm["request"] != request_digest(lock.study, lock.digest, cell, name):
            return f"arm {name} answered another request"
        if arm["response"] is not None and arm["units"].keys() != set(cell.units):
            return f"arm {name} has other units than the cell"
    return None


def _verify_trees(folder: Path, lock: StudyLock, findings: list[str]) -> None:
    for name, exclude in (("snapshot", ()), ("study", lock.study.exclude)):
        root = folder / name
        if not root.exists():
            if name == "snapshot":
                findings.append(f"{root}: missing")
            continue
        try:
            found = read_tree(root, exclude, whole=name == "snapshot")
        except ArtifactError as error:
            findings.append(str(error))
            continue
        if found.sha256 != lock.tree_sha256:
            changes = lock.tree().difference(found)
            findings.extend(f"{root}: {change}" for change in changes)


def _verify_seal(
    folder: Path,
    lock: StudyLock | None,
    results: str | None,
    *,
    complete: bool,
    findings: list[str],
) -> None:
    try:
        seal = read_seal(folder)
    except ArtifactError as error:
        findings.append(f"{error}; the run was not finished")
        return
    path = folder / "seal.json"
    if seal.keys() != SEAL_FIELDS or seal["schema"] != 1:
        findings.append(f"{path}: has not the fields of a seal")
        return
    if lock is not None and seal["lock"] != lock.digest:
        findings.append(f"{path}: names another lock than lock.json")
    if results is not None and seal["results"] != results:
        findings.append(f"{path}: names other results than journal.jsonl")
    journal = folder / "journal.jsonl"
    stated = {"sha256": hash_file(journal), "bytes": journal.stat().st_size}
    if seal["journal"] != stated:
        findings.append(f"{journal}: is not the journal that seal.json names")
    if seal["complete"] is not complete:
        findings.append(f"{path}: says complete {seal['complete']}, which is wrong")
    files = seal["files"]
    if not isinstance(files, dict) or not files.keys() <= set(DERIVED):
        findings.append(f"{path}: has no table of derived files")
        return
    _verify_derived(folder, files, findings)


def _verify_derived(folder: Path, files: dict[str, Any], findings: list[str]) -> None:
    for name in DERIVED:
        file = folder / name
        if name in files and not file.is_file():
            findings.append(f"{file}: missing, though seal.json names it")
        elif file.is_file() and name not in files:
            findings.append(f"{file}: not named in seal.json")
        elif name in files and hash_file(file) != files[name]:
            findings.append(f"{file}: not the file that seal.json names")


def _verify_strangers(folder: Path, findings: list[str]) -> None:
    findings.extend(
        f"{folder / name}: no file of a run"
        for name in sorted(os.listdir(folder))  # noqa: PTH208 - names only
        if name not in _OWN and name not in DERIVED
    )

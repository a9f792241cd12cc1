"""Seal a finished run: one small file with the digest of every other file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lazycore.experiments._atomic import write_atomically
from lazycore.experiments._canonical import canonical
from lazycore.experiments._errors import ArtifactError, CanonicalError
from lazycore.experiments._file_hashes import hash_file
from lazycore.experiments._strict_json import parse

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SEAL_FORMAT", "read_seal", "seal_run", "update_seal"]

SEAL_FORMAT = "lazycore-experiments/seal/1"
# Files that people or later commands may remake; each is sealed on its own.
DERIVED = ("receipts.dsse.jsonl", "report.html", "results.parquet")
SEAL_FIELDS = {"complete", "files", "format", "journal", "lock", "results", "schema"}


def seal_run(folder: Path, *, lock: str, results: str, complete: bool) -> None:
    """Write ``seal.json``: digests of journal, lock, results and derived files."""
    journal = folder / "journal.jsonl"
    document = {
        "schema": 1,
        "format": SEAL_FORMAT,
        "lock": lock,
        "journal": {"sha256": hash_file(journal), "bytes": journal.stat().st_size},
        "results": results,
        "complete": complete,
        "files": {
            name: hash_file(folder / name)
            for name in DERIVED
            if (folder / name).is_file()
        },
    }
    write_atomically(folder / "seal.json", canonical(document))


def update_seal(folder: Path, name: str) -> None:
    """Seal one derived file anew; everything else keeps its digest."""
    document = read_seal(folder)
    document["files"][name] = hash_file(folder / name)
    write_atomically(folder / "seal.json", canonical(document))


def read_seal(folder: Path) -> dict[str, Any]:
    """Return the seal of a run.

    Raises:
        ArtifactError: It is absent or not a seal.
    """
    path = folder / "seal.json"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path}: {os.strerror(error.errno or 0)}") from error
    try:
        document = parse(data)
    except CanonicalError as error:
        raise ArtifactError(f"{path}: {error}") from error
    if not isinstance(document, dict) or document.get("format") != SEAL_FORMAT:
        raise ArtifactError(f"{path}: not a seal of format {SEAL_FORMAT}")
    if canonical(document) != data:
        raise ArtifactError(f"{path}: not in canonical form")
    return document

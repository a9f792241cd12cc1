"""Keep large outputs beside the journal, each once, under its own digest.

The journal names a blob by the SHA-256 of its bytes, and those bytes are on the disk
before the record that names them. What a killed run left without a record is swept
when the run is next finished.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from lazycore.experiments._atomic import write_atomically
from lazycore.experiments._canonical import canonical, sha256_hex
from lazycore.experiments._errors import ArtifactError, CanonicalError
from lazycore.experiments._file_hashes import hash_file
from lazycore.experiments._strict_json import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = [
    "BLOBS",
    "INLINE_BYTES",
    "BlobStore",
    "blob_findings",
    "blobs_of",
    "read_output",
]

BLOBS = "blobs"
INLINE_BYTES = 8_192
_LIMIT_BYTES = 256 * 2**20
_DIGEST = re.compile(r"[0-9a-f]{64}")
# A character is at most a six-byte escape, a number 25 bytes; a comma may follow.
_LONGEST_ESCAPE = 6
_LONGEST_NUMBER = 26


class BlobStore:
    """The folder ``blobs`` of a run; only the run's single writer has one.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder: Path) -> None:
        self._root = folder / BLOBS
        self._named: set[str] = set()

    def note(self, body: Mapping[str, Any]) -> None:
        """Remember what a record that is in the journal already names."""
        self._named.update(blobs_of(body))

    def move_out(self, body: dict[str, Any]) -> None:
        """Write the large outputs of a cell to blobs and name them in its body.

        Raises:
            OSError: The disk is full or failed; nothing names the blob then.
        """
        for arm in body["arms"].values():
            for row in arm["units"].values():
                if _may_be_large(row["output"]):
                    data = canonical(row["output"])
                    if len(data) > INLINE_BYTES:
                        row["blob"] = self._put(data)
                        row["output"] = None

    def sweep(self) -> None:
        """Remove what no record names; a killed writer leaves such files."""
        if not self._root.is_dir():
            return
        for path in self._root.iterdir():
            if path.name not in self._named:
                path.unlink()

    def _put(self, data: bytes) -> str:
        name = sha256_hex(data)
        path = self._root / name
        if name not in self._named:
            # A file of that name that no record names may be anything.
            self._root.mkdir(exist_ok=True)
            write_atomically(path, data)
            self._named.add(name)
        return name


def read_output(folder: Path, row: Mapping[str, Any]) -> Any:  # JSON of the worker
    """Return the output of a unit's row, from its blob where it has one.

    Raises:
        ArtifactError: The blob is missing or was changed.
    """
    name = row.get("blob")
    if name is None:
        return row["output"]
    path = folder / BLOBS / str(name)
    try:
        if not _DIGEST.fullmatch(str(name)):
            raise ArtifactError(f"{folder}: {str(name)[:80]!r} names no blob")
        data = path.read_bytes()
        if sha256_hex(data) != name:
            raise ArtifactError(f"{path}: not the output that the journal names")
        return parse(data, limit_bytes=_LIMIT_BYTES)
    except OSError as error:
        raise ArtifactError(f"{path}: {error.strerror}") from error
    except CanonicalError as error:
        raise ArtifactError(f"{path}: {error}") from error


def blobs_of(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the blobs that a cell's record names."""
    for arm in body["arms"].values():
        for row in arm["units"].values():
            if "blob" in row:
                yield row["blob"]


def blob_findings(folder: Path, named: Mapping[str, int]) -> list[str]:
    """Return what is wrong with the blobs of a run, file by file.

    Args:
        folder: The run folder.
        named: Digests that the journal names, with the first record that does.
    """
    root = folder / BLOBS
    if root.is_symlink() or (root.exists() and not root.is_dir()):
        return [f"{root}: no folder of its own"]
    found = {entry.name: entry for entry in os.scandir(root)} if root.exists() else {}
    findings = [
        f"{root / name}: missing, though record {record} names it"
        for name, record in named.items()
        if name not in found
    ]
    for name, entry in sorted(found.items()):
        path = root / name
        if name not in named:
            findings.append(f"{path}: named by no record")
        elif not entry.is_file(follow_symlinks=False):
            findings.append(f"{path}: no regular file")
        elif hash_file(path) != name:
            findings.append(f"{path}: not the output that record {named[name]} names")
    return findings


def _may_be_large(value: object) -> bool:
    """Tell cheaply whether the canonical form can be too long for a record."""
    room = INLINE_BYTES
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            room -= _LONGEST_ESCAPE * len(item) + 3
        elif isinstance(item, dict):
            room -= 3
            pending += item
            pending += item.values()
        elif isinstance(item, list | tuple):
            room -= 3
            pending += item
        else:
            room -= _LONGEST_NUMBER
        if room < 0:
            return True
    return False

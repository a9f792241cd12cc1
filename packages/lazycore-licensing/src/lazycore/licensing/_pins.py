"""Compare the files of a checkpoint with what its entry pins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.licensing import _hashes
from lazycore.licensing._errors import HashMismatchError
from lazycore.licensing._weights import weight_files

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lazycore.licensing._hashes import HashCache
    from lazycore.licensing._models import ModelLicenseEntry


def check_files(
    entry: ModelLicenseEntry,
    path: str | os.PathLike[str] | None,
    files: Mapping[str, str] | None,
    *,
    strict: bool,
    cache: HashCache | None,
) -> None:
    """Compare the files of a checkpoint with the pins of its entry.

    Args:
        entry: The reviewed checkpoint.
        path: Its folder; every pinned file is hashed there.
        files: Path -> SHA-256 as the caller computed it.
        strict: Every pin must be compared and every file of weights pinned.
        cache: Where hashes are remembered.

    Raises:
        HashMismatchError: A file is missing, differs, or was not compared.
    """
    pins = dict(entry.files)
    if path is not None:
        _check_folder(path, pins, entry.model_id, cache)
    for file, digest in (files or {}).items():
        if file in pins and not _hashes.equal(pins[file], digest):
            raise HashMismatchError(
                f"{entry.model_id}: {file} has other bytes than its pin"
            )
    unseen = sorted(set(pins) - set(files or ())) if path is None else []
    if unseen and (strict or files is not None):
        raise HashMismatchError(
            f"{entry.model_id}: nobody compared the pinned file {unseen[0]}; pass "
            "path= or its hash in files="
        )
    if strict and path is not None and pins:
        loose = [file for file in weight_files(path) if file not in pins]
        if loose:
            raise HashMismatchError(
                f"{entry.model_id}: {loose[0]} holds weights and has no pin; a loader "
                "may prefer it: pin it or remove it"
            )


def _check_folder(
    folder: str | os.PathLike[str],
    pins: Mapping[str, str],
    name: str,
    cache: HashCache | None,
) -> None:
    for relative, digest in sorted(pins.items()):
        place = Path(folder, relative)
        try:
            found = _hashes.sha256_of(place) if cache is None else cache.sha256(place)
        except OSError as error:
            raise HashMismatchError(
                f"{name}: pinned file {relative} can't be read: {error.strerror}"
            ) from error
        if not _hashes.equal(found, digest):
            raise HashMismatchError(f"{name}: {relative} has other bytes than its pin")

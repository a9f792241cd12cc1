"""Hash the files of a model and compare them with their pins."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.licensing._errors import HashMismatchError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file as 64 hex digits, read in blocks."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def equal(first: str, second: str) -> bool:
    """Compare two digests without regard to a ``sha256:`` prefix and case."""
    return hmac.compare_digest(
        first.removeprefix("sha256:").lower().encode(),
        second.removeprefix("sha256:").lower().encode(),
    )


def check_folder(
    folder: str | os.PathLike[str], pins: Mapping[str, str], name: str
) -> None:
    """Hash every pinned file below a folder.

    Raises:
        HashMismatchError: A file is missing or differs.
    """
    for relative, digest in sorted(pins.items()):
        try:
            found = sha256_of(Path(folder, relative))
        except OSError as error:
            raise HashMismatchError(
                f"{name}: pinned file {relative} can't be read: {error.strerror}"
            ) from error
        if not equal(found, digest):
            raise HashMismatchError(f"{name}: {relative} has other bytes than its pin")

"""Find and hash many files: an environment has tens of thousands.

Names are plain strings here: making a path object costs more than hashing a small
file.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lazycore.experiments._errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

__all__ = ["hash_file", "hash_files", "hash_tree"]

_WHOLE = 1 << 24  # a larger file is read in pieces
_CHUNK = 64  # files between two reports of progress


def hash_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's content.

    Raises:
        ArtifactError: The file can't be read.
    """
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            if os.fstat(file.fileno()).st_size > _WHOLE:
                return hashlib.file_digest(file, "sha256").hexdigest()
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise ArtifactError(f"{os.fspath(path)}: {error.strerror}") from error


def hash_tree(
    root: str | os.PathLike[str],
    *,
    skipped: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, str]:
    """Return POSIX name and SHA-256 of every file below a folder, folder by folder.

    A link to a file counts as the file. A link to a folder is not followed: it stands
    as ``link:`` and where it leads, so that turning it elsewhere shows.

    Args:
        root: The folder.
        skipped: Names of folders left out wherever they lie.
        progress: Called with files done and files in all.

    Raises:
        ArtifactError: A file can't be read.
    """
    top = os.fspath(root)
    found = dict(_walk(top, frozenset(skipped)))
    names = [name for name, link in found.items() if not link]
    hashes = hash_files([f"{top}/{name}" for name in names], progress=progress)
    found.update(zip(names, hashes, strict=True))
    return found


def hash_files(
    paths: Sequence[str], *, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """Return the SHA-256 of each file; several are read at once.

    Raises:
        ArtifactError: A file can't be read.
    """
    chunks = [paths[at : at + _CHUNK] for at in range(0, len(paths), _CHUNK)]
    hashes: list[str] = []
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        for values in pool.map(lambda chunk: [*map(hash_file, chunk)], chunks):
            hashes += values
            if progress is not None:
                progress(len(hashes), len(paths))
    return hashes


def _walk(top: str, skipped: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield each file's name below the folder, and where a link to a folder leads."""
    folders = [""]
    while folders:
        prefix = folders.pop()
        below = []
        with os.scandir(f"{top}/{prefix}") as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                name = prefix + entry.name
                if entry.is_dir():
                    if entry.name in skipped:
                        continue
                    if entry.is_symlink():
                        yield name, f"link:{os.readlink(entry.path)}"  # noqa: PTH115
                    else:
                        below.append(f"{name}/")
                elif entry.is_file():
                    yield name, ""
        folders += reversed(below)

"""Hash large files, and remember what was hashed."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import stat
import time
from pathlib import Path
from typing import Final

from lazycore.licensing._errors import ReaderError

MAX_CACHE_BYTES: Final = 16 * 1024 * 1024
# A file that was written this recently may change again within one tick of its clock.
SETTLED_S: Final = 2.0
_DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")


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


class HashCache:
    """Hashes by device, inode, size and both times, kept in a file.

    Weights of many gigabytes are then hashed once and not at every start. Whoever
    can write the cache can make any file look reviewed, so a cache that others may
    write is refused. A cache that can't be written is no error: hashing repeats.

    Args:
        path: The file, JSON; it need not exist.

    Raises:
        ReaderError: It belongs to another user, or others may write it.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cache = HashCache(folder + "/hashes.json")
        ...     _ = Path(folder, "weights").write_bytes(b"")
        ...     cache.sha256(folder + "/weights")[:8]
        'e3b0c442'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._known: dict[str, str] = {}
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return
        if os.name == "posix":
            _check_owner(self.path, state)
        if state.st_size <= MAX_CACHE_BYTES:
            self._known = _read(self.path)

    def sha256(self, path: str | os.PathLike[str]) -> str:
        """Return the SHA-256 of a file, hashed now or remembered."""
        key = _key(Path(path).stat())
        if key in self._known:
            return self._known[key]
        digest = sha256_of(path)
        after = Path(path).stat()
        age = time.time() - max(after.st_mtime, after.st_ctime)
        if _key(after) == key and age > SETTLED_S:
            self._known[key] = digest
            self._write()
        return digest

    def _write(self) -> None:
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            fresh.touch(mode=0o600, exist_ok=False)
            fresh.write_text(json.dumps(self._known, sort_keys=True), "ascii")
            fresh.replace(self.path)
        except OSError:
            fresh.unlink(missing_ok=True)


def _check_owner(path: Path, state: os.stat_result) -> None:
    if state.st_uid != os.geteuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ReaderError(
            f"{path}: a hash cache must be yours and writable by you alone; "
            f"run chmod 600, or remove it"
        )


def _key(state: os.stat_result) -> str:
    times = f"{state.st_mtime_ns}:{state.st_ctime_ns}"
    return f"{state.st_dev}:{state.st_ino}:{state.st_size}:{times}"


def _read(path: Path) -> dict[str, str]:
    """Return what a cache holds; a damaged one holds nothing."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    rows = found.items() if isinstance(found, dict) else ()
    return {k: v for k, v in rows if isinstance(v, str) and _DIGEST.match(v)}

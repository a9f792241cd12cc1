"""Remember the content of files whose times need not show that it changed.

A file's times tell a change unless it is written through a shared mapping where the
file system keeps no times for that (tmpfs), or within the same tick of the kernel's
clock as the times that are known. Of such files a digest is kept.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lazycore.sandbox._workspace_tree import Entry, Tree

# File systems that set the times of a file when a mapped page is first written.
_STAMPING: Final = frozenset({"btrfs", "ext4", "f2fs", "xfs"})
# The kernel's clock for times of files ticks every 1 to 10 ms.
_TICK_NS: Final = 50_000_000
_BLOCK: Final = 1 << 16
_ZEROS: Final = bytes(_BLOCK)


def with_digests(root: str, tree: Tree) -> Tree:
    """Add digests to the entries of `root` whose stamps may miss a later change."""
    times = [entry.stamp[2] for entry in tree.values()]
    settled = max(times, default=0) - _TICK_NS if _file_system(root) in _STAMPING else 0
    return {
        path: _with_digest(os.path.join(root, path), entry)
        if entry.kind == "file" and entry.stamp[2] > settled
        else entry
        for path, entry in tree.items()
    }


def _with_digest(full: str, entry: Entry) -> Entry:
    return dataclasses.replace(entry, digest=digest_of(full))


def digest_of(path: str) -> bytes:
    """Return a digest of a file's bytes; holes, and blocks of zeros, cost nothing."""
    digest = hashlib.blake2b(digest_size=32)
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        at, size = 0, os.fstat(fd).st_size
        digest.update(size.to_bytes(8, "big"))
        while at < size:
            try:
                data = os.lseek(fd, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # lseek(2): a hole up to the end
                    break
                raise
            at = data - data % _BLOCK
            block = os.pread(fd, _BLOCK, at)
            if block != _ZEROS[: len(block)]:
                digest.update(at.to_bytes(8, "big") + block)
            at += _BLOCK
    finally:
        os.close(fd)
    return digest.digest()


def _file_system(path: str) -> str | None:
    """Return the type of the file system that holds `path`, None where unknown."""
    found, depth = None, -1
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in lines:
        before, _, after = line.partition(b" - ")
        place = os.fsdecode(re.sub(rb"\\([0-7]{3})", _unescaped, before.split()[4]))
        # The last mount of a place covers the earlier ones.
        if len(place) >= depth and os.path.commonpath((place, path)) == place:
            found, depth = os.fsdecode(after.split()[0]), len(place)
    return found


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 8),))

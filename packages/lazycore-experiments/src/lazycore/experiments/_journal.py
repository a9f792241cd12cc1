"""The run's only truth: a hash-chained JSONL file with one writer.

Each line is canonical JSON of exactly ``seq``, ``prev``, ``type`` and ``body``;
``prev`` is the SHA-256 of the line before it, without its newline. A line is
written by one `write` call, so a killed process leaves at most one torn line at
the end, which the next writer cuts off. Whoever holds the lock file writes.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import canonical, sha256_hex
from lazycore.experiments._errors import CanonicalError, JournalError, RunBusyError
from lazycore.experiments._strict_json import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Self

__all__ = ["GENESIS", "Journal", "Record", "holder", "read_journal"]

GENESIS = "0" * 64
_FIELDS = {"body", "prev", "seq", "type"}
_SYNC_EVERY_S = 0.02
_LINE_LIMIT = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of a journal.

    Attributes:
        seq: Its number, from 0.
        type: ``session``, ``attempt``, ``cell`` or ``end``.
        body: Its content.
        offset: Where the line starts in the file.
        length: Bytes of the line without its newline.
    """

    seq: int
    type: str
    body: dict[str, Any]
    offset: int
    length: int


def read_journal(path: Path, *, torn_tail: bool = False) -> Iterator[Record]:
    """Read and verify a journal line by line, in constant memory.

    Args:
        path: The file.
        torn_tail: Accept one incomplete last line, as a killed writer leaves it.

    Raises:
        JournalError: A line is not canonical, out of sequence, or does not continue
            the chain; says which.
    """
    previous = GENESIS
    offset = 0
    try:
        file = path.open("rb")
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}") from error
    with file:
        for seq, line in enumerate(file):
            if not line.endswith(b"\n"):
                if torn_tail:
                    return
                raise JournalError(
                    f"{path}: record {seq} is cut off; continue the run to mend it"
                )
            data = line[:-1]
            body = _check(path, seq, data, previous)
            yield Record(
                seq=seq,
                type=body["type"],
                body=body["body"],
                offset=offset,
                length=len(data),
            )
            previous = sha256_hex(data)
            offset += len(line)


def _check(path: Path, seq: int, data: bytes, previous: str) -> dict[str, Any]:
    try:
        line = parse(data, limit_bytes=_LINE_LIMIT)
    except CanonicalError as error:
        raise JournalError(f"{path}: record {seq}: {error}") from error
    if not isinstance(line, dict) or line.keys() != _FIELDS:
        raise JournalError(f"{path}: record {seq} has not the fields of a record")
    if not isinstance(line["body"], dict) or not isinstance(line["type"], str):
        raise JournalError(f"{path}: record {seq} has fields of the wrong type")
    if line["prev"] != previous:
        raise JournalError(
            f"{path}: record {seq} does not follow record {seq - 1}: one of the two "
            "was changed"
        )
    if line["seq"] != seq:
        raise JournalError(f"{path}: record {seq} is numbered {line['seq']!r}")
    if canonical(line) != data:
        raise JournalError(f"{path}: record {seq} is not in canonical form")
    return line


class Journal:
    """The single writer of a run folder.

    Args:
        folder: The run folder; ``run.lock`` in it says who writes.
        visit: Called with each record that is already there, in order.

    Raises:
        RunBusyError: Another process writes; says its id.
        JournalError: The existing journal's chain does not hold.
    """

    def __init__(
        self, folder: Path, visit: Callable[[Record], object] | None = None
    ) -> None:
        self.path = folder / "journal.jsonl"
        self._guard = _take_lock(folder)
        try:
            self._open(visit)
        except BaseException:
            os.close(self._guard)
            raise
        self._dirty = False
        self._synced_s = time.monotonic()

    def _open(self, visit: Callable[[Record], object] | None) -> None:
        """Open for appending; cut a torn tail, show what is already there."""
        self._previous, self._seq = GENESIS, 0
        last: Record | None = None
        if self.path.exists():
            for record in read_journal(self.path, torn_tail=True):
                last = record
                self._seq += 1
                if visit is not None:
                    visit(record)
        end = last.offset + last.length + 1 if last is not None else 0
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self.path, flags, 0o644)
        if os.fstat(self._file).st_size != end:
            os.ftruncate(self._file, end)
            os.fsync(self._file)
        if last is not None:
            self._previous = sha256_hex(os.pread(self._file, last.length, last.offset))

    def append(self, kind: str, body: dict[str, Any]) -> None:
        """Write one record; it survives a killed process at once, power loss soon.

        Raises:
            OSError: The disk is full or failed; the torn line is cut off again.
        """
        line = canonical(
            {"seq": self._seq, "prev": self._previous, "type": kind, "body": body}
        )
        start = os.fstat(self._file).st_size
        view = memoryview(line + b"\n")
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            os.ftruncate(self._file, start)
            raise
        self._previous = sha256_hex(line)
        self._seq += 1
        self._dirty = True
        if time.monotonic() - self._synced_s >= _SYNC_EVERY_S:
            self.sync()

    def sync(self) -> None:
        """Flush what was appended to the disk, once for all of it."""
        if self._dirty:
            os.fdatasync(self._file)
            self._dirty = False
        self._synced_s = time.monotonic()

    def close(self) -> None:
        """Flush, close and give the run folder free."""
        if self._guard < 0:
            return
        try:
            self.sync()
        finally:
            os.close(self._file)
            os.close(self._guard)
            self._guard = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def holder(folder: Path) -> int | None:
    """Return the id of the process that writes a run folder now, or None.

    Only asks: a writer that starts at this moment is not kept out.
    """
    try:
        guard = os.open(folder / "run.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(guard, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(guard, 64, 0).decode(errors="replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(guard)
    return None


def _take_lock(folder: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    guard = os.open(folder / "run.lock", flags, 0o644)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(guard, 64, 0).decode(errors="replace").strip()
        os.close(guard)
        who = f"process {holder}" if holder.isdigit() else "another process"
        raise RunBusyError(
            f"{folder}: {who} is running this study here; wait for it or choose "
            "another folder"
        ) from error
    os.ftruncate(guard, 0)
    os.pwrite(guard, f"{os.getpid()}\n".encode(), 0)
    return guard

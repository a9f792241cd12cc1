"""Record acceptances of model terms in a hash-chained JSON Lines file."""

from __future__ import annotations

import datetime as dt
import errno
import fcntl
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.licensing import _tool
from lazycore.licensing._decision import Usage
from lazycore.licensing._errors import (
    ReceiptError,
    RestrictedLicenseNotAcceptedError,
    TermsChangedError,
)
from lazycore.licensing._model_ids import parse_model_id

if TYPE_CHECKING:
    from io import FileIO

    from lazycore.licensing._models import ModelLicenseEntry

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Who accepted which terms of which model for which usage, and when.

    Attributes:
        model_id: Model id as listed.
        revision: Revision as listed; None for an entry that pins none.
        license: SPDX expression of the terms.
        terms_sha256: Hash of the terms that were accepted; None when not pinned.
        tier: Tier at the time.
        usage: What it was accepted for.
        accepted_by: The person or role that accepts.
        accepted_at: UTC time, ISO 8601.
        tool: Name and version of the writer.
        previous: Hash of the receipt before it.

    Examples:
        >>> Receipt(
        ...     model_id="hf:org/x",
        ...     revision=None,
        ...     license="CC-BY-NC-4.0",
        ...     terms_sha256=None,
        ...     tier=2,
        ...     usage=Usage.WEIGHTS_RESEARCH,
        ...     accepted_by="ada",
        ...     accepted_at="2026-12-01T00:00:00+00:00",
        ...     tool="by hand",
        ... ).previous == "0" * 64
        True
    """

    model_id: str
    revision: str | None
    license: str
    terms_sha256: str | None
    tier: int
    usage: Usage
    accepted_by: str
    accepted_at: str
    tool: str
    previous: str = GENESIS

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON form; the next receipt names it."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the canonical JSON form: sorted keys, ASCII, no spaces."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    def covers(self, entry: ModelLicenseEntry, *, usage: Usage | str | None) -> None:
        """Return when the receipt accepts what the entry says today.

        Raises:
            TermsChangedError: Licence, terms hash, revision or tier differ.
            RestrictedLicenseNotAcceptedError: Another model or another usage.
        """
        if parse_model_id(self.model_id).key != parse_model_id(entry.model_id).key:
            raise RestrictedLicenseNotAcceptedError(
                f"the receipt is for {self.model_id}, not for {entry.model_id}"
            )
        if usage is None or Usage(usage) != self.usage:
            raise RestrictedLicenseNotAcceptedError(
                f"{entry.model_id}: the receipt is for {self.usage}, asked was "
                f"{usage or 'no usage'}: pass usage= and record that usage"
            )
        facts = (entry.revision, entry.license, entry.terms_sha256, int(entry.tier))
        if (self.revision, self.license, self.terms_sha256, self.tier) != facts:
            raise TermsChangedError(
                f"{entry.model_id}: revision, licence, terms or tier changed since "
                f"{self.accepted_at}: read the terms and record a new acceptance"
            )


class ReceiptLog:
    """An append-only file of receipts; each one names the hash of the one before.

    A changed, removed or reordered line breaks the chain. The chain shows damage
    and careless edits; it is no signature: who can write the file can rewrite it.

    Examples:
        >>> import tempfile
        >>> from lazycore.licensing import ModelLicenseEntry, ModelTier, ReceiptLog
        >>> entry = ModelLicenseEntry(
        ...     model_id="org/big", license="CC-BY-NC-4.0", tier=ModelTier.RESTRICTED
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log = ReceiptLog(folder + "/receipts.jsonl")
        ...     made = log.accept(entry, usage="weights-research", by="ada")
        ...     log.find(entry, usage="weights-research") == made
        True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> tuple[Receipt, ...]:
        """Return every receipt, oldest first; none when the file is absent.

        Raises:
            ReceiptError: The chain does not hold; the line is named.
        """
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return ()
        return self._parse(raw)

    def _parse(self, raw: bytes) -> tuple[Receipt, ...]:
        receipts: list[Receipt] = []
        previous = GENESIS
        # A writer that was stopped, or is at work, leaves a line without its end:
        # that receipt was never given to anybody and grants nothing.
        whole = raw[: raw.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            receipt = self._line(line, number)
            if receipt.previous != previous or receipt.to_json().encode() != line:
                raise ReceiptError(
                    f"{self.path}:{number}: the hash chain breaks here: a line before "
                    "was changed, removed or moved; restore it from version control"
                )
            previous = receipt.digest
            receipts.append(receipt)
        return tuple(receipts)

    def _line(self, line: bytes, number: int) -> Receipt:
        try:
            fields = json.loads(line)
            fields["usage"] = Usage(fields["usage"])
            return Receipt(**fields)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ReceiptError(f"{self.path}:{number}: no receipt: {error}") from error

    def accept(
        self,
        entry: ModelLicenseEntry,
        *,
        usage: Usage | str,
        by: str,
        now: dt.datetime | None = None,
    ) -> Receipt:
        """Append a receipt under an exclusive lock and return it.

        Raises:
            ReceiptError: The file is damaged; nothing is written.
            ValueError: ``by`` is empty.
        """
        if not by.strip():
            message = "a receipt names who accepts: by is empty"
            raise ValueError(message)
        moment = (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)
        with self.path.open("ab+", buffering=0) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.seek(0)
            raw = stream.read()
            known = self._parse(raw)
            stream.truncate(raw.rfind(b"\n") + 1)
            receipt = Receipt(
                model_id=entry.model_id,
                revision=entry.revision,
                license=entry.license,
                terms_sha256=entry.terms_sha256,
                tier=int(entry.tier),
                usage=Usage(usage),
                accepted_by=by.strip(),
                accepted_at=moment.isoformat(timespec="seconds"),
                tool=f"{_tool.NAME}/{_tool.version()}",
                previous=known[-1].digest if known else GENESIS,
            )
            _append(stream, receipt)
        return receipt

    def find(self, entry: ModelLicenseEntry, *, usage: Usage | str) -> Receipt | None:
        """Return the newest receipt for a model and usage, valid or not."""
        return next(
            (
                receipt
                for receipt in reversed(self.read())
                if parse_model_id(receipt.model_id).key
                == parse_model_id(entry.model_id).key
                and receipt.usage == usage
            ),
            None,
        )


def _append(stream: FileIO, receipt: Receipt) -> None:
    """Write one whole line or none: a full disk must not leave half a receipt.

    The stream has no buffer, or closing it would write the rest once more.
    """
    line = receipt.to_json().encode() + b"\n"
    end = stream.seek(0, os.SEEK_END)
    try:
        _write_whole(stream, line)
        os.fsync(stream.fileno())
    except OSError:
        stream.truncate(end)
        raise


def _write_whole(stream: FileIO, line: bytes) -> None:
    if stream.write(line) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), stream.name)

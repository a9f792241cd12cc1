"""Decide whether a model checkpoint may be loaded."""

from __future__ import annotations

import datetime as dt
import threading
from typing import TYPE_CHECKING

from lazycore.licensing._acceptance import check_acceptance
from lazycore.licensing._allowlist_table import Table
from lazycore.licensing._errors import (
    AllowlistFormatError,
    ModelNotAllowedError,
    RevisionMismatchError,
)
from lazycore.licensing._model_ids import is_commit, parse_model_id
from lazycore.licensing._models import ModelLicenseEntry, ModelTier
from lazycore.licensing._pins import check_files

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Literal

    from lazycore.licensing._decision import Usage
    from lazycore.licensing._hashes import HashCache
    from lazycore.licensing._model_ids import ModelId
    from lazycore.licensing._receipts import Receipt


class Allowlist:
    """The checkpoints that a module admits. It starts empty and admits nothing.

    Reading takes no lock and sees whole states only; `add` replaces the table.

    Args:
        entries: Reviewed checkpoints, one entry for each id and revision.

    Raises:
        AllowlistFormatError: If two entries name one checkpoint, letter case aside.

    Examples:
        >>> from lazycore.licensing import ModelLicenseEntry
        >>> models = Allowlist()
        >>> len(models)
        0
        >>> models.add(ModelLicenseEntry(model_id="org/tiny", license="MIT", tier=1))
        >>> models.check("org/tiny").license
        'MIT'
    """

    __slots__ = ("_lock", "_table")

    def __init__(self, entries: Iterable[ModelLicenseEntry] = ()) -> None:
        self._lock = threading.Lock()
        self._table = Table()
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._table.entries)

    def __iter__(self) -> Iterator[ModelLicenseEntry]:
        entries = self._table.entries
        return iter([entries[key] for key in sorted(entries)])

    def __contains__(self, model_id: object) -> bool:
        if not isinstance(model_id, str):
            return False
        try:
            return self.find(model_id) is not None
        except AllowlistFormatError:
            return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Allowlist):
            return NotImplemented
        return self._table.entries == other._table.entries

    def __hash__(self) -> int:
        raise TypeError("an Allowlist can grow, so it has no hash")

    def __repr__(self) -> str:
        return f"Allowlist({list(self)!r})"

    def add(self, entry: ModelLicenseEntry) -> None:
        """Admit one more checkpoint.

        Args:
            entry: The reviewed checkpoint.

        Raises:
            AllowlistFormatError: If the checkpoint is listed already.
        """
        if not isinstance(entry, ModelLicenseEntry):
            raise TypeError(
                f"an allowlist holds ModelLicenseEntry, got {type(entry).__name__}"
            )
        with self._lock:
            self._table = self._table.with_entry(entry)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Allowlist:
        """Read an allowlist file (TOML).

        Raises:
            AllowlistFormatError: Unknown key or wrong value, with file and line.
            OSError: The file can't be read.
        """
        from lazycore.licensing import _allowlist_file

        return cls(_allowlist_file.read(path))

    def to_toml(self) -> str:
        """Return the list as the text of an allowlist file."""
        from lazycore.licensing import _allowlist_file

        return _allowlist_file.write(self)

    @classmethod
    def merge(
        cls,
        *lists: Allowlist,
        on_conflict: Literal["raise", "restrict"] = "raise",
    ) -> Allowlist:
        """Return one list; where two speak of one checkpoint, the stricter holds.

        The result depends neither on order nor on grouping nor on repetition.

        Args:
            *lists: Any number of lists.
            on_conflict: ``raise`` on two tiers, licences, terms or origins for one id
                and revision; ``restrict`` keeps the stricter of each fact.

        Raises:
            TierConflictError: A conflict under ``raise``.
        """
        from lazycore.licensing import _merge

        entries = [entry for one in lists for entry in one]
        return cls(_merge.merged(entries, restrict=on_conflict == "restrict"))

    def find(
        self, model_id: str, revision: str | None = None
    ) -> ModelLicenseEntry | None:
        """Return the most specific entry, or None; a denial beats every other.

        Raises:
            AllowlistFormatError: ``model_id`` is not a model id.
        """
        name = parse_model_id(model_id)
        return self._table.find(name.key, revision or name.revision)

    def effective_tier(self, entry: ModelLicenseEntry) -> ModelTier:
        """Return the strictest tier among an entry and everything it comes from.

        Listed bases, the origin of a mirror and entries with the same file bytes
        count, through any number of steps.
        """
        return self._table.effective_tier(entry)

    def unknown_bases(self, entry: ModelLicenseEntry) -> tuple[str, ...]:
        """Return the bases of an entry that this list says nothing about."""
        return tuple(name for name in entry.base_models if self.find(name) is None)

    def check(
        self,
        model_id: str,
        revision: str | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        files: Mapping[str, str] | None = None,
        usage: Usage | str | None = None,
        accept_restricted_licenses: bool | Collection[str] | Mapping[str, str] = False,
        receipt: Receipt | None = None,
        strict: bool = False,
        hash_cache: HashCache | None = None,
        today: dt.date | None = None,
    ) -> ModelLicenseEntry:
        """Return the entry of a checkpoint that may be used, or raise. Never prompts.

        Args:
            model_id: ``org/name``, ``hf:org/name`` or ``org/name@revision``.
            revision: Commit that will be loaded; compared with the pin.
            path: Folder of the model; pinned files are hashed there.
            files: Path -> sha256 that the caller computed; compared with the pins.
            usage: What it is loaded for; compared with the entry's usages.
            accept_restricted_licenses: True accepts Tier 2 terms as listed. The
                stricter forms are a collection of the ``terms_sha256`` accepted, and
                a mapping of model ids to prefixes of it, see `accepted_terms`.
            receipt: A recorded acceptance, instead of the flag.
            strict: Refuse moving revisions, bases that are not listed, pins that
                nobody compared, and weights in ``path`` without a pin.
            hash_cache: Where to remember hashes of files in ``path``.
            today: For expiry; the current UTC day when None.

        Raises:
            ModelNotAllowedError: Not listed, denied, expired or for other usages.
            RestrictedLicenseNotAcceptedError: Tier 2 without an acceptance.
            TermsChangedError: The acceptance is for other terms.
            RevisionMismatchError: Another revision than the pin, or a moving one
                under ``strict``.
            HashMismatchError: A pinned file is missing or differs; under ``strict``
                also a pin that nobody compared.
        """
        name = parse_model_id(model_id)
        if revision is not None and name.revision not in {None, revision}:
            raise RevisionMismatchError(
                f"{name} and revision={revision!r} disagree; give one"
            )
        wanted = revision or name.revision
        entry = self._admitted(name, wanted, usage, today)
        if strict:
            self._check_strict(entry, wanted)
        check_files(entry, path, files, strict=strict, cache=hash_cache)
        entries = [entry, *self._table.same_bytes((files or {}).values())]
        if any(other.deny for other in entries):
            raise ModelNotAllowedError(
                f"{entry.model_id} has the bytes of a denied checkpoint"
            )
        tier = max(self.effective_tier(item) for item in entries)
        if tier is ModelTier.RESTRICTED:
            check_acceptance(entry, accept_restricted_licenses, receipt, usage)
        return entry

    def _admitted(
        self,
        name: ModelId,
        revision: str | None,
        usage: Usage | str | None,
        today: dt.date | None,
    ) -> ModelLicenseEntry:
        entry = self._table.find(name.key, revision)
        if entry is None:
            pins = self._table.revisions(name.key)
            if pins:
                raise RevisionMismatchError(
                    f"{name} was reviewed at {', '.join(pins)}, not at "
                    f"{revision or 'an unnamed revision'}; load that commit and pass "
                    "it as revision"
                )
            raise ModelNotAllowedError(
                f"{name} is not in the allowlist of {len(self)} models; review its "
                "licence and add a ModelLicenseEntry"
            )
        if entry.deny:
            raise ModelNotAllowedError(
                f"{name} is denied by {entry.model_id} {entry.provenance}".rstrip()
            )
        day = today or dt.datetime.now(dt.UTC).date()
        if entry.expires is not None and day >= entry.expires:
            raise ModelNotAllowedError(
                f"{entry.model_id}: the entry expired on {entry.expires}; review its "
                "terms again"
            )
        if usage is not None and entry.usages and usage not in entry.usages:
            listed = ", ".join(entry.usages)
            raise ModelNotAllowedError(
                f"{entry.model_id} is listed for {listed}, not for {usage}"
            )
        return entry

    def _check_strict(self, entry: ModelLicenseEntry, revision: str | None) -> None:
        if not is_commit(revision):
            raise RevisionMismatchError(
                f"{entry.model_id}: {revision or 'an unnamed revision'} can move; pass "
                "the commit, 40 hexadecimal digits"
            )
        if entry.revision is None:
            raise RevisionMismatchError(
                f"{entry.model_id}: the entry pins no revision; pin the reviewed commit"
            )
        if unknown := self.unknown_bases(entry):
            raise ModelNotAllowedError(
                f"{entry.model_id}: base model {unknown[0]} is not listed; add an entry"
            )

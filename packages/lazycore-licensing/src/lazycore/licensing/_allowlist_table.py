"""Hold allowlist entries by id, revision and file hash; never changed in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazycore.licensing._errors import AllowlistFormatError
from lazycore.licensing._model_ids import parse_model_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazycore.licensing._models import ModelLicenseEntry, ModelTier


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Entries by (key, revision or empty), by key, and by file hash."""

    entries: dict[tuple[str, str], ModelLicenseEntry] = field(default_factory=dict)
    by_key: dict[str, tuple[ModelLicenseEntry, ...]] = field(default_factory=dict)
    by_hash: dict[str, tuple[ModelLicenseEntry, ...]] = field(default_factory=dict)

    def with_entry(self, entry: ModelLicenseEntry) -> Table:
        """Return a table that also holds ``entry``."""
        key = entry.key
        for other in self.by_key.get(key, ()):
            if other.revision == entry.revision:
                raise AllowlistFormatError(
                    f"{entry.model_id} is listed already as {other.model_id}; keep "
                    "one entry"
                )
            if other.model_id != entry.model_id:
                raise AllowlistFormatError(
                    f"{entry.model_id} and {other.model_id} differ only in case; "
                    "write one form"
                )
        by_hash = dict(self.by_hash)
        for _, digest in entry.files:
            by_hash[digest] = (*by_hash.get(digest, ()), entry)
        return Table(
            entries={**self.entries, (key, entry.revision or ""): entry},
            by_key={**self.by_key, key: (*self.by_key.get(key, ()), entry)},
            by_hash=by_hash,
        )

    def revisions(self, key: str) -> list[str]:
        """Return the pinned revisions of an id."""
        return sorted(e.revision for e in self.by_key.get(key, ()) if e.revision)

    def find(self, key: str, revision: str | None) -> ModelLicenseEntry | None:
        """Return the most specific entry; a denial beats every other."""
        found = [
            self.entries[key, wanted]
            for wanted in dict.fromkeys((revision or "", ""))
            if (key, wanted) in self.entries
        ]
        prefix = key
        while "/" in prefix:
            prefix = prefix.rpartition("/")[0]
            found += self.by_key.get(f"{prefix}/*", ())
        denied = next((entry for entry in found if entry.deny), None)
        if denied is not None or not found:
            return denied
        # A wildcard must not admit another revision of an id that is pinned.
        if found[0].is_wildcard and key in self.by_key:
            return None
        return found[0]

    def same_bytes(self, digests: Iterable[str]) -> list[ModelLicenseEntry]:
        """Return every entry that pins a file with one of these hashes."""
        return [
            entry
            for digest in digests
            for entry in self.by_hash.get(digest.removeprefix("sha256:").lower(), ())
        ]

    def effective_tier(self, entry: ModelLicenseEntry) -> ModelTier:
        """Return the strictest tier of an entry and of all that it comes from."""
        tier, seen, work = entry.tier, {entry}, [entry]
        while work:
            for origin in self._origins(work.pop()):
                if origin not in seen:
                    seen.add(origin)
                    tier = max(tier, origin.tier)
                    work.append(origin)
        return tier

    def _origins(self, entry: ModelLicenseEntry) -> list[ModelLicenseEntry]:
        origins = self.same_bytes(digest for _, digest in entry.files)
        for text in (*entry.base_models, entry.mirror_of):
            if text is None:
                continue
            name = parse_model_id(text)
            found = self.find(name.key, name.revision)
            # A base named without its commit may be any of those listed.
            origins += [found] if found else self.by_key.get(name.key, ())
        return origins

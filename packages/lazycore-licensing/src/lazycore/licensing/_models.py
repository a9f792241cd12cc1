"""Model checkpoints: tiers, allowlists and the gate in front of Tier 2."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from lazycore.licensing._assess import assess
from lazycore.licensing._decision import Usage, Verdict
from lazycore.licensing._errors import (
    AllowlistFormatError,
    ExpressionError,
    ModelNotAllowedError,
    RestrictedLicenseNotAcceptedError,
    RevisionMismatchError,
)
from lazycore.licensing._expression import parse
from lazycore.licensing._model_ids import is_commit, parse_model_id

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator


class ModelTier(IntEnum):
    """How freely a checkpoint may be used.

    Examples:
        >>> ModelTier(2).name
        'RESTRICTED'
    """

    PERMISSIVE = 1
    """Usable at once."""
    RESTRICTED = 2
    """Usable only after its licence was accepted, explicitly and by the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLicenseEntry:
    """One reviewed checkpoint.

    Attributes:
        model_id: ``namespace/name`` or ``registry:namespace/name``; a revision
            belongs into `revision`.
        license: SPDX expression; a licence outside the SPDX list is written as
            ``LicenseRef-...``.
        tier: PERMISSIVE or RESTRICTED.
        revision: The reviewed commit, 40 hexadecimal digits; None admits any.
        conditions: What the licence asks for, one sentence each.
        terms_url: Where the terms are.
        reviewed_by: Who reviewed it.
        reviewed_on: When.

    Raises:
        AllowlistFormatError: If a field is malformed, or the tier is milder than the
            licence: PERMISSIVE needs a licence that the isolation policy allows for
            weights in commercial use.

    Examples:
        >>> ModelLicenseEntry(
        ...     model_id="org/tiny", license="apache-2.0", tier=ModelTier.PERMISSIVE
        ... ).license
        'Apache-2.0'
    """

    model_id: str
    license: str
    tier: ModelTier
    revision: str | None = None
    conditions: tuple[str, ...] = ()
    terms_url: str | None = None
    reviewed_by: str | None = None
    reviewed_on: dt.date | None = None

    def __post_init__(self) -> None:
        name = parse_model_id(self.model_id)
        if name.revision is not None:
            raise AllowlistFormatError(
                f"model id {self.model_id!r} holds a revision; give it as "
                f"revision={name.revision!r}"
            )
        try:
            expression = parse(self.license)
        except ExpressionError as error:
            raise AllowlistFormatError(f"{name}: {error}") from error
        try:
            tier = ModelTier(self.tier)
        except ValueError:
            raise AllowlistFormatError(
                f"{name}: tier must be 1 or 2, got {self.tier!r}"
            ) from None
        conditions: object = self.conditions
        if isinstance(conditions, str):
            raise AllowlistFormatError(f"{name}: conditions is a list of sentences")
        if self.revision is not None and not is_commit(self.revision):
            raise AllowlistFormatError(
                f"{name}: revision {self.revision!r} can move; pin the commit, 40 "
                "hexadecimal digits, or leave it out to admit any"
            )
        if tier is ModelTier.PERMISSIVE:
            found = assess(expression, usage=Usage.WEIGHTS_COMMERCIAL)
            if found.verdict is not Verdict.ALLOW:
                raise AllowlistFormatError(
                    f"{name}: {expression} is {found.license_class.slug}, which tier 1 "
                    "does not admit; list it with tier=ModelTier.RESTRICTED"
                )
        object.__setattr__(self, "model_id", str(name))
        object.__setattr__(self, "license", str(expression))
        object.__setattr__(self, "tier", tier)
        object.__setattr__(self, "conditions", tuple(self.conditions))


class Allowlist:
    """The checkpoints that a module admits. It starts empty and admits nothing.

    Reading takes no lock and sees whole states only; `add` replaces the table.

    Args:
        entries: Reviewed checkpoints.

    Raises:
        AllowlistFormatError: If two entries name one checkpoint, letter case aside.

    Examples:
        >>> models = Allowlist()
        >>> len(models)
        0
        >>> models.add(ModelLicenseEntry(model_id="org/tiny", license="MIT", tier=1))
        >>> models.check("org/tiny").license
        'MIT'
    """

    __slots__ = ("_entries", "_lock")

    def __init__(self, entries: Iterable[ModelLicenseEntry] = ()) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, ModelLicenseEntry] = {}
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ModelLicenseEntry]:
        return iter(self._entries.values())

    def __contains__(self, model_id: object) -> bool:
        if not isinstance(model_id, str):
            return False
        try:
            return parse_model_id(model_id).key in self._entries
        except AllowlistFormatError:
            return False

    def __repr__(self) -> str:
        return f"Allowlist({list(self._entries.values())!r})"

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
        key = parse_model_id(entry.model_id).key
        with self._lock:
            if key in self._entries:
                raise AllowlistFormatError(
                    f"{entry.model_id} is listed already as "
                    f"{self._entries[key].model_id}; keep one entry"
                )
            self._entries = {**self._entries, key: entry}

    def check(
        self,
        model_id: str,
        revision: str | None = None,
        *,
        accept_restricted_licenses: bool = False,
    ) -> ModelLicenseEntry:
        """Return the entry of a checkpoint that may be used, or raise. Never prompts.

        Args:
            model_id: The checkpoint, with or without ``@revision``.
            revision: The revision that will be loaded; needed where the entry pins
                one.
            accept_restricted_licenses: Exactly True to accept the licence of a
                Tier 2 checkpoint.

        Returns:
            The reviewed entry.

        Raises:
            ModelNotAllowedError: If nobody reviewed the checkpoint.
            RevisionMismatchError: If another revision was reviewed.
            RestrictedLicenseNotAcceptedError: If it is Tier 2 and not accepted; the
                message holds the licence, its conditions and the call that accepts.
            AllowlistFormatError: If the id is malformed.
        """
        name = parse_model_id(model_id)
        entry = self._entries.get(name.key)
        if entry is None:
            raise ModelNotAllowedError(
                f"{name} is not in the allowlist of {len(self)} models; review its "
                "licence and add a ModelLicenseEntry"
            )
        if revision is not None and name.revision not in {None, revision}:
            raise RevisionMismatchError(
                f"{name} and revision={revision!r} disagree; give one"
            )
        wanted = revision or name.revision
        if entry.revision is not None and wanted != entry.revision:
            raise RevisionMismatchError(
                f"{entry.model_id} was reviewed at {entry.revision}, not at "
                f"{wanted or 'an unnamed revision'}; load that commit and pass it as "
                "revision"
            )
        # Truthy is not enough: `"false"` from a configuration file is truthy.
        if (
            entry.tier is ModelTier.RESTRICTED
            and accept_restricted_licenses is not True
        ):
            raise RestrictedLicenseNotAcceptedError(_refusal(entry))
        return entry


def _refusal(entry: ModelLicenseEntry) -> str:
    lines = [
        f"{entry.model_id} is under {entry.license} (tier 2), which is not accepted."
    ]
    lines += [f"  condition: {text}" for text in entry.conditions]
    if entry.terms_url:
        lines.append(f"  terms: {entry.terms_url}")
    lines.append(
        f"  to accept: allowlist.check({entry.model_id!r}, "
        "accept_restricted_licenses=True)"
    )
    return "\n".join(lines)

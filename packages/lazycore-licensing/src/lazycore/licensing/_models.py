"""Describe one reviewed model checkpoint: licence, tier, pins and conditions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from lazycore.licensing._assess import assess
from lazycore.licensing._decision import Usage, Verdict
from lazycore.licensing._errors import AllowlistFormatError, ExpressionError
from lazycore.licensing._expression import parse
from lazycore.licensing._model_ids import is_commit, parse_model_id

if TYPE_CHECKING:
    import datetime as dt

    from lazycore.licensing._expression import Expression

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
COMMERCIAL: Final = ("yes", "conditional", "unknown", "no")


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
            belongs into `revision`. ``hf:org/*`` covers a namespace (Tier 1 or a
            denial only, without pins).
        license: SPDX expression; a licence outside the SPDX list is written as
            ``LicenseRef-...``.
        tier: PERMISSIVE or RESTRICTED.
        revision: The reviewed commit, 40 hexadecimal digits; None admits any.
        conditions: What the licence asks for, one sentence each.
        terms_url: Where the terms are.
        terms_sha256: SHA-256 of the licence text that was read, 64 hex digits.
        commercial: ``yes``, ``conditional``, ``unknown`` or ``no``.
        base_models: What it was made from; ``@revision`` may follow each id.
        mirror_of: The id whose bytes it repeats.
        files: (path, SHA-256) pairs of files that are pinned; kept sorted.
        usages: Uses it is listed for; empty means every use.
        deny: Refuse it, whatever else lists it.
        reviewed_by: Who reviewed it.
        reviewed_on: When.
        expires: From this day on it admits nothing.
        provenance: File and line it was read from.

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
    terms_sha256: str | None = None
    commercial: str = "unknown"
    base_models: tuple[str, ...] = ()
    mirror_of: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    usages: tuple[Usage, ...] = ()
    deny: bool = False
    expires: dt.date | None = None
    provenance: str = ""

    def __post_init__(self) -> None:
        name = parse_model_id(self.model_id)
        if name.revision is not None:
            raise AllowlistFormatError(
                f"model id {self.model_id!r} holds a revision; give it as "
                f"revision={name.revision!r}"
            )
        if "*" in name.name and not re.fullmatch(r"[^*/]+(/[^*/]+)*/\*", name.name):
            raise AllowlistFormatError(
                f"{name}: a wildcard is a whole last segment, as in hf:org/*"
            )
        text = str(name)
        expression = _expression(self.license, text)
        tier = _tier(self.tier, text)
        conditions: object = self.conditions
        if isinstance(conditions, str):
            raise AllowlistFormatError(f"{name}: conditions is a list of sentences")
        if self.revision is not None and not is_commit(self.revision):
            raise AllowlistFormatError(
                f"{name}: revision {self.revision!r} can move; pin the commit, 40 "
                "hexadecimal digits, or leave it out to admit any"
            )
        if not self.deny:
            _check_tier(tier, expression, text)
        _check_facts(self, text)
        for base in (*self.base_models, *([self.mirror_of] if self.mirror_of else ())):
            parse_model_id(base)
        files = {(path, digest.removeprefix("sha256:")) for path, digest in self.files}
        object.__setattr__(self, "model_id", text)
        object.__setattr__(self, "license", str(expression))
        object.__setattr__(self, "tier", tier)
        object.__setattr__(self, "conditions", tuple(self.conditions))
        object.__setattr__(self, "base_models", tuple(sorted(set(self.base_models))))
        object.__setattr__(self, "files", tuple(sorted(files)))
        # A denial holds for every use, so naming some would read as a gap.
        usages = set() if self.deny else {Usage(usage) for usage in self.usages}
        object.__setattr__(self, "usages", tuple(sorted(usages)))

    @property
    def key(self) -> str:
        """What ids are compared by: casefolded, without the revision."""
        return parse_model_id(self.model_id).key

    @property
    def is_wildcard(self) -> bool:
        """Whether the entry covers a whole namespace."""
        return self.model_id.endswith("/*")


def _expression(text: str, name: str) -> Expression:
    try:
        return parse(text)
    except ExpressionError as error:
        raise AllowlistFormatError(f"{name}: {error}") from error


def _tier(value: int, name: str) -> ModelTier:
    try:
        return ModelTier(value)
    except ValueError:
        raise AllowlistFormatError(
            f"{name}: tier must be 1 or 2, got {value!r}"
        ) from None


def _check_tier(tier: ModelTier, expression: Expression, name: str) -> None:
    if tier is not ModelTier.PERMISSIVE:
        return
    found = assess(expression, usage=Usage.WEIGHTS_COMMERCIAL)
    if found.verdict is not Verdict.ALLOW:
        raise AllowlistFormatError(
            f"{name}: {expression} is {found.license_class.slug}, which tier 1 "
            "does not admit; list it with tier=ModelTier.RESTRICTED"
        )


def _check_facts(entry: ModelLicenseEntry, name: str) -> None:
    if entry.commercial not in COMMERCIAL:
        raise AllowlistFormatError(
            f"{name}: commercial must be one of {', '.join(COMMERCIAL)}"
        )
    if entry.terms_sha256 is not None and not _SHA256.match(entry.terms_sha256):
        raise AllowlistFormatError(
            f"{name}: terms_sha256 must be 64 lower-case hexadecimal digits"
        )
    for path, digest in entry.files:
        if not _SHA256.match(digest.removeprefix("sha256:")):
            raise AllowlistFormatError(
                f"{name}: the hash of {path!r} must be sha256: and 64 hex digits"
            )
        if not path or path.startswith("/") or ".." in path.split("/"):
            raise AllowlistFormatError(f"{name}: {path!r} leaves the model's folder")
    if entry.is_wildcard:
        if entry.tier is not ModelTier.PERMISSIVE and not entry.deny:
            raise AllowlistFormatError(f"{name}: a wildcard is tier 1 or a denial")
        if entry.files or entry.terms_sha256 or entry.revision:
            raise AllowlistFormatError(f"{name}: a wildcard takes no pin and no hash")
    try:
        tuple(Usage(usage) for usage in entry.usages)
    except ValueError as error:
        raise AllowlistFormatError(f"{name}: {error}") from error

"""Say what was found about the licence of one distribution, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    """How sure a finding is.

    Examples:
        >>> Confidence.EXACT.value
        'exact'
    """

    EXACT = "exact"
    """Stated as an SPDX expression by the distribution or by the policy."""
    DERIVED = "derived"
    """Worked out from a licence text, a name or a classifier."""
    GUESS = "guess"
    """Read from prose; verify it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that was read.

    Attributes:
        kind: ``license-expression``, ``license-field``, ``license-file``,
            ``classifier``, ``readme``, ``notice`` or ``policy``.
        where: File or header.
        says: What it says: an SPDX expression, or a short quotation.

    Examples:
        >>> Evidence(kind="classifier", where="Classifier", says="MIT").says
        'MIT'
    """

    kind: str
    where: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledLicense:
    """Something of another origin that the distribution ships.

    Attributes:
        path: Where it is in the distribution.
        reason: ``shared-library``, ``nested-distribution``, ``executable``,
            ``license-file``, ``vendored`` or ``sbom``.
        expression: Its SPDX expression, None when it is not stated.

    Examples:
        >>> BundledLicense(
        ...     path="x.libs/libgfortran.so.5", reason="shared-library", expression=None
        ... ).reason
        'shared-library'
    """

    path: str
    reason: str
    expression: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LicenseFinding:
    """The licence of one distribution as far as its own files show it.

    Attributes:
        name: Distribution name.
        version: Its version; empty when unknown.
        expression: Canonical SPDX text of its own code, None when unknown.
        source: Kind of the evidence that decided; ``none`` when nothing did.
        confidence: How sure the finding is.
        evidence: Everything that was read, strongest first.
        conflicts: Sentences about evidence that disagrees.
        bundled: What else it ships.
        text_sha256: Hash of its own licence files, to notice a changed licence.
        purl: Package URL of what is no Python distribution; empty for those.

    Examples:
        >>> from lazycore.licensing import resolve
        >>> found = resolve("lazycore-licensing")
        >>> found.expression, found.source, found.confidence.value
        ('MIT', 'license-expression', 'exact')
    """

    name: str
    version: str
    expression: str | None
    source: str
    confidence: Confidence
    evidence: tuple[Evidence, ...] = ()
    conflicts: tuple[str, ...] = ()
    bundled: tuple[BundledLicense, ...] = ()
    text_sha256: str | None = None
    purl: str = ""

"""Look up what a licence tag of the Hugging Face hub means for a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lazycore.licensing._classes import LicenseClass, fact_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class HubLicense:
    """One value of the card fields ``license`` or ``license_name``.

    Attributes:
        tag: The value, lower case.
        expression: SPDX id, or a reference where SPDX has none; a tag such as
            ``gpl-3.0`` that does not say "or later" is read as ``-only``.
        license_class: What it asks for.
        commercial: ``yes``, ``no``, ``conditional``, ``unknown`` or words.
        conditions: Limits and duties in a few words each.
        default_tier: 1, 2, or None where a policy or a person must decide.
        basis: How the row was made; ``known`` rows were not read in the text.
        date: When the row was checked.
        note: A caveat.

    Examples:
        >>> row = hub_licenses()["cc-by-nc-4.0"]
        >>> row.default_tier, row.license_class.slug
        (2, 'non-commercial')
    """

    tag: str
    expression: str
    license_class: LicenseClass
    commercial: str
    conditions: tuple[str, ...]
    default_tier: int | None
    basis: str
    date: str
    note: str


@cache
def hub_licenses() -> dict[str, HubLicense]:
    """Return every known tag and name -> its meaning.

    Examples:
        >>> hub_licenses()["bsl-1.0"].license_class.slug
        'permissive'
        >>> hub_licenses()["llama3.3"].default_tier
        2
    """
    by_slug = {kind.slug: kind for kind in LicenseClass}
    by_slug["custom-conditional"] = LicenseClass.CONDITIONAL
    by_slug["ambiguous"] = LicenseClass.UNKNOWN
    found = {}
    for row in fact_rows("hf_licenses.tsv"):
        (tag, _origin, _name, expression, kind, commercial, network, limits) = row[:8]
        share, compete, threshold, _usual, tier, basis, note, date = row[8:16]
        labelled = (
            ("network", network),
            ("use", limits),
            ("share alike", share),
            ("competition", compete),
            ("threshold", threshold),
        )
        conditions = tuple(
            f"{label}: {text}"
            for label, text in labelled
            if text not in {"", "no", "unknown"}
        )
        found[tag] = HubLicense(
            tag=tag,
            expression=expression,
            license_class=by_slug[kind],
            commercial=commercial,
            conditions=conditions,
            default_tier=int(tier) if tier.isdigit() else None,
            basis=basis,
            date=date,
            note=note,
        )
    return found

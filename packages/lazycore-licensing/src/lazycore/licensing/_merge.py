"""Join two entries for one model; each field is joined by a lattice operation.

That makes merging commutative, associative and idempotent: a maximum, a union,
an intersection or "differs, so denied" never depends on order or grouping.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lazycore.licensing._errors import TierConflictError
from lazycore.licensing._expression import Conjunction, Expression, License, parse
from lazycore.licensing._models import COMMERCIAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazycore.licensing._decision import Usage
    from lazycore.licensing._models import ModelLicenseEntry


def same(first: ModelLicenseEntry, second: ModelLicenseEntry) -> bool:
    """Tell whether two entries state the same facts, wherever they were read."""
    return replace(first, provenance="") == replace(
        second, provenance="", model_id=first.model_id
    )


def merged(
    entries: Iterable[ModelLicenseEntry], *, restrict: bool
) -> list[ModelLicenseEntry]:
    """Return one entry for each id and revision.

    Ids that differ only in case are written in one form, the first by code point.

    Raises:
        TierConflictError: Two entries disagree, unless ``restrict``.
    """
    found: dict[tuple[str, str | None], ModelLicenseEntry] = {}
    shown: dict[str, str] = {}
    for entry in entries:
        key = entry.key
        shown[key] = min(shown.get(key, entry.model_id), entry.model_id)
        known = found.get((key, entry.revision))
        found[key, entry.revision] = (
            entry if known is None else join(known, entry, restrict=restrict)
        )
    return [replace(entry, model_id=shown[entry.key]) for entry in found.values()]


def join(
    first: ModelLicenseEntry, second: ModelLicenseEntry, *, restrict: bool
) -> ModelLicenseEntry:
    """Return the entry that holds the stricter of each fact.

    Raises:
        TierConflictError: Tier, licence or terms differ, unless ``restrict``.
    """
    if not restrict:
        for field in ("tier", "license", "terms_sha256", "mirror_of"):
            left, right = getattr(first, field), getattr(second, field)
            if left != right and None not in {left, right}:
                raise TierConflictError(
                    f"{first.model_id}@{first.revision}: {field} is {left} in "
                    f"{first.provenance or 'one list'} and {right} in "
                    f"{second.provenance or 'another'}; on_conflict='restrict' keeps "
                    "the stricter"
                )
    if same(first, second):
        return replace(
            first,
            model_id=min(first.model_id, second.model_id),
            provenance=_provenance(first, second),
        )
    terms = {first.terms_sha256, second.terms_sha256} - {None}
    origins = {first.mirror_of, second.mirror_of} - {None}
    usages = _usages(first, second)
    files = {*first.files, *second.files}
    clash = len({path for path, _ in files}) != len(files)
    deny = (
        first.deny
        or second.deny
        or len(terms) > 1
        or len(origins) > 1
        or clash
        or usages is None
    )
    return replace(
        first,
        model_id=min(first.model_id, second.model_id),
        license=_licenses(first.license, second.license),
        tier=max(first.tier, second.tier),
        terms_url=min(filter(None, (first.terms_url, second.terms_url)), default=None),
        terms_sha256=min(filter(None, terms), default=None),
        commercial=max(first.commercial, second.commercial, key=COMMERCIAL.index),
        conditions=_union(first.conditions, second.conditions),
        base_models=_union(first.base_models, second.base_models),
        mirror_of=min(filter(None, origins), default=None),
        files=tuple(sorted(files)),
        usages=usages or (),
        deny=deny,
        reviewed_by=min(
            filter(None, (first.reviewed_by, second.reviewed_by)), default=None
        ),
        reviewed_on=min(
            filter(None, (first.reviewed_on, second.reviewed_on)), default=None
        ),
        expires=min(filter(None, (first.expires, second.expires)), default=None),
        provenance=_provenance(first, second),
    )


def _provenance(first: ModelLicenseEntry, second: ModelLicenseEntry) -> str:
    parts = {*first.provenance.split(", "), *second.provenance.split(", ")}
    return ", ".join(sorted(parts - {""}))


def _usages(
    first: ModelLicenseEntry, second: ModelLicenseEntry
) -> tuple[Usage, ...] | None:
    """Return the usages that both list; None when there is none in common."""
    if not first.usages or not second.usages:
        return first.usages or second.usages
    common = sorted({*first.usages} & {*second.usages})
    return tuple(common) or None


def _licenses(first: str, second: str) -> str:
    if first == second:
        return first
    return " AND ".join(sorted({*_conjuncts(first), *_conjuncts(second)}))


def _conjuncts(text: str) -> list[str]:
    """Return the texts that a top-level AND joins."""
    root = parse(text).root
    operands = root.operands if isinstance(root, Conjunction) else (root,)
    return [
        str(part) if isinstance(part, License) else f"({Expression(part)})"
        for part in operands
    ]


def _union(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*first, *second}))

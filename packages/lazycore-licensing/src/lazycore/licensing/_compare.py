"""Hold a stated licence against licence files and classifiers.

What disagrees is a conflict, and the stricter reading holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.licensing._families import (
    COPYLEFT,
    all_of,
    families,
    family,
    strictest,
)
from lazycore.licensing._gnu import with_later
from lazycore.licensing._prose import prose_ids, says_choice

if TYPE_CHECKING:
    from lazycore.licensing._scale import Scale


def against_files(scale: Scale, text: str, *, authoritative: bool) -> str:
    """Compare a stated expression with the licence files."""
    files = scale.files
    result = text
    if files.expression is not None:
        ids = [term for term in files.ids if not term.startswith("WITH")]
        if not {family(one) for one in {*ids, *files.present}} & families(text):
            result = _disagreement(scale, text, files.expression)
        else:
            if not authoritative:
                result = _refine(scale, text, set(ids))
                result = _completed(scale, result, ids)
            result = _stricter_beside(scale, result, ids)
    elif files.unmatched and not files.conditions:
        _unlike(scale, text)
    return with_conditions(scale, result)


def _unlike(scale: Scale, text: str) -> None:
    named = {family(one) for one in prose_ids(scale.files.prose)}
    if not named & families(text) and "LicenseRef-" not in text:
        scale.conflicts.append(
            f"{scale.files.unmatched[0]} is not the SPDX text of {text:.60}"
        )


def with_conditions(scale: Scale, text: str) -> str:
    """Add what the licence files demand beyond the licence."""
    extra = [one for one in scale.files.conditions if one not in text]
    if not extra:
        return text
    scale.conflicts.append(f"a licence file adds {', '.join(extra)} to {text:.60}")
    for path, words in scale.files.restrictions:
        scale.conflicts.append(f"{path} says beside its licence: ...{words}...")
    return all_of([text, *extra])


def _disagreement(scale: Scale, stated: str, in_file: str) -> str:
    scale.conflicts.append(f"{stated:.60} is stated, the licence file is {in_file:.60}")
    if strictest(in_file) > strictest(stated):
        return with_later(scale, in_file, [])
    return stated


def _refine(scale: Scale, text: str, found: set[str]) -> str:
    """Let the file correct the number of clauses or the version of one licence."""
    from lazycore.licensing._expression import parse

    ids = {term.id for term in parse(text).licenses()}
    if ids & (found | scale.files.present) or len(ids) != 1:
        return text
    stated = next(iter(ids))
    same = [one for one in found if family(one) == family(stated)]
    if len(same) != 1 or _version_free(stated) == _version_free(same[0]):
        return text
    scale.conflicts.append(f"{stated} is stated, the licence file is {same[0]}")
    return same[0] if strictest(same[0]) >= strictest(stated) else text


def _version_free(identifier: str) -> str:
    return identifier.removesuffix("-only").removesuffix("-or-later")


def _completed(scale: Scale, text: str, ids: list[str]) -> str:
    """Add the licences that files and classifiers name and the field leaves out."""
    by_classifier = {*map(family, scale.exact), *scale.vague}
    more = [
        one
        for one in dict.fromkeys(ids)
        if family(one) not in families(text) and family(one) in by_classifier
    ]
    if not more or " " in text:
        return text
    if scale.files.offers_choice or says_choice(scale.metadata):
        return " OR ".join([text, *more])
    return all_of([text, *more])


def _stricter_beside(scale: Scale, text: str, ids: list[str]) -> str:
    """Add a stricter licence whose text lies beside the stated one's.

    A plain GPL beside an LGPL is left out: every LGPL is written on top of it.
    """
    held = families(text)
    if "LGPL" in held:
        held.add("GPL")
    stated = strictest(text)
    more = [
        one
        for one in dict.fromkeys(ids)
        if family(one) not in held and strictest(one) > stated
    ]
    if not more or (scale.files.offers_choice and " OR " in text):
        return text
    scale.conflicts.append(
        f"{text:.60} is stated, the text of {', '.join(more)} lies beside it"
    )
    return all_of([text, *more])


def against_classifiers(scale: Scale, text: str) -> str | None:
    """Compare an expression with the classifiers; None when nothing holds it up."""
    others = [one for one in scale.exact if family(one) not in families(text)]
    vague = [one for one in dict.fromkeys(scale.vague) if one in COPYLEFT]
    vague = [one for one in vague if one not in families(text)]
    if "LGPL" in families(text):
        vague = [one for one in vague if one != "GPL"]
    if not others and not vague:
        return text
    names = ", ".join([*others, *vague])
    scale.conflicts.append(f"classifiers name {names} beside {text:.60}")
    if scale.files.expression is not None:
        return text
    if vague and strictest(text) < strictest("LGPL-2.1-only"):
        return None
    return all_of([text, *(one for one in others if strictest(one) > strictest(text))])

"""Weigh what metadata, licence files and prose say; in doubt the stricter holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lazycore.licensing._compare import (
    against_classifiers,
    against_files,
    with_conditions,
)
from lazycore.licensing._exceptions import without_exception
from lazycore.licensing._expression import normalize
from lazycore.licensing._families import (
    COPYLEFT,
    all_of,
    families,
    family,
    strictest,
)
from lazycore.licensing._file_roles import read_files
from lazycore.licensing._findings import BundledLicense, Confidence
from lazycore.licensing._gnu import with_exception, with_later
from lazycore.licensing._names import EMPTY, exact_id, from_names, vague_family
from lazycore.licensing._prose import prose_ids, readme_section
from lazycore.licensing._scale import Decision, Scale

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.licensing._metadata import Metadata

_PROPRIETARY: Final = re.compile(
    r"\b(?:proprietary|commercial licen[cs]e|end[- ]user|eula|all rights reserved"
    r"|licen[cs]e[- ]agreement)\b",
    re.IGNORECASE,
)


def weigh(
    metadata: Metadata, own: dict[str, str], notices: Callable[[], str]
) -> Decision:
    """Return the expression that the evidence supports.

    Args:
        metadata: Headers and description.
        own: The distribution's own licence files.
        notices: Gives the heads of its top modules, read only if needed.
    """
    scale = Scale(metadata, read_files(own), notices)
    for path, says in scale.files.says:
        scale.saw("license-file", path, says)
    _read_classifiers(scale)
    _own_parts(scale)
    stated = _stated(scale)
    if stated is not None:
        text = against_files(scale, stated, authoritative=True)
        return _decision(scale, text, "license-expression", Confidence.EXACT)
    named = _field(scale)
    if named is not None:
        text = against_files(scale, named, authoritative=False)
        source = "license-field"
        return _decision(
            scale, against_classifiers(scale, text), source, Confidence.DERIVED
        )
    if scale.files.expression is not None:
        text = _told_apart(scale, scale.files.expression)
        text = with_later(scale, text, scale.exact)
        text = with_exception(scale, text, metadata.first("license")[:200])
        text = with_conditions(scale, text)
        source = "license-file"
        return _decision(
            scale, against_classifiers(scale, text), source, Confidence.DERIVED
        )
    if scale.exact:
        text = against_files(scale, _join(scale), authoritative=False)
        source = "classifier"
        return _decision(
            scale, against_classifiers(scale, text), source, Confidence.DERIVED
        )
    return _last_resort(scale)


def _decision(
    scale: Scale, text: str | None, source: str, confidence: Confidence
) -> Decision:
    if scale.conflicts and confidence is Confidence.EXACT:
        confidence = Confidence.DERIVED
    expression = normalize(text) if text else None
    kept = {str(term) for term in expression.licenses()} if expression else set()
    bundled = [
        BundledLicense(path=path, reason="license-file", expression=identifier)
        for path, identifier in scale.files.bundled
        if identifier not in kept
    ]
    return Decision(
        expression=None if expression is None else str(expression),
        source=source if expression is not None else "none",
        confidence=confidence,
        evidence=tuple(scale.evidence),
        conflicts=tuple(scale.conflicts),
        bundled=tuple(bundled),
    )


def _stated(scale: Scale) -> str | None:
    text = scale.metadata.first("license-expression")
    if not text:
        return None
    expression = normalize(text)
    if expression is None:
        scale.conflicts.append(f"License-Expression is no expression: {text:.80}")
        scale.saw("license-expression", "License-Expression", text[:80])
        return None
    scale.saw("license-expression", "License-Expression", str(expression))
    return str(expression)


def _field(scale: Scale) -> str | None:
    """Return the expression that the ``License`` header names precisely."""
    text = scale.metadata.first("license").strip().strip('"')
    if text.lower().strip(".") in EMPTY:
        return None
    scale.saw("license-field", "License", " ".join(text.split())[:80])
    short = len(text) < 300
    expression = normalize(text) if short else None
    named = str(expression) if expression else from_names(text)
    if named is None and short and "exception" in text.lower():
        named = from_names(without_exception(text))
    if named is not None:
        plain = text.upper().replace("-", "").replace(" ", "")
        if "ONLY" not in plain and (short or expression is None):
            named = with_later(scale, named, scale.exact)
        return with_exception(scale, named, text if short else "")
    if not short or "\n" in text:
        opinion = read_files({"License": text})
        scale.files.bundled += opinion.bundled
        scale.files.restrictions += opinion.restrictions
        ids = ([opinion.expression] if opinion.expression else []) + opinion.conditions
        if ids:
            return all_of(ids)
    if scale.files.expression is None:
        ids = prose_ids(text[:400])
        if len(ids) == 1:
            return with_later(scale, ids[0], scale.exact)
    return None


def _read_classifiers(scale: Scale) -> None:
    for line in scale.metadata.all("classifier"):
        if not line.startswith("License ::"):
            continue
        name = line.rpartition("::")[2].strip()
        scale.saw("classifier", "Classifier", name)
        identifier = exact_id(name)
        if identifier is not None:
            scale.exact.append(identifier)
        elif (found := vague_family(name)) is not None:
            scale.vague.append(found)
        elif name == "Other/Proprietary License":
            scale.proprietary = True
    scale.exact = list(dict.fromkeys(scale.exact))


def _own_parts(scale: Scale) -> None:
    """Take as own what a file holds beside its first text and a classifier names."""
    files = scale.files
    if files.expression is None or files.offers_choice:
        return
    named = {*map(family, scale.exact), *scale.vague}
    more = [
        one
        for path, one in files.bundled
        if any(path == said for said, _ in files.says)
        and family(one) in named - families(files.expression)
    ]
    if more:
        files.expression = all_of([files.expression, *more])
        files.ids += dict.fromkeys(more)


def _told_apart(scale: Scale, text: str) -> str:
    """Let a precise classifier decide between texts that nearly contain each other.

    Only among licences that the file holds and that are no milder: ISC and 0BSD
    differ by one sentence.
    """
    if len(scale.exact) != 1 or scale.exact[0] not in scale.files.present:
        return text
    same = strictest(scale.exact[0]) == strictest(text)
    return scale.exact[0] if same and len(scale.files.ids) == 1 else text


def _join(scale: Scale) -> str:
    if len(scale.exact) == 1:
        return scale.exact[0]
    prose = f"{scale.metadata.first('license')} {scale.metadata.first('summary')}"
    choice = scale.files.offers_choice or "dual" in prose.lower() or " or " in prose
    if choice:
        return " OR ".join(scale.exact)
    scale.conflicts.append(
        f"classifiers name {', '.join(scale.exact)} without saying whether one may "
        "choose"
    )
    return " AND ".join(scale.exact)


def _last_resort(scale: Scale) -> Decision:
    """Read prose; what stays unclear stays unknown."""
    if scale.files.conditions:
        text = all_of(list(scale.files.conditions))
        return _decision(scale, text, "license-file", Confidence.GUESS)
    field = scale.metadata.first("license")
    words = field if len(field) < 300 else ""
    told = words.lower().strip(". ") not in EMPTY or scale.files.unmatched
    # Tools write Other/Proprietary for what they have no name for: alone it is nothing.
    if not scale.vague and (_PROPRIETARY.search(words) or (scale.proprietary and told)):
        scale.saw("license-field", "License", " ".join(words.split())[:80])
        text = "LicenseRef-Proprietary"
        return _decision(scale, text, "license-field", Confidence.GUESS)
    section = readme_section(scale.metadata.description)
    notices = scale.files.prose or section
    ids = prose_ids(notices) if notices else []
    if ids:
        scale.saw("readme", "description", " ".join(notices.split())[:80])
        joined = " OR ".join(ids) if _says_or(notices) else all_of(ids)
        text = with_exception(scale, with_later(scale, joined, []), "")
        named = set(map(family, ids))
        copyleft = {one for one in scale.vague if one in COPYLEFT}
        if not copyleft <= named or (scale.vague and not named & {*scale.vague}):
            scale.conflicts.append(f"classifiers speak of {', '.join(scale.vague)}")
        else:
            return _decision(scale, text, "readme", Confidence.GUESS)
    if scale.vague:
        scale.conflicts.append(
            f"only the family {', '.join(dict.fromkeys(scale.vague))} is named, no "
            "licence"
        )
    return _decision(scale, None, "none", Confidence.GUESS)


def _says_or(text: str) -> bool:
    lower = text.lower()
    return any(w in lower for w in ("either", " or the ", "at your option", "dual"))

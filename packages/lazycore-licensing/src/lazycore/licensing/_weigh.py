"""Weigh what metadata, licence files and prose say; in doubt the stricter holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lazycore.licensing._assess import license_class_of
from lazycore.licensing._expression import normalize, parse
from lazycore.licensing._file_roles import FileOpinion, read_files
from lazycore.licensing._findings import BundledLicense, Confidence, Evidence
from lazycore.licensing._names import EMPTY, exact_id, family, from_names
from lazycore.licensing._prose import LATER, prose_ids, readme_section

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.licensing._classes import LicenseClass
    from lazycore.licensing._metadata import Metadata

_GNU: Final = ("GPL-", "LGPL-", "AGPL-")


@dataclass(slots=True, kw_only=True)
class Decision:
    """What the weighing came to."""

    expression: str | None = None
    source: str = "none"
    confidence: Confidence = Confidence.GUESS
    evidence: tuple[Evidence, ...] = ()
    conflicts: tuple[str, ...] = ()
    bundled: tuple[BundledLicense, ...] = ()


@dataclass(slots=True)
class _Scale:
    """Everything that was read, while it is weighed."""

    metadata: Metadata
    files: FileOpinion
    notices: Callable[[], str]
    evidence: list[Evidence] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    demoted: list[str] = field(default_factory=list)

    def saw(self, kind: str, where: str, says: str) -> None:
        self.evidence.append(Evidence(kind=kind, where=where, says=says))


def weigh(
    metadata: Metadata, own: dict[str, str], notices: Callable[[], str]
) -> Decision:
    """Return the expression that the evidence supports.

    Args:
        metadata: Headers and description.
        own: The distribution's own licence files.
        notices: Gives the heads of its top modules, read only if needed.
    """
    scale = _Scale(metadata, read_files(own), notices)
    for path, says in scale.files.says:
        scale.saw("license-file", path, says)
    classifiers, vague = _classifiers(scale)
    stated = _stated(scale)
    if stated is not None:
        text = _against_files(scale, stated, authoritative=True)
        return _decision(scale, text, "license-expression", Confidence.EXACT)
    named = _field(scale, classifiers)
    if named is not None:
        text = _against_files(scale, named, authoritative=False)
        text = _against_classifiers(scale, text, classifiers)
        return _decision(scale, text, "license-field", Confidence.DERIVED)
    if scale.files.expression is not None:
        text = _told_apart(scale, scale.files.expression, classifiers)
        text = _later(scale, text, classifiers)
        text = _with_conditions(scale, text)
        text = _against_classifiers(scale, text, classifiers)
        return _decision(scale, text, "license-file", Confidence.DERIVED)
    if classifiers:
        text = _join(scale, classifiers)
        text = _against_files(scale, text, authoritative=False)
        return _decision(scale, text, "classifier", Confidence.DERIVED)
    return _last_resort(scale, vague)


def _decision(
    scale: _Scale, text: str | None, source: str, confidence: Confidence
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


def _stated(scale: _Scale) -> str | None:
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


def _field(scale: _Scale, classifiers: list[str]) -> str | None:
    """Return the expression that the ``License`` header names precisely."""
    text = scale.metadata.first("license").strip().strip('"')
    if text.lower().strip(".") in EMPTY:
        return None
    scale.saw("license-field", "License", " ".join(text.split())[:80])
    expression = normalize(text) if len(text) < 300 else None
    named = str(expression) if expression else from_names(text)
    if named is not None:
        plain = text.upper().replace("-", "").replace(" ", "")
        if "ONLY" not in plain and (len(text) < 300 or expression is None):
            named = _later(scale, named, classifiers)
        return named
    if len(text) > 300 or "\n" in text:
        opinion = read_files({"License": text})
        scale.files.bundled += opinion.bundled
        ids = ([opinion.expression] if opinion.expression else []) + opinion.conditions
        if ids:
            return _all_of(ids)
    if scale.files.expression is None:
        ids = prose_ids(text[:400])
        if len(ids) == 1:
            return _later(scale, ids[0], classifiers)
    return None


def _classifiers(scale: _Scale) -> tuple[list[str], list[str]]:
    exact: list[str] = []
    vague: list[str] = []
    for line in scale.metadata.all("classifier"):
        if not line.startswith("License ::"):
            continue
        name = line.rpartition("::")[2].strip()
        scale.saw("classifier", "Classifier", name)
        identifier = exact_id(name)
        if identifier is not None:
            exact.append(identifier)
        elif (found := family(name)) is not None:
            vague.append(found)
    return list(dict.fromkeys(exact)), vague


def _classes(text: str) -> list[LicenseClass]:
    return [license_class_of(term) for term in parse(text).licenses()]


def _strictest(text: str) -> LicenseClass:
    """Return the class that decides: the mildest branch of the strictest part."""
    from lazycore.licensing._assess import assess

    return assess(text, usage="distributed").license_class


def _family(identifier: str) -> str:
    if identifier.startswith("LicenseRef-"):
        return identifier
    head = identifier.split("-", 1)[0]
    if head in {"PSF", "Python", "CNRI"}:  # the stack of texts that CPython ships
        return "PSF"
    return {"MIT": identifier if identifier == "MIT-CMU" else "MIT"}.get(head, head)


def _families(text: str) -> set[str]:
    return {_family(term.id) for term in parse(text).licenses()}


def _against_files(scale: _Scale, text: str, *, authoritative: bool) -> str:
    """Compare a stated expression with the licence files."""
    files = scale.files
    result = text
    if files.expression is not None:
        ids = {term.id for term in parse(text).licenses()}
        found = set(files.ids)
        shared = {_family(one) for one in found | files.present} & _families(text)
        if not shared:
            result = _disagreement(scale, text, files.expression)
        elif not authoritative:
            result = _refine(scale, text, ids, found)
    elif (
        files.unmatched
        and not authoritative
        and not files.conditions
        and not {_family(one) for one in prose_ids(files.prose)} & _families(text)
    ):
        scale.conflicts.append(
            f"{files.unmatched[0]} is not the SPDX text of {text:.60}"
        )
    return _with_conditions(scale, result)


def _with_conditions(scale: _Scale, text: str) -> str:
    """Add what the licence files demand beyond the licence."""
    extra = [one for one in scale.files.conditions if one not in text]
    if not extra:
        return text
    scale.conflicts.append(f"a licence file adds {', '.join(extra)} to {text:.60}")
    return _all_of([text, *extra])


def _told_apart(scale: _Scale, text: str, classifiers: list[str]) -> str:
    """Let a precise classifier decide between texts that nearly contain each other.

    Only among licences that the file holds and that are no milder: ISC and 0BSD
    differ by one sentence.
    """
    if len(classifiers) != 1 or classifiers[0] not in scale.files.present:
        return text
    same = _strictest(classifiers[0]) == _strictest(text)
    return classifiers[0] if same and len(scale.files.ids) == 1 else text


def _disagreement(scale: _Scale, stated: str, in_file: str) -> str:
    scale.conflicts.append(f"{stated:.60} is stated, the licence file is {in_file:.60}")
    if _strictest(in_file) > _strictest(stated):
        return _later(scale, in_file, [])
    return stated


def _refine(scale: _Scale, text: str, ids: set[str], found: set[str]) -> str:
    """Let the file correct the number of clauses or the version of one licence."""
    if ids & (found | scale.files.present) or len(ids) != 1:
        return text
    stated = next(iter(ids))
    same = [one for one in found if _family(one) == _family(stated)]
    if len(same) != 1 or _version_free(stated) == _version_free(same[0]):
        return text
    scale.conflicts.append(f"{stated} is stated, the licence file is {same[0]}")
    return same[0] if _strictest(same[0]) >= _strictest(stated) else text


def _version_free(identifier: str) -> str:
    return identifier.removesuffix("-only").removesuffix("-or-later")


def _against_classifiers(scale: _Scale, text: str, classifiers: list[str]) -> str:
    others = [one for one in classifiers if _family(one) not in _families(text)]
    if not others:
        return text
    scale.conflicts.append(f"classifiers name {', '.join(others)} beside {text:.60}")
    stricter = [one for one in others if _strictest(one) > _strictest(text)]
    if stricter and scale.files.expression is None:
        return _all_of([text, *stricter])
    return text


def _join(scale: _Scale, ids: list[str]) -> str:
    if len(ids) == 1:
        return ids[0]
    prose = f"{scale.metadata.first('license')} {scale.metadata.first('summary')}"
    choice = scale.files.offers_choice or "dual" in prose.lower() or " or " in prose
    if choice:
        return " OR ".join(ids)
    scale.conflicts.append(
        f"classifiers name {', '.join(ids)} without saying whether one may choose"
    )
    return " AND ".join(ids)


def _all_of(parts: list[str]) -> str:
    unique = list(dict.fromkeys(parts))
    return " AND ".join(
        f"({part})" if " OR " in part and len(unique) > 1 else part for part in unique
    )


def _later(scale: _Scale, text: str, classifiers: list[str]) -> str:
    """Say "or later" where a GNU licence's notice does; the text alone never does."""
    expression = normalize(text)
    if expression is None or not any(
        term.id.startswith(_GNU) and term.id.endswith("-only")
        for term in expression.licenses()
    ):
        return text
    changed = text
    for term in expression.licenses():
        later = term.id.removesuffix("-only") + "-or-later"
        if term.id.endswith("-only") and (
            later in classifiers
            or (term.id not in classifiers and _notice_later(scale))
        ):
            changed = changed.replace(term.id, later)
    return changed


def _notice_later(scale: _Scale) -> bool:
    if scale.files.says_later:
        return True
    section = readme_section(scale.metadata.description)
    return (
        LATER.search(section) is not None or LATER.search(scale.notices()) is not None
    )


def _last_resort(scale: _Scale, vague: list[str]) -> Decision:
    """Read prose; what stays unclear stays unknown."""
    if scale.files.conditions:
        text = _all_of(list(scale.files.conditions))
        return _decision(scale, text, "license-file", Confidence.GUESS)
    section = readme_section(scale.metadata.description)
    notices = scale.files.prose or section
    ids = prose_ids(notices) if notices else []
    if ids:
        scale.saw("readme", "description", " ".join(notices.split())[:80])
        joined = " OR ".join(ids) if _says_or(notices) else _all_of(ids)
        text = _later(scale, joined, [])
        mild = vague and not {_family(i) for i in ids} & {*vague}
        if mild:
            scale.conflicts.append(f"classifiers speak of {', '.join(vague)}")
        else:
            return _decision(scale, text, "readme", Confidence.GUESS)
    if vague:
        scale.conflicts.append(
            f"only the family {', '.join(dict.fromkeys(vague))} is named, no licence"
        )
    return _decision(scale, None, "none", Confidence.GUESS)


def _says_or(text: str) -> bool:
    lower = text.lower()
    return any(w in lower for w in ("either", " or the ", "at your option", "dual"))

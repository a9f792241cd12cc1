"""Combine several licence files by their roles: text, choice, part, third party."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from lazycore.licensing._exceptions import mentions_exception, stated_exception
from lazycore.licensing._prose import LATER, prose_ids
from lazycore.licensing._texts import TextReport, identify

MAX_FILES: Final = 12
MAX_PREAMBLE: Final = 250  # words before a licence text
MAX_HEAD: Final = 6000  # characters before a GNU text that belong to it
# A file name that names a licence states one of several licences of the work; any
# other suffix names another work.
_LICENSE_WORD = re.compile(
    r"apache|mit(?![a-z])|0?bsd|[al]?gpl|lesser|mpl|isc(?![a-z])|psf|zlib|expat|cc0|"
    r"(?:un)?licen[cs]es?|copying|boost|python|clause|only|or.later|v(?=\d)"
)
_PLAIN = re.compile(
    r"(?:licen[cs]es?|copying|unlicen[cs]e)(?:\.(?:txt|md|rst))?\Z", re.IGNORECASE
)
_THIRD_PARTY_TEXT = re.compile(
    r"third[- ]party|bundle[sd]?\b|vendored|incorporat\w+|"
    r"(?:includes?|contains?|portions of|parts of|derived from|based on|adapted from)"
    r"[^.]{0,60}(?:code|software|librar|project|component|work|file)|"
    r"the following (?:files|components|libraries|licenses|software)",
    re.IGNORECASE,
)
_BUSINESS_SOURCE = re.compile(
    r"business source licen[cs]e\s+(?:agreement|version|1\.1|\(|terms)"
    r"|^\W*business source licen[cs]e"
    r"|licensed work:.{0,6000}additional use grant:",
    re.IGNORECASE | re.DOTALL,
)
_GNU_TITLE = re.compile(
    r"GNU (?:AFFERO |LESSER |LIBRARY )?GENERAL PUBLIC LICENSE\s+Version \d",
    re.IGNORECASE,
)
_THIS_VERSION = re.compile(
    r"only\s+(?:valid\s+version|the\s+(?:gnu\s+)?general\s+public\s+licen[cs]e\s+"
    r"version)",
    re.IGNORECASE,
)
# One of these alone is in force, whatever its text promises for later.
_IN_FORCE: Final = ("BUSL-", "FSL-")


@dataclass(slots=True, kw_only=True)
class FileOpinion:
    """What a distribution's own licence files say together."""

    expression: str | None = None
    ids: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    bundled: list[tuple[str, str]] = field(default_factory=list)
    says: list[tuple[str, str]] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    offers_choice: bool = False
    says_later: bool = False
    exceptions: list[str] = field(default_factory=list)
    mentions_exception: bool = False
    restrictions: list[tuple[str, str]] = field(default_factory=list)
    prose: str = ""
    present: set[str] = field(default_factory=set)


def read_files(own: dict[str, str]) -> FileOpinion:
    """Identify each file and combine them."""
    opinion = FileOpinion()
    parts: list[tuple[str, list[str]]] = []
    ordered = sorted(own, key=lambda path: (not _PLAIN.match(_base(path)), path))
    for path in ordered[:MAX_FILES]:
        text = own[path]
        report = identify(text)
        ids = _in_force(report)
        opinion.present |= report.present
        opinion.offers_choice |= report.offers_choice
        _read_preamble(text, opinion)
        aggregated = report.words > 3 * report.expected_words + 400
        if not aggregated or not ids:
            opinion.conditions += [
                one for one in report.conditions if one not in opinion.conditions
            ]
            if report.restriction:
                opinion.restrictions.append((path, report.restriction))
        first = min((match.position for match in report.matches), default=0)
        if _BUSINESS_SOURCE.search(text[:8000]):
            parts.append((path, ["BUSL-1.1"]))
            opinion.says.append((path, "BUSL-1.1 by its title"))
        elif ids and first > MAX_PREAMBLE and not ids[0].startswith(_IN_FORCE):
            # What comes first is the work's own licence, and that is unknown here.
            opinion.bundled += [(path, one) for one in ids]
            opinion.unmatched.append(path)
            opinion.says.append((path, "text of its own, then " + " + ".join(ids)))
            named = prose_ids(text[:1500])
            if named:
                opinion.prose += text[:1500] + "\n"
        elif ids:
            parts.append((path, _split(path, text, report, ids, opinion)))
            opinion.says.append((path, " + ".join(ids)))
        elif report.words > 15:
            named = prose_ids(text[:1500]) if report.words < 400 else []
            if named:
                opinion.prose += text[:1500] + "\n"
            opinion.unmatched.append(path)
            opinion.says.append((path, "no SPDX text"))
    _combine(parts, opinion)
    return opinion


def _read_preamble(text: str, opinion: FileOpinion) -> None:
    """Read what stands before a GNU text: its version, an exception to it."""
    title = _GNU_TITLE.search(text)
    near = title is not None and title.start() < MAX_HEAD
    head = text[: max(title.start(), 200)] if title and near else text[:700]
    if _THIS_VERSION.search(head) is None:
        opinion.says_later |= LATER.search(head) is not None
    if "xception" not in text[:40_000] and "permission" not in head:
        return
    # A file of its own may hold the exception alone.
    exception = stated_exception(head if near or len(text) > 12_000 else text)
    if exception is not None and exception not in opinion.exceptions:
        opinion.exceptions.append(exception)
    opinion.mentions_exception |= mentions_exception(head)


def _names_a_work(name: str) -> bool:
    """Tell whether a file name speaks of more than licences."""
    return bool(re.sub(r"[^a-z]|txt|md$|rst", "", _LICENSE_WORD.sub("", name.lower())))


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _in_force(report: TextReport) -> list[str]:
    ids = [match.id for match in sorted(report.matches, key=lambda m: m.position)]
    strict = [one for one in ids if one.startswith(_IN_FORCE)]
    if strict:
        return strict[:1]
    if any(one.startswith("LGPL-3.0") for one in ids):
        # LGPL 3 is written as permissions added to GPL 3, so both texts are there.
        ids = [one for one in ids if not one.startswith("GPL-3.0")]
    return ids


def _split(
    path: str, text: str, report: TextReport, ids: list[str], opinion: FileOpinion
) -> list[str]:
    """Return the ids of the work itself; what follows a notice is bundled."""
    if len(ids) == 1:
        return ids
    if report.offers_choice:
        return [" OR ".join(ids)]
    if _THIRD_PARTY_TEXT.search(text) is not None or len(ids) > 4:
        opinion.bundled += [(path, one) for one in ids[1:]]
        return ids[:1]
    return ids


def _combine(parts: list[tuple[str, list[str]]], opinion: FileOpinion) -> None:
    plain = any(_PLAIN.match(_base(path)) for path, _ in opinion.says)
    kept: list[str] = []
    for path, ids in parts:
        name = _base(path)
        if plain and not _PLAIN.match(name) and _names_a_work(name):
            opinion.bundled += [(path, one) for one in ids]
        else:
            kept += ids
    kept = list(dict.fromkeys(kept))
    strict = [one for one in kept if one.startswith(_IN_FORCE)]
    if strict:
        opinion.bundled += [("", one) for one in kept if one not in strict]
        kept = strict[:1]
    if any(one.startswith("LGPL-3.0") for one in kept):
        kept = [one for one in kept if not one.startswith("GPL-3.0")]
    for one in kept:
        opinion.ids += [word for word in one.split() if word not in {"OR", "AND"}]
    if not kept:
        return
    choice = opinion.offers_choice and len(parts) > 1
    if len(kept) == 1:
        opinion.expression = kept[0]
    elif choice:
        opinion.expression = " OR ".join(kept)
    else:
        opinion.expression = " AND ".join(
            f"({one})" if " OR " in one else one for one in kept
        )

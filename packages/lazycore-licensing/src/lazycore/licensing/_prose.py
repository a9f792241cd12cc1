"""Read licence names out of prose: notices, READMEs, short licence files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lazycore.licensing._expression import normalize
from lazycore.licensing._names import exact_id

if TYPE_CHECKING:
    from lazycore.licensing._metadata import Metadata

_SPDX_TAG = re.compile(r"SPDX-License-Identifier:\s*([^\n*#<>]{2,200})", re.IGNORECASE)
_PHRASES: Final = (
    re.compile(
        r"\b(?:gnu )?(?:affero |lesser |library )?(?:gnu )?general public licen[cs]e"
        r"[^.]{0,60}?(?:version|v\.?|gpl)?\s?[123](?:\.[01])?\b"
        r"(?:[ ,]*(?:or \(?(?:at your option\)? )?(?:any )?later|\+))?",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b[al]?gpl[- ]?v?\.? ?[23](?:\.[01])?(?:\+| or later)?", re.IGNORECASE
    ),
    re.compile(
        r"\bapache(?: software)? licen[cs]e,? ?(?:\(?version |v)?2(?:\.0)?"
        r"|\bapache[- ]2(?:\.0)?",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:(?:2|3|two|three|0|zero)[- ]clause bsd|bsd[- ](?:2|3|0)[- ]clause|"
        r"bsd[- ]?3|new bsd|modified bsd|simplified bsd)\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"\bmozilla public licen[cs]e,? ?(?:version |v\.? ?)?[12]\.[01]"
        r"|\bmpl[- ]2(?:\.0)?",
        re.IGNORECASE,
    ),
    re.compile(
        r"\bmit(?: open source)?(?: licen[cs]ed?|/expat)?\b(?! press| csail| media)"
    ),
    re.compile(r"\bMIT\b(?= licen[cs]e|[^\w]|$)(?! Press| CSAIL| Media)"),
    re.compile(r"\bISC(?: licen[cs]e)\b", re.IGNORECASE),
    re.compile(r"\bbusiness source licen[cs]e(?: 1\.1)?|\bbusl-1\.1", re.IGNORECASE),
    re.compile(r"\belastic licen[cs]e (?:v?2(?:\.0)?)", re.IGNORECASE),
    re.compile(r"\bcc[- ]by(?:[- ](?:nc|sa|nd))*[- ]?[234]\.0", re.IGNORECASE),
    re.compile(r"\bunlicense\b|\bcc0(?:-1\.0)?\b", re.IGNORECASE),
)
_SECTION = re.compile(
    r"^(?:#{1,6}[^\n\w]*|\*\*)?(?:\d+\.? )?(?:[^\w\n]{0,6})?(?:copyright (?:and|&) )?"
    r"licen[cs](?:e|es|ing)(?: (?:and|&) [\w ]+| information)?[*:]*[^\w\n]*\n",
    re.IGNORECASE | re.MULTILINE,
)
LATER: Final = re.compile(
    r"any\s+later\s+version|or\s+\(?\s*at\s+your\s+option\s*\)?\s+any\s+later"
    r"|version\s+\d\s+or\s+later|-or-later|\bv?[23](?:\.\d)?\s+or\s+later",
    re.IGNORECASE,
)

_CHOICE = re.compile(
    r"(?:dual|tri|multi)[- ]?licen[cs]|under either|either (?:the|of) .{3,80} or "
    r"|at your (?:option|choice)(?!\W*any later)",
    re.IGNORECASE,
)


def prose_ids(text: str) -> list[str]:
    """Return the ids of the licences that a short text names, in order.

    Examples:
        >>> prose_ids("Released under the Apache License, Version 2.0.")
        ['Apache-2.0']
    """
    tag = _SPDX_TAG.search(text)
    if tag is not None:
        expression = normalize(tag[1].strip())
        if expression is not None:
            return [str(expression)]
    flat = re.sub(r"[\s`*_\[\]]+", " ", text)
    found: list[tuple[int, str]] = []
    for pattern in _PHRASES:
        for match in pattern.finditer(flat):
            phrase = match[0]
            if phrase.lower().startswith("business source"):
                phrase = "BUSL-1.1"
            known = normalize(phrase.upper().replace(" ", "-"))
            identifier = exact_id(phrase) or (str(known) if known else None)
            if identifier is not None:
                found.append((match.start(), identifier))
    return list(dict.fromkeys(identifier for _, identifier in sorted(found)))


def readme_section(text: str) -> str:
    """Return the start of the last section about the licence, empty without one."""
    sections = list(_SECTION.finditer(text[:300_000]))
    if not sections:
        return ""
    end = sections[-1].end()
    rest = text[end : end + 1200].lstrip("=-~^ \n")
    # The next heading ends the section.
    following = re.search(r"\n#{1,6} |\n[=~-]{4,}\n", rest)
    return rest[: following.start()] if following else rest[:600]


def says_choice(metadata: Metadata) -> bool:
    """Tell whether the summary or the README offers a choice of licences."""
    said = f"{metadata.first('summary')} {readme_section(metadata.description)}"
    return _CHOICE.search(" ".join(said.split())) is not None

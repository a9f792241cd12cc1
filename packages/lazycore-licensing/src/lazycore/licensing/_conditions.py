"""Patterns for conditions that a text adds to a standard licence."""

from __future__ import annotations

import re
from typing import Final

# Conditions that a text may add to a standard licence. Each is looked for outside
# what the identified licence itself says; any hit makes the result stricter.
CONDITIONS: Final = (
    ("LicenseRef-Commons-Clause", re.compile(r"commons clause", re.IGNORECASE)),
    (
        "LicenseRef-Non-Commercial",
        re.compile(
            r"(?:non[- ]?commercial|academic|research)"
            r"(?: (?:and|or|&) \w+)?(?: research)? (?:use|purposes?)(?: only)?"
            r"|(?:not|no|prohibit\w{0,4}|except)[^.]{0,60}\bcommercial(?:ly)? "
            r"(?:use|purposes?|product|gain)"
            r"|commercial (?:use|purposes?)[^.]{0,60}"
            r"(?:prohibited|not (?:permitted|allowed)|requires?|must|contact|need)",
            re.IGNORECASE,
        ),
    ),
    (
        "LicenseRef-Use-Restricted",
        re.compile(
            r"use[- ]based restrictions|shall be used for good, not evil"
            r"|(?:may|shall|must) not (?:be )?use[d]?[^.]{0,80}"
            r"(?:military|weapon|surveillance|compet(?:e|ing|itor)|train)"
            r"|field of use",
            re.IGNORECASE,
        ),
    ),
    (
        "LicenseRef-Proprietary",
        re.compile(
            r"all rights reserved\.?\s+(?:no part|unauthori[sz]ed|this software is "
            r"(?:proprietary|confidential))"
            r"|end[- ]user licen[cs]e agreement|proprietary and confidential"
            r"|unauthori[sz]ed (?:copying|use|reproduction)[^.]{0,80}prohibited",
            re.IGNORECASE,
        ),
    ),
)

# A text without one of these can't match; looking for them is cheap.
TRIGGERS: Final = {
    "LicenseRef-Commons-Clause": ("commons clause",),
    "LicenseRef-Non-Commercial": (
        *("commercial use", "commercial purpose", "commercial product"),
        *("commercial gain", "commercially", "noncommercial", "non-commercial"),
        *("non commercial", "academic", "research"),
    ),
    "LicenseRef-Use-Restricted": (
        *("use-based", "use based", "not evil", "military", "weapon", "surveillance"),
        *("compet", "train", "field of use"),
    ),
    "LicenseRef-Proprietary": (
        *("all rights reserved", "user licen", "proprietary and", "unauthori"),
    ),
}

"""Turn licence names as people write them into SPDX ids; vague names stay vague."""

from __future__ import annotations

import re
from typing import Final

# Reduced name (see `_reduce`) -> SPDX id. Only names that fix one licence.
_EXACT: Final = {
    "mit": "MIT",
    "mit mit": "MIT",
    "expat": "MIT",
    "mit expat": "MIT",
    "expat mit": "MIT",
    "mit 0": "MIT-0",
    "mit no attribution": "MIT-0",
    "mit cmu": "MIT-CMU",
    "apache 2.0": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache2": "Apache-2.0",
    "apache2.0": "Apache-2.0",
    "apache 2.0 apache 2.0": "Apache-2.0",
    "apache software 2.0": "Apache-2.0",
    "apache software 2": "Apache-2.0",
    "asl 2.0": "Apache-2.0",
    "asl 2": "Apache-2.0",
    "bsd 3 clause": "BSD-3-Clause",
    "bsd 3": "BSD-3-Clause",
    "bsd3": "BSD-3-Clause",
    "3 clause bsd": "BSD-3-Clause",
    "three clause bsd": "BSD-3-Clause",
    "bsd three clause": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause",
    "bsd new": "BSD-3-Clause",
    "modified bsd": "BSD-3-Clause",
    "revised bsd": "BSD-3-Clause",
    "new or revised bsd": "BSD-3-Clause",
    "bsd 3 clause new or revised": "BSD-3-Clause",
    "bsd 3 clause new": "BSD-3-Clause",
    "bsd 2 clause": "BSD-2-Clause",
    "bsd 2": "BSD-2-Clause",
    "2 clause bsd": "BSD-2-Clause",
    "two clause bsd": "BSD-2-Clause",
    "simplified bsd": "BSD-2-Clause",
    "bsd 2 clause simplified": "BSD-2-Clause",
    "freebsd": "BSD-2-Clause",
    "0bsd": "0BSD",
    "zero clause bsd": "0BSD",
    "bsd zero clause": "0BSD",
    "isc": "ISC",
    "iscl": "ISC",
    "isc iscl": "ISC",
    "mpl 2.0": "MPL-2.0",
    "mpl 2": "MPL-2.0",
    "mpl2": "MPL-2.0",
    "mpl2.0": "MPL-2.0",
    "mozilla 2.0": "MPL-2.0",
    "mozilla 2.0 mpl 2.0": "MPL-2.0",
    "mozilla 1.1 mpl 1.1": "MPL-1.1",
    "mpl 1.1": "MPL-1.1",
    "unlicense": "Unlicense",
    "unlicense unlicense": "Unlicense",
    "cc0": "CC0-1.0",
    "cc0 1.0 universal": "CC0-1.0",
    "cc0 1.0 universal cc0 1.0 domain dedication": "CC0-1.0",
    "cc0 1.0 universal cc0 1.0 public domain dedication": "CC0-1.0",
    "wtfpl": "WTFPL",
    "zlib": "Zlib",
    "zlib libpng": "Zlib",
    "boost 1.0": "BSL-1.0",
    "boost software 1.0": "BSL-1.0",
    "boost software 1.0 bsl 1.0": "BSL-1.0",
    "zope 2.1": "ZPL-2.1",
    "zpl 2.1": "ZPL-2.1",
    "psf": "PSF-2.0",
    "psfl": "PSF-2.0",
    "psf 2.0": "PSF-2.0",
    "python software foundation": "PSF-2.0",
    "eclipse 2.0": "EPL-2.0",
    "eclipse 2.0 epl 2.0": "EPL-2.0",
    "epl 2.0": "EPL-2.0",
    "eclipse 1.0 epl 1.0": "EPL-1.0",
    "european union 1.2 eupl 1.2": "EUPL-1.2",
    "eupl 1.2": "EUPL-1.2",
    "blue oak model 1.0.0": "BlueOak-1.0.0",
    "universal permissive upl": "UPL-1.0",
    "university of illinois ncsa": "NCSA",
    "business source 1.1": "BUSL-1.1",
    "busl 1.1": "BUSL-1.1",
    "elastic 2.0": "Elastic-2.0",
    "historical permission notice and disclaimer hpnd": "HPND",
    "artistic 2.0": "Artistic-2.0",
    "free for non commercial use": "LicenseRef-Non-Commercial",
    "free for educational use": "LicenseRef-Non-Commercial",
    "free for home use": "LicenseRef-Non-Commercial",
    "free to use but restricted": "LicenseRef-Proprietary",
    "freeware": "LicenseRef-Proprietary",
    "all rights reserved": "LicenseRef-Proprietary",
    "proprietary": "LicenseRef-Proprietary",
    "commercial": "LicenseRef-Proprietary",
    "nvidia proprietary software": "LicenseRef-Proprietary",
    "public domain": "LicenseRef-Public-Domain",
}
# Classifiers say "Other/Proprietary" for everything they have no name for, and
# build tools emit it for compound expressions: no evidence of anything.
EMPTY: Final = frozenset(
    ("", "unknown", "none", "n/a", "see license", "see license file", "license", "tbd")
)
_NOISE = re.compile(
    r"\b(?:the|licen[cs]ed?|licenses|version|ver|public(?! domain)|terms|"
    r"of the|under)\b"
)
_GNU_WORDS = frozenset(
    (
        *("gnu", "general", "gpl", "agpl", "lgpl", "affero", "lesser", "library"),
        *("or", "later", "any", "newer", "above", "only", "of", "at", "your"),
        *("option", "and", "greater", "v", "+", "gplv", "lgplv", "agplv"),
    )
)
_LATER = re.compile(r"\+|\blater\b|\bnewer\b|\babove\b|\bgreater\b")
_GNU_VERSION = re.compile(r"(?<![\d.])(1|2|2\.0|2\.1|3|3\.0)(?![\d.])")


def _reduce(text: str) -> str:
    plain = re.sub(r"[^a-z0-9.+]+", " ", text.lower())
    plain = re.sub(r"\bv\.? ?(?=\d)", "", plain)
    plain = _NOISE.sub(" ", plain)
    return re.sub(r"(?<!\d)\.|\.(?!\d)", " ", plain).strip() and " ".join(
        re.sub(r"(?<!\d)\.|\.(?!\d)", " ", plain).split()
    )


def exact_id(name: str) -> str | None:
    """Return the SPDX id of a name that fixes one licence, else None.

    Examples:
        >>> exact_id("Apache License, Version 2.0"), exact_id("BSD License")
        ('Apache-2.0', None)
        >>> exact_id("GNU General Public License v2 or later (GPLv2+)")
        'GPL-2.0-or-later'
    """
    reduced = _reduce(name)
    return _EXACT.get(reduced) or _gnu(name)


def vague_family(name: str) -> str | None:
    """Return the family that a vague name belongs to: ``BSD``, ``GPL``, ..."""
    lower = name.lower()
    for word, found in (
        ("affero", "AGPL"),
        ("agpl", "AGPL"),
        ("lesser", "LGPL"),
        ("library general", "LGPL"),
        ("lgpl", "LGPL"),
        ("general public", "GPL"),
        ("gpl", "GPL"),
        ("apache", "Apache"),
        ("mozilla", "MPL"),
        ("bsd", "BSD"),
        ("artistic", "Artistic"),
        ("eclipse", "EPL"),
    ):
        if word in lower:
            return found
    return None


def _gnu(name: str) -> str | None:
    lower = re.sub(r"licen[cs]es?|version|public|the\b|[(),;:/-]", " ", name.lower())
    lower = re.sub(r"\b(a?l?gpl)v?(?=\d)", r"\1 ", lower)
    lower = re.sub(r"\bv(?=\d)", "", lower)
    found = vague_family(name)
    if found not in {"GPL", "LGPL", "AGPL"}:
        return None
    versions = {match[1].removesuffix(".0") for match in _GNU_VERSION.finditer(lower)}
    rest = re.sub(r"[\d.+]", " ", lower).split()
    if len(versions) != 1 or not set(rest) <= _GNU_WORDS:
        return None
    version = versions.pop()
    version = version if "." in version else f"{version}.0"
    known = {"GPL": ("1.0", "2.0", "3.0"), "AGPL": ("1.0", "3.0")}
    if version not in known.get(found, ("2.0", "2.1", "3.0")):
        return None
    return f"{found}-{version}-{'or-later' if _LATER.search(lower) else 'only'}"


def from_names(text: str) -> str | None:
    """Return an expression text for a name or for names joined by words.

    ``and``, commas and semicolons give AND: several licences without an operator
    all hold until somebody says otherwise. Only a written ``or`` gives OR.

    Examples:
        >>> from_names("MIT or Apache 2.0"), from_names("MIT, BSD 3-Clause")
        ('MIT OR Apache-2.0', 'MIT AND BSD-3-Clause')
    """
    if len(text) > 300 or "\n" in text:
        return None
    whole = exact_id(text)
    if whole is not None:
        return whole
    for pattern, operator in (
        (r"\s+or\s+|\s*\|\|?\s*", " OR "),
        (r"\s+and\s+|\s*[,;&+]\s*", " AND "),
    ):
        parts = [part for part in re.split(pattern, text, flags=re.IGNORECASE) if part]
        if len(parts) > 1:
            ids = [exact_id(part) for part in parts]
            if all(ids):
                return operator.join(dict.fromkeys(one for one in ids if one))
    return None

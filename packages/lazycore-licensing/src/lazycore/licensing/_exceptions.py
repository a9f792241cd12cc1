"""Find the exceptions to GNU licences that a text states or names."""

from __future__ import annotations

import re
from typing import Final

# Words that stand in one exception's text only -> its SPDX id. What frees only files
# that carry a notice of it (GCC's runtime exceptions 3.x) is not here: a text beside
# the licence can't say which files those are.
_STATED: Final = (
    (
        "GCC-exception-2.0",
        re.compile(
            r"unlimited permission to link the compiled version of th(?:is|ese) "
            r"(?:file|librar\w+|program|software)s? into combinations with other "
            r"programs",
            re.IGNORECASE,
        ),
    ),
    (
        "Bootloader-exception",
        re.compile(
            r"unlimited permission to link or embed compiled bootloader", re.IGNORECASE
        ),
    ),
    (
        "Classpath-exception-2.0",
        re.compile(
            r"permission to link this library with independent modules to produce an "
            r"executable, regardless of the licen[cs]e terms",
            re.IGNORECASE,
        ),
    ),
    (
        "Font-exception-2.0",
        re.compile(
            r"if you create a document which uses this font, and embed this font",
            re.IGNORECASE,
        ),
    ),
    (
        "OCCT-exception-1.0",
        re.compile(r"open cascade (?:technology )?exception", re.IGNORECASE),
    ),
    (
        "WxWindows-exception-3.1",
        re.compile(
            r"gives? permission for additional uses of the text contained in this "
            r"release of the library",
            re.IGNORECASE,
        ),
    ),
    (
        "Universal-FOSS-exception-1.0",
        re.compile(r"universal foss exception,? (?:version )?1\.0", re.IGNORECASE),
    ),
)
# A short name -> (start of the licence id, exception). One name can mean an older
# text beside an older licence, so the licence is part of the key.
_NAMED: Final = (
    ("classpath", "GPL-2.0", "Classpath-exception-2.0"),
    ("bootloader", "GPL-2.0", "Bootloader-exception"),
    ("font", "GPL-2.0", "Font-exception-2.0"),
    ("wxwindows", "LGPL-2.0", "WxWindows-exception-3.1"),
    ("occt", "LGPL-2.1", "OCCT-exception-1.0"),
    ("universal foss", "GPL-2.0", "Universal-FOSS-exception-1.0"),
)
_MENTION: Final = re.compile(
    r"(?:with|special|linking|runtime library|additional) (?:\S+ ){0,4}?exceptions?\b"
    r"|\bexceptions? (?:to|for) the (?:gnu|a?gpl|lgpl)",
    re.IGNORECASE,
)


def stated_exception(text: str) -> str | None:
    """Return the exception whose own words stand in a text.

    Examples:
        >>> stated_exception(
        ...     "the authors give you unlimited permission to link the compiled "
        ...     "version of this library into combinations with other programs"
        ... )
        'GCC-exception-2.0'
    """
    flat = " ".join(text.replace("#", " ").split())
    for identifier, pattern in _STATED:
        if pattern.search(flat):
            return identifier
    return None


def named_exception(name: str, licence: str) -> str | None:
    """Return the exception that a name adds to a licence, where it fixes one.

    Examples:
        >>> named_exception("GPLv2 with the Classpath exception", "GPL-2.0-only")
        'Classpath-exception-2.0'
        >>> named_exception("GPLv2 with linking exception", "GPL-2.0-only") is None
        True
    """
    lower = name.lower()
    if "exception" not in lower:
        return None
    found = [
        exception
        for word, start, exception in _NAMED
        if word in lower and licence.startswith(start)
    ]
    return found[0] if len(found) == 1 else None


def mentions_exception(text: str) -> bool:
    """Tell whether a text speaks of an exception at all."""
    return _MENTION.search(" ".join(text.split())) is not None


def without_exception(name: str) -> str:
    """Cut a name before the words that add an exception.

    Examples:
        >>> without_exception("GPLv2 with linking exception")
        'GPLv2'
    """
    return re.split(
        r"[,(]?\s*\b(?:with|w/)\b(?=[^;]*exceptions?)", name, flags=re.IGNORECASE
    )[0].strip()

"""Complete GNU licences from what surrounds their text: "or later", exceptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lazycore.licensing._exceptions import mentions_exception, named_exception
from lazycore.licensing._expression import normalize
from lazycore.licensing._prose import LATER, readme_section

if TYPE_CHECKING:
    from lazycore.licensing._scale import Scale

_GNU: Final = ("GPL-", "LGPL-", "AGPL-")
# Exceptions stated beside a text -> start of the only ids that they are written for.
_BELONGS: Final = {
    "Bootloader-exception": "GPL-2.0-",
    "Classpath-exception-2.0": "GPL-2.0-",
    "Font-exception-2.0": "GPL-2.0-",
    "GCC-exception-2.0": "GPL-2.0-",
    "OCCT-exception-1.0": "LGPL-2.1-",
    "Universal-FOSS-exception-1.0": "GPL-2.0-",
    "WxWindows-exception-3.1": "LGPL-2.0-",
}


def replace_id(text: str, old: str, new: str) -> str:
    """Replace one id in an expression, never a part of another.

    Examples:
        >>> replace_id("LGPL-3.0-only OR GPL-3.0-only", "GPL-3.0-only", "MIT")
        'LGPL-3.0-only OR MIT'
    """
    return re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w.+-])", new, text)


def with_later(scale: Scale, text: str, classifiers: list[str]) -> str:
    """Say "or later" where a GNU licence's notice does; the text alone never does."""
    expression = normalize(text)
    if expression is None:
        return text
    for term in expression.licenses():
        if not term.id.startswith(_GNU) or not term.id.endswith("-only"):
            continue
        later = term.id.removesuffix("-only") + "-or-later"
        if (
            later in classifiers
            or scale.files.says_later
            or (term.id not in classifiers and _notice_later(scale))
        ):
            text = replace_id(text, term.id, later)
    return text


def _notice_later(scale: Scale) -> bool:
    section = readme_section(scale.metadata.description)
    return (
        LATER.search(section) is not None or LATER.search(scale.notices()) is not None
    )


def with_exception(scale: Scale, text: str, name: str = "") -> str:
    """Add the exception that the licence files state or a name fixes.

    One that is spoken of and can't be told stays out: the plain licence is stricter.

    Args:
        scale: Everything that was read.
        text: An expression.
        name: The licence as the ``License`` header names it.
    """
    expression = normalize(text)
    terms = [] if expression is None else list(expression.licenses())
    gnu = [term for term in terms if term.id.startswith(_GNU) and not term.exception]
    if not gnu:
        return text
    stated = scale.files.exceptions
    for term in gnu:
        fitting = [
            one for one in stated if term.id.startswith(_BELONGS.get(one, "no id"))
        ]
        named = named_exception(name, term.id)
        known = fitting[0] if len(fitting) == 1 else named
        if known is not None:
            scale.saw(
                "license-file" if fitting else "license-field", "exception", known
            )
            return replace_id(text, term.id, f"{term.id} WITH {known}")
    if scale.files.mentions_exception or stated or mentions_exception(name):
        scale.conflicts.append(
            f"an exception to {text:.60} is spoken of and not identified; the plain "
            "licence is assumed"
        )
    return text

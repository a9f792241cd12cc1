"""Compare licences by family and by class, as evidence that agrees or does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lazycore.licensing._assess import assess
from lazycore.licensing._expression import parse

if TYPE_CHECKING:
    from lazycore.licensing._classes import LicenseClass

COPYLEFT: Final = frozenset(("GPL", "LGPL", "AGPL"))


def strictest(text: str) -> LicenseClass:
    """Return the class that decides: the mildest branch of the strictest part."""
    return assess(text, usage="distributed").license_class


def family(identifier: str) -> str:
    """Return the family of an id: what its versions and variants share."""
    if identifier.startswith("LicenseRef-"):
        return identifier
    head = identifier.split("-", 1)[0]
    if head in {"PSF", "Python", "CNRI"}:  # the stack of texts that CPython ships
        return "PSF"
    if head == "MIT":
        return identifier if identifier == "MIT-CMU" else "MIT"
    return head


def families(text: str) -> set[str]:
    """Return the families of an expression."""
    return {family(term.id) for term in parse(text).licenses()}


def all_of(parts: list[str]) -> str:
    """Join expressions by AND, each once."""
    unique = list(dict.fromkeys(parts))
    return " AND ".join(
        f"({part})" if " OR " in part and len(unique) > 1 else part for part in unique
    )

"""Compare a version with the one, or the range, that a policy names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lazycore.licensing._errors import MissingExtraError

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_EXACT = re.compile(r"(?:==)?\s*([0-9A-Za-z.!+_-]+)\Z")


def exact(text: str) -> str | None:
    """Return the version of ``1.2`` or ``==1.2``; None for a range.

    Examples:
        >>> exact("== 1.2"), exact(">=1,<2"), exact("==1.*")
        ('1.2', None, None)
    """
    match = _EXACT.match(text.strip())
    return match[1] if match else None


def check(text: str) -> None:
    """Raise unless a text is an exact version or a range.

    Raises:
        MissingExtraError: A range, and ``packaging`` is not installed.
        ValueError: Neither.
    """
    if text and exact(text) is None:
        _range(text)


def matches(wanted: str, version: str) -> bool:
    """Tell whether a version is the one that is wanted; an empty wish fits all.

    A version that nobody can order fits no range.
    """
    if not wanted:
        return True
    one = exact(wanted)
    if one is not None:
        return one == version
    from packaging.version import InvalidVersion, Version

    found = _range(wanted)
    try:
        return found.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


def _range(text: str) -> SpecifierSet:
    try:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet
    except ImportError as error:
        raise MissingExtraError(
            f"the range {text!r} is compared by packaging, which is not installed: "
            "pip install 'lazycore-licensing[versions]'"
        ) from error
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        message = f"{text!r} is neither a version nor a range such as '>=2,<3'"
        raise ValueError(message) from error

"""Reduce a licence text to the checksums of its word triples."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LONG_WORDS: Final = 600
STRIDES: Final = (2, 16)  # every so many checksums of a short and of a long text
# One-letter words are dropped: list marks differ between copies of one text.
_WORD = re.compile(r"[a-z0-9]{2,}")


def words(text: str) -> list[str]:
    """Return the lower-case words of two letters or more.

    Examples:
        >>> words('(a) "AS IS", without')
        ['as', 'is', 'without']
    """
    return _WORD.findall(text.lower())


def shingles(tokens: Sequence[str]) -> dict[int, int]:
    """Return the sampled CRC-32 of each run of three words -> its first place."""
    checksum = zlib.crc32
    found: dict[int, int] = {}
    for place, (a, b, c) in enumerate(
        zip(tokens, tokens[1:], tokens[2:], strict=False)
    ):
        value = checksum(f"{a} {b} {c}".encode())
        if value % 2 == 0:
            found.setdefault(value, place)
    return found

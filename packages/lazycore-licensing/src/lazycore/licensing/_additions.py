"""Find text that stands in or beside a licence and takes rights away."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

REFERENCE: Final = "LicenseRef-Additional-Terms"
MAX_ADDED: Final = 1500  # words; what is longer is a list of other people's licences
# Words between two marks of one licence, by the stride of its marks: a short licence
# has a mark every two words or so, a long one every sixteen. Beyond these a gap is
# text of another origin (by chance once in 10^8 places).
_GAP: Final = {2: 30, 16: 250}
_EDGE: Final = {2: 30, 16: 110}
_WORD = re.compile(r"[a-z0-9]{2,}")
_RESTRICTS = re.compile(
    r"strictly (?:prohibited|forbidden)|(?:is|are|hereby) (?:prohibited|forbidden)"
    r"|(?<!notice )\b(?:may|shall|must|can) ?not (?:be )?"
    r"(?:used? (?!(?:in (?:any )?advertis|to (?:endorse|promote))"
    r"|this (?:\w+ )?(?:file|software|work|code|project|package)\w* except)"
    r"|(?:re)?(?:sell|sold|distribut|produc)|modif|cop(?:y|ied)|sublicens|host"
    r"|offer|provide|remov|alter|reverse|decompil|disassembl|train)"
    r"|not (?:permitted|allowed) (?:to|for)|(?:no|not) (?:right|permission) to "
    r"(?:sell|use|modify|distribute)"
    r"|notwithstanding (?:any|the) (?:other |above |foregoing )*"
    r"(?:provision|licen[cs]e)"
    r"|(?:material|additional|further) (?:condition|restriction)s? "
    r"(?:of|apply|applies|is|are|to) "
    r"|requires? (?:a |an |the )?(?:separate |commercial |paid |written |prior )+"
    r"(?:licen[cs]e|agreement|permission|consent)"
    r"|only (?:be )?used? (?:for|in|by|with) ",
    re.IGNORECASE,
)


def foreign_ranges(
    covered: Sequence[tuple[list[int], int]], words: int
) -> list[tuple[int, int]]:
    """Return the word ranges that no licence of a text explains.

    Args:
        covered: Of each licence found, the places of its marks and their stride.
        words: Number of words of the text.
    """
    places = sorted(
        (place, stride)
        for found, stride in covered
        for place in _without_strays(found, stride)
    )
    if not places:
        return []
    ranges = []
    place, stride = places[0]
    if place > _EDGE[stride]:
        ranges.append((0, place))
    for (before, one), (after, other) in pairwise(places):
        if after - before > max(_GAP[one], _GAP[other]):
            ranges.append((before + 3, after))
    place, stride = places[-1]
    if words - place > _EDGE[stride]:
        ranges.append((place + 3, words))
    return ranges


def _without_strays(places: list[int], stride: int) -> list[int]:
    """Drop marks that stand alone: a few words are the same by chance."""
    near = 6 * stride
    return [
        place
        for before, place, after in zip(
            [-near, *places], places, [*places[1:], places[-1] + 2 * near], strict=False
        )
        if place - before <= near or after - place <= near
    ]


def takes_away(text: str, ranges: Sequence[tuple[int, int]]) -> str | None:
    """Return the words within some ranges that restrict what a licence gives.

    Args:
        text: The whole text.
        ranges: Ranges counted in words of two letters or more.
    """
    lower = text.lower()
    spans = [found.span() for found in _WORD.finditer(lower)]
    for first, last in ranges:
        start, end = spans[first][0], spans[min(last, len(spans)) - 1][1]
        part = " ".join(lower[start:end].split())
        found = _RESTRICTS.search(part)
        if found is not None:
            return part[max(0, found.start() - 60) : found.end() + 60]
    return None

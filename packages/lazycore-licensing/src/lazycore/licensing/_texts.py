"""Identify the licences that a text holds, against the texts of the SPDX list."""

from __future__ import annotations

import re
import sys
import zlib
from array import array
from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Final

from lazycore.licensing._additions import (
    MAX_ADDED,
    REFERENCE,
    foreign_ranges,
    takes_away,
)
from lazycore.licensing._classes import fact_bytes, fact_rows
from lazycore.licensing._conditions import CONDITIONS, TRIGGERS
from lazycore.licensing._shingles import shingles, words

# A text matches when so much of it is found; below that it is another text.
CONTAINMENT: Final = 0.72
MAX_CHARACTERS: Final = 400_000

_CHOICE = re.compile(
    r"\b(?:either of|any of|one of) the following|(?:dual|tri|multi)[- ]?licen[cs]"
    r"|under (?:the terms of )?(?:either|any|one) of"
    r"|at your (?:option|choice)(?!\W* any later)"
    r"|either the .{3,80} or (?:the )?|disjunctive|licen[cs]ed under either",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatch:
    """One licence found in a text.

    Attributes:
        id: SPDX id; ``-only`` where a text serves both forms.
        containment: Share of the licence's marks that the text holds, 0 to 1.
        position: Word at which it begins, roughly.
    """

    id: str
    containment: float
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReport:
    """What a text holds.

    Attributes:
        matches: The licences found, the largest first.
        conditions: References for conditions beyond those licences.
        offers_choice: Whether its head says that one may choose.
        words: Number of words that were read.
        expected_words: Number of words of the licences found.
        present: Every id of which enough is there, each looked at alone.
        restriction: Words beside those licences that restrict them, else empty.
    """

    matches: tuple[TextMatch, ...] = ()
    conditions: tuple[str, ...] = ()
    offers_choice: bool = False
    words: int = 0
    expected_words: int = 0
    present: frozenset[str] = frozenset()
    restriction: str = ""


@cache
def _index() -> tuple[dict[int, int], array[int], array[int]]:
    """Return each mark's number, and where the rows that have it begin."""
    raw = zlib.decompress(fact_bytes("fingerprints.bin"))
    size = array("I").itemsize
    if size != 4:  # pragma: no cover - no such platform is known to run CPython
        message = "unsigned int has not four bytes here"
        raise RuntimeError(message)
    header = array("I", raw[:8])
    if sys.byteorder == "big":
        header.byteswap()
    count, total = header
    keys = array("I", raw[8 : 8 + 4 * count])
    middle = 8 + 4 * count + 4 * (count + 1)
    starts = array("I", raw[8 + 4 * count : middle])
    members = array("H", raw[middle : middle + 2 * total])
    if sys.byteorder == "big":
        for column in (keys, starts, members):
            column.byteswap()
    return dict(zip(keys, range(count), strict=True)), starts, members


@cache
def _rows() -> list[tuple[str, int, int, int, tuple[str, ...]]]:
    return [
        (row[0], int(row[1]), int(row[2]), int(row[3]), tuple(row[4].split()))
        for row in fact_rows("fingerprints.tsv")
    ]


def identify(text: str) -> TextReport:
    """Find the licences in a text and the conditions added to them.

    Wrapping, punctuation, list marks, years, names and preambles do not matter.

    Args:
        text: A licence file; only the first 400,000 characters are read.

    Examples:
        >>> identify("Permission to use, copy, modify").matches
        ()
    """
    return _identify(text[:MAX_CHARACTERS])


# Many distributions carry the very same file.
@lru_cache(maxsize=64)
def _identify(text: str) -> TextReport:
    tokens = words(text)
    marks = shingles(tokens)  # checksum -> first word
    by_row = _candidates(marks)
    rows = _rows()
    present = frozenset(rows[row][0] for row in by_row)
    matches, expected, covered = _cover(by_row, marks)
    found = [match.id for match in matches]
    conditions = _conditions(text, found)
    restriction = None
    if not conditions and len(tokens) - expected <= MAX_ADDED:
        foreign = foreign_ranges(covered, len(tokens))
        restriction = takes_away(text, foreign) if foreign else None
    return TextReport(
        matches=tuple(matches),
        conditions=conditions if restriction is None else (REFERENCE,),
        restriction=restriction or "",
        offers_choice=_CHOICE.search(_head(text)) is not None,
        words=len(tokens),
        expected_words=expected,
        present=present,
    )


def _candidates(marks: dict[int, int]) -> dict[int, set[int]]:
    """Return the rows of which enough marks are there, with those marks."""
    numbers, starts, members = _index()
    rows = _rows()
    hits = [
        (mark, members[starts[number] : starts[number + 1]])
        for mark in marks
        if (number := numbers.get(mark)) is not None
    ]
    counts = Counter(chain.from_iterable(having for _, having in hits))
    found: dict[int, set[int]] = {
        row: set()
        for row, count in counts.items()
        if count >= CONTAINMENT * rows[row][1]
    }
    if found:
        among = found.keys()
        for mark, having in hits:
            for row in among & having:
                found[row].add(mark)
    return found


def _cover(
    by_row: dict[int, set[int]], positions: dict[int, int]
) -> tuple[list[TextMatch], int, list[tuple[list[int], int]]]:
    """Take the best licence, forget its marks, and look again at the rest."""
    rows = _rows()
    matches: list[TextMatch] = []
    covered: list[tuple[list[int], int]] = []
    expected = 0
    by_row = {
        row: near
        for row, found in by_row.items()
        if len(near := _together(found, positions, rows[row][3]))
        >= CONTAINMENT * rows[row][1]
    }
    while by_row:
        best, best_score = -1, 0.0
        for row, found in by_row.items():
            _, total, stride, *_ = rows[row]
            if len(found) >= CONTAINMENT * total:
                # Words explained less half of those missing: of two nested texts
                # the longer wins only where most of the difference is there.
                score = stride * (len(found) - (total - len(found)) / 2)
                if score > best_score or (
                    score == best_score and best >= 0 and rows[row] < rows[best]
                ):
                    best, best_score = row, score
        if best < 0:
            break
        identifier, total, stride, size, _ = rows[best]
        taken = by_row.pop(best)
        # A few marks may stand anywhere, so the start is drawn from the middle.
        places = sorted(positions[mark] for mark in taken)
        where = max(0, places[len(places) // 5] - size // 5 - 20)
        by_row = {
            row: left
            for row, held in by_row.items()
            if (left := held - taken) and len(left) >= CONTAINMENT * rows[row][1]
        }
        matches.append(
            TextMatch(id=identifier, containment=len(taken) / total, position=where)
        )
        covered.append((places, stride))
        expected += size
    return matches, expected, covered


def _together(found: set[int], positions: dict[int, int], size: int) -> set[int]:
    """Keep the marks of the place where they stand densest.

    A file of forty licences holds most marks of many more, strewn over all of it.
    """
    width = 2 * size  # conditions may be put between two parts of a text
    places = sorted((positions[mark], mark) for mark in found)
    if places[-1][0] - places[0][0] <= width:
        return found
    best, start, first = 0, 0, 0
    for last, (place, _) in enumerate(places):
        while place - places[first][0] > width:
            first += 1
        if last - first + 1 > best:
            best, start = last - first + 1, first
    return {mark for _, mark in places[start : start + best]}


def _head(text: str) -> str:
    return re.sub(r"\s+", " ", text[:1500])


def _conditions(text: str, found: list[str]) -> tuple[str, ...]:
    """Return the conditions that the licences found do not state themselves."""
    flat = " ".join(text[:60_000].split())
    lower = flat.lower()
    own = {says for row in _rows() if row[0] in found for says in row[4]}
    return tuple(
        reference
        for reference, pattern in CONDITIONS
        if reference not in own
        and any(word in lower for word in TRIGGERS[reference])
        and pattern.search(flat)
    )

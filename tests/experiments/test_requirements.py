"""The table of requirements names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TABLE = Path(__file__).parents[2] / "docs" / "experiments" / "requirements.md"
NUMBERS = [*map(str, range(1, 49)), "3a", "28a"]

if not TABLE.exists():  # a source distribution has the tests alone
    pytest.skip(
        "the documentation does not lie beside these tests", allow_module_level=True
    )


def rows() -> list[tuple[str, str]]:
    """Return the number column and the tests of each row."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    cells = [line.strip("|").split("|") for line in lines if line.startswith("| ")]
    return [(row[0].strip(), row[-1].strip()) for row in cells]


def numbers(cell: str) -> set[str]:
    """Return the requirements that a row covers; ``5-14`` is a range."""
    found: set[str] = set()
    for part in re.split(r",\s*", cell):
        if span := re.fullmatch(r"(\d+)-(\d+)", part):
            found |= {str(n) for n in range(int(span[1]), int(span[2]) + 1)}
        else:
            found.add(part)
    return found


def test_every_requirement_has_a_row() -> None:
    covered = set().union(*(numbers(cell) for cell, _ in rows()))
    assert [number for number in NUMBERS if number not in covered] == []


def test_every_named_test_exists() -> None:
    here = Path(__file__).parent
    named = re.findall(
        r"`(test_\w+\.py)(?:::(\w+))?`", TABLE.read_text(encoding="utf-8")
    )
    assert len(named) > 60
    texts = {name: (here / name).read_text(encoding="utf-8") for name, _ in named}
    assert [
        (name, test)
        for name, test in named
        if test and f"def {test}(" not in texts[name]
    ] == []

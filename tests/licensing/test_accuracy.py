"""Labelled distributions, where they are installed: exact often, milder never.

``LAZYCORE_TRUTH_SITE``, ``LAZYCORE_UNSEEN_SITE``, ``..._UNSEEN_2_SITE`` and
``..._UNSEEN_3_SITE`` name ``site-packages`` folders, parted like ``PATH``, that hold
the distributions of a table.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from lazycore.licensing import LicenseClass, assess, parse, resolve
from lazycore.licensing._policy import normalize_name

DATA = Path(__file__).parent / "data"
TABLES = {
    "LAZYCORE_TRUTH_SITE": ("license_truth_dev.tsv", 0.92),
    "LAZYCORE_UNSEEN_SITE": ("license_truth_unseen.tsv", 0.85),
    "LAZYCORE_UNSEEN_2_SITE": ("license_truth_unseen_2.tsv", 0.85),
    "LAZYCORE_UNSEEN_3_SITE": ("license_truth_unseen_3.tsv", 0.92),
}
# What these carry of others is labelled, and nothing the wheel declares says so.
UNFLAGGED = {
    *("apache-superset", "django-compressor", "mkl", "nuitka", "reportlab", "sip"),
    *("drf-spectacular-sidecar", "werkzeug", "yapf"),
}


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def shape(text: str) -> tuple[frozenset[str], bool]:
    return frozenset(map(str, parse(text).licenses())), " OR " in text


@pytest.mark.parametrize("name", [name for name, _ in TABLES.values()])
def test_every_label_is_an_expression_of_its_class(name: str) -> None:
    by_slug = {kind.slug for kind in LicenseClass}
    for row in rows(name):
        assert str(parse(row["truth"])) != ""
        assert row["class"] in by_slug


@pytest.mark.slow
@pytest.mark.parametrize("variable", TABLES)
def test_labelled_distributions_are_never_called_milder(variable: str) -> None:
    place = os.environ.get(variable)
    if not place:
        pytest.skip(f"{variable} names no site-packages with the labelled wheels")
    name, share = TABLES[variable]
    folders = {
        normalize_name(path.name.split("-")[0]): path
        for folder in place.split(os.pathsep)
        for path in Path(folder).glob("*.dist-info")
    }
    exact = total = 0
    milder, unflagged = [], []
    for row in rows(name):
        folder = folders.get(normalize_name(row["name"]))
        if folder is None:
            continue
        total += 1
        found = resolve(folder)
        if row["bundled"] and not found.bundled:
            unflagged.append(row["name"])
        if found.expression is None:
            continue
        wanted = [row["truth"], *filter(None, row["accept"].split(" ;; "))]
        exact += shape(found.expression) in map(shape, wanted)
        kind = assess(found.expression, usage="distributed").license_class
        if kind < LicenseClass[row["class"].upper().replace("-", "_")]:
            milder.append((row["name"], found.expression))
    assert total >= 0.85 * len(rows(name))
    assert milder == []
    assert set(unflagged) <= UNFLAGGED
    assert exact >= share * total

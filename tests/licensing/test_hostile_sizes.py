"""What is made to be read for hours is read in a moment.

Each text makes a pattern that tries from many starts, and reads on from each, do its
worst: read in quadratic time it would not end within the suite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lazycore.licensing import resolve
from lazycore.licensing._texts import identify

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 300_000
METADATA = "Metadata-Version: 2.1\nName: odd\nVersion: 1.0\nLicense: MIT\n"


def repeated(text: str) -> str:
    return text * (SIZE // len(text))


@pytest.mark.once
@pytest.mark.parametrize(
    "path",
    [
        *(".libs/", ".dylibs/", "/vendor/", "/_vendored/", "/third_party/"),
        *("/externals/", "x.dist-info/sboms/", ".so.1", "/lib.so", "lib", ".exe"),
        *("/bin/", "/bin/-1", "x.dist-info/METADATA", "/a.egg-info", "-1.2"),
    ],
)
@pytest.mark.parametrize("end", ["!", ",,"])
def test_a_list_of_files_with_one_endless_path(
    tmp_path: Path, path: str, end: str
) -> None:
    folder = tmp_path / "odd-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(METADATA)
    (folder / "RECORD").write_text(f"a{repeated(path)}{end}\nodd/lib.so,,\n")
    found = resolve(folder)
    assert found.expression == "MIT"
    assert "odd/lib.so" in [item.path for item in found.bundled]


@pytest.mark.once
@pytest.mark.parametrize(
    "word",
    [
        *("prohibit", "prohibited ", "no ", "not commercial ", "commercial use "),
        *("may not ", "may not use ", "all rights reserved ", "research and x "),
        *("unauthorized use ", "notwithstanding any other ", "requires a paid "),
        *(
            "either the ",
            "licensed under ",
            "x",
            "(",
            "[",
            " ",
            "\n",
            "-",
            "#",
            "Exhibit",
        ),
    ],
)
def test_a_licence_text_of_one_endless_phrase(word: str) -> None:
    # The first words let every pattern look, and satisfy none.
    text = "academic. commercially. military. all rights reserved. " + repeated(word)
    assert identify(text).matches == ()

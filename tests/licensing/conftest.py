"""Distributions made on the spot: metadata, licence files and RECORD as told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MIT = """MIT License

Copyright (c) 2020 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this
software and associated documentation files (the "Software"), to deal in the Software
without restriction, including without limitation the rights to use, copy, modify,
merge, publish, distribute, sublicense, and/or sell copies of the Software, and to
permit persons to whom the Software is furnished to do so, subject to the following
conditions:

The above copyright notice and this permission notice shall be included in all copies
or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED,
INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A
PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT
HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE
OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


class MakeDist(Protocol):
    """Write one ``.dist-info`` folder and return its path."""

    def __call__(
        self,
        name: str = ...,
        headers: str = ...,
        *,
        body: str = ...,
        version: str = ...,
        files: dict[str, str] | None = ...,
        installed: dict[str, str] | None = ...,
    ) -> Path:
        """Write the folder."""


@pytest.fixture
def mit_text() -> str:
    return MIT


@pytest.fixture
def make_dist(tmp_path: Path) -> MakeDist:
    site = tmp_path / "site-packages"

    def make(
        name: str = "demo",
        headers: str = "",
        *,
        body: str = "",
        version: str = "1.0",
        files: dict[str, str] | None = None,
        installed: dict[str, str] | None = None,
    ) -> Path:
        folder = site / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        head = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{headers}"
        (folder / "METADATA").write_text(f"{head.rstrip()}\n\n{body}", "utf-8")
        paths = [f"{folder.name}/METADATA"]
        for path, text in (files or {}).items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
            paths.append(f"{folder.name}/{path}")
        for path, text in (installed or {}).items():
            place = site / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
            paths.append(path)
        record = "".join(f"{path},,\n" for path in [*paths, f"{folder.name}/RECORD"])
        (folder / "RECORD").write_text(record, "utf-8")
        return folder

    return make

"""Open the report in a real browser, in both themes and without scripts."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments._report import write_report
from lazycore.experiments._study import Metric

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import RunRecord

    MakeRecord = Callable[..., RunRecord]

_NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in _NAMES if (path := shutil.which(name))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="chromium is not installed"),
]
DARK, LIGHT = 0, 1


@pytest.fixture
def report(make_record: MakeRecord, tmp_path: Path) -> Path:
    units = {
        f"unit-{i:04d}": [(float(i % 7 > 0), float(i % 19 > 0))] * 2 for i in range(400)
    }
    record = make_record(
        {"first bench": units, "second bench": units},
        metric=Metric(name="accuracy", title="accuracy", kind="binary", primary=True),
        output={"said": "<i>seven</i>"},
    )
    path = tmp_path / "report.html"
    write_report(record, path)
    return path


def browse(page: Path, *options: str, scheme: int = LIGHT) -> str:
    profile = page.with_name(f"profile-{scheme}")
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            f"--user-data-dir={profile}",
            f"--blink-settings=preferredColorScheme={scheme}",
            "--window-size=1200,1600",
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def corner(picture: Path) -> tuple[int, int, int]:
    """Return the colour of the first pixel of a PNG of 8-bit colours."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    packed, at = b"", 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += 12 + size
    line = zlib.decompressobj().decompress(packed, 4)
    # Whatever the filter of the first line, its first pixel is stored as it is.
    return line[1], line[2], line[3]


def test_the_script_runs_under_the_pages_own_policy(report: Path) -> None:
    document = browse(report, "--dump-dom", "--virtual-time-budget=2000")
    # What only the script adds: the theme button, sortable heads, filters.
    assert re.search(r"<button[^>]*>Dark</button>", document)
    assert '<th scope="col" class="sortable" tabindex="0">Benchmark</th>' in document
    assert document.count('<input type="search"') == 2
    assert "&lt;i&gt;seven&lt;/i&gt;" in document


def test_both_themes_paint_their_own_paper(report: Path) -> None:
    for scheme, dark in ((LIGHT, False), (DARK, True)):
        picture = report.with_name(f"{scheme}.png")
        browse(report, f"--screenshot={picture}", scheme=scheme)
        assert (sum(corner(picture)) < 3 * 60) is dark


def test_the_page_reads_without_scripts(report: Path) -> None:
    bare = report.with_name("bare.html")
    text = report.read_text(encoding="utf-8")
    bare.write_text(re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL), "utf-8")
    document = browse(bare, "--dump-dom")
    assert "<button" not in document
    for word in ("first bench", "helps", "unit-0007", "verify", "</svg>"):
        assert word in document

from __future__ import annotations

import html.parser
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments._comparison import compare_run
from lazycore.experiments._report import write_report
from lazycore.experiments._report._markup import element, join, text
from lazycore.experiments._report._scale import nice_scale
from lazycore.experiments._report._write import render
from lazycore.experiments._study import Metric, ModelSlot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import RunRecord

    MakeRecord = Callable[..., RunRecord]

BINARY = Metric(
    name="accuracy",
    title="accuracy",
    kind="binary",
    primary=True,
    equivalence_margin=0.02,
)
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '\'" onmouseover=alert(1) x="',
    "&lt;b&gt;",
    "\u202egnp.exe",
    "\x1b[31mred\x00",
    "lone \ud800 surrogate",
    "]]> --> <!-- <![CDATA[",
)
VOID = {"br", "col", "hr", "input", "meta"}


class Outline(html.parser.HTMLParser):
    """Check that elements nest, and collect tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"script", "style"}:
            self.words.append(data)


def outline(data: bytes) -> Outline:
    found = Outline()
    found.feed(data.decode())
    found.close()
    assert found.open == []
    return found


def mixed(units: int) -> dict[str, list[tuple[float | None, float | None]]]:
    """Return units of which every seventh gained and every ninth lost."""
    return {
        f"unit-{i:04d}": [(float(i % 7 > 0), float(i % 9 > 0))] * 2
        for i in range(units)
    }


def pages(record: RunRecord) -> bytes:
    return render(record, compare_run(record))


def test_verdict_and_digests_come_first(make_record: MakeRecord) -> None:
    record = make_record({"bench": mixed(200)}, metric=BINARY)
    found = outline(pages(record))
    body = " ".join(found.words[found.words.index("lazycore experiments") :])
    headline = body.index(compare_run(record).headline)
    assert headline < body.index("abababab") < body.index("Differences")
    assert f"lazycore-experiments verify {record.path}" in body


def test_everything_that_was_measured_is_in_the_text(make_record: MakeRecord) -> None:
    record = make_record(
        {"first": mixed(200), "second": mixed(90)},
        metric=BINARY,
        output={"predicted": "seven", "actual": "nine"},
    )
    body = "".join(outline(pages(record)).words)
    for result in compare_run(record).results:
        assert result.benchmark_title in body
        assert f"{result.wins:,}" in body
    for word in ("unit-0007", "seven", "No attempt failed", "network, memory"):
        assert word in body


def test_the_same_run_gives_the_same_bytes(
    make_record: MakeRecord, tmp_path: Path
) -> None:
    record = make_record({"bench": mixed(120)}, metric=BINARY)
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    write_report(record, one)
    write_report(record, two)
    assert one.read_bytes() == two.read_bytes()
    assert sorted(path.name for path in tmp_path.glob("*.html*")) == [
        "one.html",
        "two.html",
    ]


def test_a_report_that_can_not_be_written_leaves_nothing_behind(
    make_record: MakeRecord, tmp_path: Path
) -> None:
    record = make_record({"bench": mixed(20)}, metric=BINARY)
    place = tmp_path / "out"
    (place / "report.html").mkdir(parents=True)
    with pytest.raises(OSError, match=r"report\.html"):
        write_report(record, place / "report.html")
    assert [path.name for path in place.iterdir()] == ["report.html"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_and_outputs_stay_text(
    make_record: MakeRecord, hostile: str
) -> None:
    values: dict[str, list[tuple[float | None, float | None]]]
    values = {f"{hostile}{i}": [(0.0, 1.0)] for i in range(20)}
    values |= {f"{hostile}{i}": [(1.0, None)] for i in range(20, 26)}
    record = make_record(
        {hostile: values},
        metric=Metric(name="accuracy", title=hostile, kind="binary", primary=True),
        titles=(hostile, hostile, hostile),
        output={hostile.replace("\ud800", "?"): [hostile.replace("\ud800", "?")]},
    )
    data = pages(record)
    found = outline(data)
    assert "img" not in found.tags
    assert found.tags.count("script") == 1
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    steering = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
    assert not steering.search(data.decode())


def test_nothing_is_loaded_and_scripts_are_pinned(make_record: MakeRecord) -> None:
    data = pages(make_record({"bench": mixed(50)}, metric=BINARY))
    found = outline(data)
    assert found.tags.count("script") == 1
    assert not [
        (name, value)
        for name, value in found.attributes
        if name in {"src", "href", "srcset", "style"} or name.startswith("on")
    ]
    assert b"http://" not in data
    assert b"https://" not in data
    assert b"url(" not in data
    policy = next(v for k, v in found.attributes if v and "default-src" in v)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "size",
    [
        pytest.param((1, 2_000, 3), id="many units", marks=pytest.mark.slow),
        pytest.param((24, 60, 1), id="many benchmarks", marks=pytest.mark.slow),
        pytest.param((200, 3, 1), id="hundreds of benchmarks", marks=pytest.mark.slow),
        pytest.param((50, 4, 1), id="fifty benchmarks"),
    ],
)
@pytest.mark.once
def test_a_large_run_still_fits_one_small_file(
    make_record: MakeRecord, size: tuple[int, int, int]
) -> None:
    benchmarks, units, seeds = size
    values = {
        f"benchmark-{b:03d}": {
            f"unit-{u:05d}": [
                (math.sin(b + u), math.cos(b * u) + s) for s in range(seeds)
            ]
            for u in range(units)
        }
        for b in range(benchmarks)
    }
    record = make_record(values, output={"text": "word " * 400})
    data = pages(record)
    assert len(data) <= 300_000
    outline(data)


def test_names_of_any_length_still_fit(make_record: MakeRecord) -> None:
    long = "long " * 20_000
    values: dict[str, list[tuple[float | None, float | None]]]
    values = {f"{long}{i}": [(0.0, None if i % 2 else 1.0)] for i in range(12)}
    record = make_record(
        {long: values},
        metric=Metric(name="accuracy", title=long, kind="binary", primary=True),
        titles=(long, long, long),
        output={long: long},
    )
    many = {f"key-{i}": long for i in range(500)}
    record = replace(record, provenance=many)
    data = pages(record)
    assert len(data) <= 300_000
    outline(data)


def test_an_interim_report_is_watermarked(make_record: MakeRecord) -> None:
    record = make_record({"bench": mixed(50)}, metric=BINARY, planned=400)
    data = pages(record).decode()
    assert '<body class="interim">' in data
    assert "no p of this page holds its level" in data


def test_a_run_without_a_single_result_has_a_report(make_record: MakeRecord) -> None:
    record = make_record({"bench": {"u0": [(None, None)]}, "none": {"u1": []}})
    body = "".join(outline(pages(record)).words)
    assert "timeout" in body
    assert "not measured" in body


def test_failures_and_policies_are_side_by_side(make_record: MakeRecord) -> None:
    values = mixed(60) | {f"x{i}": [(1.0, None)] for i in range(5)}
    body = "".join(outline(pages(make_record({"bench": values}, metric=BINARY))).words)
    for word in ("drop-pair", "worst-case", "declared: the verdict rests on it"):
        assert word in body
    assert "5 pairs with a failed arm" in body


def test_real_valued_units_are_dots(make_record: MakeRecord) -> None:
    values = {f"u{i:03d}": [(math.sin(i), math.cos(i))] for i in range(150)}
    data = pages(make_record({"bench": values})).decode()
    assert data.count('class="dots') == 2
    assert 'class="disc ' not in data


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("<b>&'\"", "&lt;b&gt;&amp;&#x27;&quot;"),
        ("a\x1bb", "a\\u001bb"),
        ("\u202ex", "\\u202ex"),
        ("\ud800", "\\ud800"),
        ("ünï çødé \N{PILE OF POO}\n\t", "ünï çødé \N{PILE OF POO}\n\t"),
    ],
)
def test_text_is_escaped(value: str, escaped: str) -> None:
    assert text(value) == escaped
    assert text(text(value)) == escaped


def test_elements_take_text_markup_lists_and_nothing() -> None:
    inner = element("b", "<")
    assert (
        element(
            "p", "a", inner, [None, inner], class_="x", data_value=1.5, hidden=False
        )
        == '<p class="x" data-value="1.5">a<b>&lt;</b><b>&lt;</b></p>'
    )
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert element("td") == "<td></td>"
    assert join(["a", ("b",)], None) == "ab"


@pytest.mark.parametrize(
    "values",
    [[0.0], [0.0, 0.0], [1e-300, 2e-300], [-1e9, 1e9], [0.0, 0.489], [5.0, 5.0]],
)
def test_scales_hold_their_values_and_have_round_ticks(values: list[float]) -> None:
    scale = nice_scale(values, start=10, end=110)
    assert scale.low < min(values)
    assert scale.high > max(values)
    assert 2 <= len(scale.ticks) <= 7
    assert all(10 <= scale(value) <= 110 for value in values)
    assert (scale(-math.inf), scale(math.inf)) == (10, 110)


def test_what_models_cost_is_paired_like_everything_else(
    make_record: MakeRecord,
) -> None:
    record = make_record({"bench": {f"u{i}": [(0.0, 1.0)] for i in range(8)}})
    assert b"Model cost" not in pages(record)
    rows = tuple(
        replace(
            row,
            input_tokens=1_000 if row.arm == "no_op" else 1_500 + int(row.unit[1:]),
            output_tokens=None if row.unit == "u0" else 20,
            cost_usd=0.002 if row.arm == "no_op" else 0.003,
        )
        for row in record.rows
    )
    page = pages(replace(record, rows=rows)).decode()
    assert "Input tokens per request: candidate minus baseline" in page
    assert "Model cost per request: candidate minus baseline" in page
    assert "no_op: 8,000 tokens read, 140 written, $0.0160" in page
    assert "candidate: 12,028 tokens read, 140 written, $0.0240" in page
    assert "+$0.00100" in page
    # u0 told nothing: it is left out of the pairs, not counted as 0.
    assert "<small>7 units</small>" in page


def test_provenance_says_when_and_under_which_licence(make_record: MakeRecord) -> None:
    record = make_record({"bench": mixed(9)}, metric=BINARY)
    slot = ModelSlot(
        slot="main",
        checkpoint="org/model",
        license="LicenseRef-terms",
        tier=2,
        conditions=("name the model",),
    )
    facts = {"started_unix_s": 0, "backend": "boxes", "lock": "x" * 64, "cores": None}
    study = replace(record.study, models=(slot,))
    page = pages(replace(record, study=study, provenance=facts)).decode()
    for words in (
        "Model slot main",
        "org/model, LicenseRef-terms, tier 2, accepted for this run: name the model",
        "1970-01-01 00:00:00 UTC",
        '<th scope="row">Sandbox</th><td>boxes</td>',
        '<th scope="row">Cores</th><td>unknown</td>',
    ):
        assert words in page
    assert "x" * 64 not in page

"""The page around the sections: verdict first, style and script inline."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from lazycore.experiments._numbers import clipped, duration, plural
from lazycore.experiments._report._differences import tone
from lazycore.experiments._report._markup import Markup, element, join
from lazycore.experiments._report._provenance import digest_text, verify_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.experiments._paired_result import Comparison
    from lazycore.experiments._reader import RunRecord

__all__ = ["page"]

_TITLE = 200


def page(record: RunRecord, comparison: Comparison, sections: Sequence[object]) -> str:
    """Return the whole document."""
    style, script = _asset("report.css"), _asset("report.js")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    )
    title = clipped(record.study.title or record.study.id, _TITLE)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} \N{EM DASH} {comparison.headline}"),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        _opening(record, comparison),
        element("main", sections),
        element(
            "footer",
            "Written by lazycore-experiments from the run's journal. This file loads "
            "nothing: it reads the same offline, printed, and with scripts disabled.",
        ),
        element("script", Markup(script)),
        class_="interim" if comparison.tentative else None,
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _opening(record: RunRecord, comparison: Comparison) -> Markup:
    study = record.study
    units = sum(len(benchmark.units) for benchmark in study.benchmarks)
    failed = f"{record.failed_cells:,} failed" if record.failed_cells else "none failed"
    tones = {tone(result) for result in comparison.primary}
    mood = "bad" if "bad" in tones else "good" if "good" in tones else "none"
    facts = (
        (
            f"{record.finished_cells:,}",
            f"of {plural(record.planned_cells, 'cell')}, {failed}",
        ),
        (f"{units:,}", f"units in {plural(len(study.benchmarks), 'benchmark')}"),
        (
            f"{len(study.seeds)}",
            "seeds per unit" if len(study.seeds) > 1 else "seed per unit",
        ),
        (f"{len(study.arms)}", "arms in the sandbox"),
        (duration(record.wall_s), f"in {plural(record.sessions, 'session')}"),
    )
    lead = [
        element("li", _unbroken(result.sentence), class_=tone(result))
        for result in comparison.primary[:8]
    ]
    return element(
        "header",
        element(
            "p",
            element("span", "lazycore experiments"),
            element("span", study.id),
            class_="eyebrow",
        ),
        element("h1", clipped(study.title or study.id, _TITLE)),
        element("p", clipped(study.question, 2 * _TITLE), class_="question")
        if study.question
        else None,
        element(
            "div",
            element("p", comparison.headline, class_="headline"),
            element("ul", lead) if lead else None,
            class_=f"box {mood}",
        ),
        element(
            "dl",
            [
                element("div", element("dt", label), element("dd", number))
                for number, label in facts
            ],
            class_="facts-strip",
        ),
        element(
            "dl",
            element(
                "div",
                element("dt", "study lock"),
                element("dd", digest_text(record.lock_digest)),
            ),
            element(
                "div",
                element("dt", "results"),
                element("dd", digest_text(record.results_digest)),
            ),
            element(
                "div",
                element("dt", "check it"),
                element("dd", element("code", verify_command(record))),
            ),
            class_="seals",
        ),
    )


def _unbroken(sentence: str) -> str:
    """Keep a number and its unit or sign on one line."""
    for broken in ("p = ", "p < ", " pp", " %"):
        sentence = sentence.replace(broken, broken.replace(" ", "\N{NO-BREAK SPACE}"))
    return sentence


def _asset(name: str) -> str:
    return join(Markup((files(__package__) / name).read_text(encoding="utf-8")))


def _hash(content: str) -> str:
    value = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(value).decode()}"

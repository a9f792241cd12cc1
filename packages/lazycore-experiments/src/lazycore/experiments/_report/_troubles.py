"""The fourth section: what failed, what was tried again, and whether it matters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lazycore.experiments._numbers import amount, clipped, joined, p_text, plural, span
from lazycore.experiments._report._markup import Markup, element

if TYPE_CHECKING:
    from lazycore.experiments._paired_result import Comparison, PairedResult
    from lazycore.experiments._reader import RunRecord
    from lazycore.experiments._report._detail import Detail

__all__ = ["troubles"]


def troubles(record: RunRecord, comparison: Comparison, detail: Detail) -> Markup:
    """Return failures by class and arm, one by one, and what other policies say."""
    runs = record.finished_cells * len(record.study.arms)
    head = element("h2", "Failures and retries")
    if not record.failures:
        calm = f"No attempt failed in {plural(runs, 'arm run')}, and none was repeated."
        return element("section", head, element("p", calm), id="failures")
    parts = [
        _by_class(record),
        _listed(record, detail),
        *[
            _sensitivity(result)
            for result in comparison.primary[: detail.rows]
            if result.sensitivity
        ],
    ]
    return element("section", head, parts, id="failures")


def _by_class(record: RunRecord) -> Markup:
    arms = [arm.name for arm in record.study.arms]
    counts = Counter((row.failure_class, row.arm, row.final) for row in record.failures)
    classes = sorted({row.failure_class for row in record.failures})
    head = element(
        "tr",
        element("th", "Class", scope="col"),
        [element("th", f"{arm}, final", scope="col", class_="number") for arm in arms],
        [
            element("th", f"{arm}, retried", scope="col", class_="number")
            for arm in arms
        ],
    )
    rows = [
        element(
            "tr",
            element("th", kind, scope="row"),
            [
                element("td", f"{counts[kind, arm, final]:,}", class_="number")
                for final in (True, False)
                for arm in arms
            ],
        )
        for kind in classes
    ]
    return element("table", element("thead", head), element("tbody", rows))


def _listed(record: RunRecord, detail: Detail) -> Markup:
    shown = record.failures[: detail.failures]
    rows = [
        element(
            "tr",
            element("td", row.failure_class),
            element("td", row.arm),
            element("td", clipped(row.benchmark, 80)),
            element("td", clipped(joined(row.units, most=3), 120)),
            element("td", str(row.seed), class_="number"),
            element("td", str(row.attempt), class_="number"),
            element("td", clipped(row.message, detail.output or 80), class_="message"),
        )
        for row in shown
    ]
    names = ("Class", "Arm", "Benchmark", "Units", "Seed", "Attempt", "Message")
    head = element("tr", [element("th", name, scope="col") for name in names])
    left = len(record.failures) - len(shown)
    more = f" (the first {len(shown):,} of {len(record.failures):,})" if left else ""
    return element(
        "details",
        element("summary", element("strong", f"Failed attempts one by one{more}")),
        element(
            "div",
            element("table", element("thead", head), element("tbody", rows)),
            class_="scroll",
        ),
    )


def _sensitivity(result: PairedResult) -> Markup:
    rows = [
        element(
            "tr",
            element(
                "th",
                row.name,
                element("small", "declared: the verdict rests on it")
                if row.declared
                else None,
                scope="row",
            ),
            element("td", f"{row.units:,}", class_="number"),
            element(
                "td",
                "\N{EM DASH}"
                if row.difference is None
                else amount(row.difference, kind=result.kind),
                class_="number",
            ),
            element(
                "td",
                span(row.interval, kind=result.kind) if row.interval else "\N{EM DASH}",
                class_="number",
            ),
            element("td", p_text(row.p_value), class_="number"),
        )
        for row in result.sensitivity
    ]
    names = (
        ("Treatment", None),
        ("Units", "number"),
        ("Difference", "number"),
        ("Interval", "number"),
        ("Uncorrected p", "number"),
    )
    head = element(
        "tr", [element("th", name, scope="col", class_=kind) for name, kind in names]
    )
    return element(
        "div",
        element(
            "h3",
            f"Does it matter? {result.benchmark_title}, {result.metric_title} ",
            element(
                "small", f"{plural(result.failed_pairs, 'pair')} with a failed arm"
            ),
        ),
        element("table", element("thead", head), element("tbody", rows)),
        class_="group",
    )

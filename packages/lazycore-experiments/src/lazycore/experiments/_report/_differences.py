"""The first section: every difference on one axis, with its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.experiments._numbers import (
    amount,
    level_text,
    p_text,
    plural,
    size_text,
    span,
)
from lazycore.experiments._report._forest import Mark, axis, forest_scale, row
from lazycore.experiments._report._markup import Markup, element, join
from lazycore.experiments._verdict import Verdict, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.experiments._paired_result import Comparison, PairedResult
    from lazycore.experiments._report._detail import Detail
    from lazycore.experiments._report._scale import Scale

__all__ = ["differences", "tone"]

_TONES = {Verdict.HELPS: "good", Verdict.HARMS: "bad", Verdict.EQUIVALENT: "same"}
_SHORT = {
    Verdict.EQUIVALENT: "equivalent",
    Verdict.NO_DIFFERENCE: "no difference shown",
}


def tone(result: PairedResult) -> str:
    """Return the colour class of a verdict."""
    return _TONES.get(result.verdict, "none")


def differences(comparison: Comparison, detail: Detail) -> Markup:
    """Return one table per metric and arm: primaries open, the rest explored."""
    groups: dict[tuple[str, str], list[PairedResult]] = {}
    for result in comparison.results:
        groups.setdefault((result.metric, result.arm), []).append(result)
    tables = [_table(group, detail) for group in groups.values()]
    return element("section", element("h2", "Differences"), tables, id="differences")


def _table(results: Sequence[PairedResult], detail: Detail) -> Markup:
    first = results[0]
    shown = results[: detail.rows]
    marks = [_mark(result) for result in shown]
    scale = forest_scale(marks)
    binary = first.kind == "binary"
    better, worse = f"{first.arm_title} better", "baseline better"
    sides = (worse, better) if first.goal == "maximize" else (better, worse)
    foot = axis(
        scale,
        factor=100.0 if binary else 1.0,
        left=sides[0],
        right=sides[1],
    )
    level = f"{100 * first.confidence:.4g} % interval"
    head = element(
        "tr",
        element("th", "Benchmark", scope="col"),
        element("th", "baseline", scope="col", class_="number wide"),
        element("th", first.arm_title, scope="col", class_="number wide"),
        element("th", _axis_title(first), scope="col", class_="plot", data_sort="no"),
        element(
            "th", "Difference", element("small", level), scope="col", class_="number"
        ),
        element("th", "Adjusted p", scope="col", class_="number wide"),
        element("th", "Verdict", scope="col"),
    )
    body = [_row(r, m, scale) for r, m in zip(shown, marks, strict=True)]
    blank = element("td", class_="wide")
    footer = element(
        "tr",
        element("td"),
        blank,
        blank,
        element("td", foot, class_="plot"),
        element("td"),
        blank,
        element("td"),
    )
    kind = "primary" if first.primary else "exploratory, not part of the verdict"
    return element(
        "div",
        element(
            "h3",
            f"{first.metric_title}: {first.arm_title} minus baseline ",
            element("small", kind),
        ),
        element(
            "table",
            element("thead", head),
            element("tbody", body),
            element("tfoot", footer),
            class_="differences",
        ),
        _margin_note(first),
        _left_out(len(results) - len(shown), "comparison"),
        class_="group" if first.primary else "group explored",
    )


def _row(result: PairedResult, mark: Mark, scale: Scale) -> Markup:
    count = counted(result, times="\N{MULTIPLICATION SIGN}")
    kind = result.kind
    if result.difference is None:
        blank = element("td", "\N{EM DASH}", class_="number")
        wide = element("td", "\N{EM DASH}", class_="number wide")
        cells = [wide, wide, element("td", class_="plot"), blank, wide]
    else:
        assert result.baseline_mean is not None
        assert result.candidate_mean is not None
        interval = (
            element("small", span(result.interval, kind=kind).removesuffix(" pp"))
            if result.interval
            else element("small", "no interval")
        )
        p_shown = p_text(result.p_adjusted).removeprefix("p ").removeprefix("= ")
        cells = [
            _number(level_text(result.baseline_mean, kind=kind), result.baseline_mean),
            _number(
                level_text(result.candidate_mean, kind=kind), result.candidate_mean
            ),
            element("td", row(mark, scale), class_="plot"),
            element(
                "td",
                element("strong", amount(result.difference, kind=kind)),
                interval,
                class_="number",
                data_value=f"{result.difference!r}",
            ),
            _number(p_shown, result.p_adjusted or 0.0),
        ]
    verdict = _SHORT.get(result.verdict, result.verdict.value)
    return element(
        "tr",
        element("th", result.benchmark_title, element("small", count), scope="row"),
        cells,
        element("td", element("span", verdict, class_=f"verdict {tone(result)}")),
    )


def _number(shown: str, value: float) -> Markup:
    return element("td", shown, class_="number wide", data_value=repr(value))


def _mark(result: PairedResult) -> Mark:
    return Mark(
        value=result.difference,
        interval=result.interval,
        tone=tone(result),
        margin=result.margin,
        label=result.sentence,
    )


def _axis_title(result: PairedResult) -> Markup:
    unit = "percentage points" if result.kind == "binary" else result.metric_title
    return join(f"Difference in {unit}")


def _margin_note(result: PairedResult) -> Markup | None:
    if result.margin is None:
        return None
    margin = size_text(result.margin, kind=result.kind)
    return element(
        "p",
        f"The shaded band is the declared equivalence margin, {margin} to each side.",
        class_="note",
    )


def _left_out(count: int, noun: str) -> Markup | None:
    if count <= 0:
        return None
    return element("p", f"{plural(count, noun)} more, not shown here.", class_="note")

"""The second section: units one by one, and the answers where the arms differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lazycore.experiments._numbers import clipped, level_text, plural
from lazycore.experiments._report._differences import tone
from lazycore.experiments._report._markup import Markup, element, join
from lazycore.experiments._report._scatter import scatter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._paired_result import Comparison, PairedResult
    from lazycore.experiments._pairing import PairedUnit
    from lazycore.experiments._reader import RunRecord
    from lazycore.experiments._report._detail import Detail
    from lazycore.experiments._results import ResultRow

__all__ = ["units"]

_Values = dict[tuple[str, str, str, str], "ResultRow"]


def units(record: RunRecord, comparison: Comparison, detail: Detail) -> Markup | None:
    """Return a drawing and a list of discordant units per primary comparison."""
    shown = [r for r in comparison.primary if r.paired][: detail.plots]
    if not shown:
        return None
    wanted = {
        (unit.unit, cell)
        for result in shown
        for unit in _listed(result, detail)
        for cell in unit.cells
    }
    values: _Values = {
        (row.cell, row.arm, row.unit, row.metric): row
        for row in record.rows
        if (row.unit, row.cell) in wanted
    }
    figures = [_figure(result, detail) for result in shown]
    lists = [_list(record, result, values, detail) for result in shown]
    return element(
        "section",
        element("h2", "Unit by unit"),
        element(
            "p",
            "Each disc or dot is a unit, its seeds averaged. Off the diagonal the "
            "arms differ: above it the arm did more than the baseline. A disc's area "
            "is the number of units on that place.",
            class_="lead",
        ),
        element("div", figures, class_="figures"),
        element("h3", "Where the arms disagree"),
        lists,
        id="units",
    )


def _figure(result: PairedResult, detail: Detail) -> Markup:
    total = result.wins + result.ties + result.losses
    bar = element(
        "svg",
        [
            element(
                "rect",
                x=100 * start / total,
                y="0",
                width=100 * size / total,
                height="6",
                class_=f"bar {kind}",
            )
            for kind, start, size in (
                ("good", 0, result.wins),
                ("none", result.wins, result.ties),
                ("bad", result.wins + result.ties, result.losses),
            )
            if size
        ],
        viewBox="0 0 100 6",
        preserveAspectRatio="none",
        class_="tally",
        aria_hidden="true",
    )
    counts = element(
        "p",
        element("b", f"{result.wins:,}", class_="good"),
        " better  ",
        element("b", f"{result.ties:,}"),
        " equal  ",
        element("b", f"{result.losses:,}", class_="bad"),
        " worse",
        class_="counts",
    )
    return element(
        "figure",
        element(
            "figcaption",
            element("strong", result.benchmark_title),
            element("span", f"{result.metric_title}, {result.arm_title}"),
        ),
        scatter(result, dots=detail.dots),
        bar,
        counts,
        class_=tone(result),
    )


def _listed(result: PairedResult, detail: Detail) -> list[PairedUnit]:
    """Return the units with the largest differences, losses first."""
    sign = 1 if result.goal == "maximize" else -1
    changed = sorted(
        (unit for unit in result.paired if unit.difference),
        key=lambda unit: (-abs(unit.difference), unit.unit),
    )
    losses = [unit for unit in changed if sign * unit.difference < 0]
    wins = [unit for unit in changed if sign * unit.difference > 0]
    return losses[: detail.listed] + wins[: detail.listed]


def _list(
    record: RunRecord, result: PairedResult, values: _Values, detail: Detail
) -> Markup | None:
    listed = _listed(result, detail)
    if not listed:
        return element(
            "p",
            element("strong", result.benchmark_title),
            f": the arms agree on all {plural(result.units, 'unit')}.",
        )
    sign = 1 if result.goal == "maximize" else -1
    several = result.seeds > 1
    rows = []
    for unit in listed:
        cell = _first_difference(unit, result, record.study.baseline, values)
        answers = [
            _answer(
                record,
                cell,
                arm,
                unit.unit,
                values.get((cell, arm, unit.unit, result.metric)),
            )
            for arm in (record.study.baseline, result.arm)
        ]
        one, two, both = _contrast(*answers, limit=detail.output)
        seed = values[cell, result.arm, unit.unit, result.metric].seed
        rows.append(
            element(
                "tr",
                element("th", clipped(unit.unit, detail.output), scope="row"),
                element(
                    "td",
                    "better" if sign * unit.difference > 0 else "worse",
                    class_="good" if sign * unit.difference > 0 else "bad",
                ),
                element(
                    "td",
                    level_text(unit.baseline, kind=result.kind),
                    class_="number",
                    data_value=repr(unit.baseline),
                ),
                element(
                    "td",
                    level_text(unit.candidate, kind=result.kind),
                    class_="number",
                    data_value=repr(unit.candidate),
                ),
                element("td", str(seed), class_="number") if several else None,
                element("td", one),
                element("td", two),
                element("td", both) if any(True for _ in both) else element("td"),
            )
        )
    head = element(
        "tr",
        [
            element("th", name, scope="col", class_=kind)
            for name, kind in (
                ("Unit", None),
                ("Arm is", None),
                ("baseline", "number"),
                (result.arm_title, "number"),
                *([("Seed", "number")] if several else []),
                ("baseline answered", None),
                (f"{result.arm_title} answered", None),
                ("Both answered", None),
            )
        ],
    )
    changed = result.wins + result.losses
    more = f", the {len(listed):,} largest listed" if len(listed) < changed else ""
    return element(
        "details",
        element(
            "summary",
            element("strong", result.benchmark_title),
            f" {plural(changed, 'unit')} of {result.units:,}{more}",
        ),
        element(
            "div",
            element(
                "table",
                element("thead", head),
                element("tbody", rows),
                class_="discordant",
            ),
            class_="scroll",
        ),
        open=result.verdict.value == "harms" or None,
    )


def _first_difference(
    unit: PairedUnit, result: PairedResult, baseline: str, values: _Values
) -> str:
    for cell in unit.cells:
        one = values[cell, baseline, unit.unit, result.metric].value
        two = values[cell, result.arm, unit.unit, result.metric].value
        if one != two:
            return cell
    return unit.cells[0]


def _answer(
    record: RunRecord, cell: str, arm: str, unit: str, row: ResultRow | None
) -> object:
    if row is not None and row.failure_class is not None:
        return {"failed": row.failure_class}
    return record.output(cell, arm, unit)


def _contrast(one: object, two: object, *, limit: int) -> tuple[Markup, Markup, Markup]:
    """Return what differs in each answer, and what both say."""
    if not isinstance(one, dict) or not isinstance(two, dict):
        return _plain(one, limit), _plain(two, limit), Markup()
    same = [key for key in one if key in two and one[key] == two[key]]
    return (
        _pairs({k: v for k, v in one.items() if k not in same}, limit),
        _pairs({k: v for k, v in two.items() if k not in same}, limit),
        _pairs({k: one[k] for k in same}, limit),
    )


def _pairs(answer: Mapping[str, object], limit: int) -> Markup:
    parts: list[Markup] = []
    for key, value in answer.items():
        if value in ([], {}, "", None):
            continue
        parts.append(
            element(
                "span",
                element("i", clipped(key, limit)),
                " ",
                _plain(value, limit),
                class_="pair",
            )
        )
    return join(parts) if parts else Markup()


def _plain(value: object, limit: int) -> Markup:
    if value is None:
        return Markup()
    if isinstance(value, str):
        shown = value
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        shown = ", ".join(value)
    else:
        shown = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return join(clipped(shown, limit))

"""The third section: time and memory, paired the same way as the metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazycore.experiments._comparison import benchmark_title
from lazycore.experiments._numbers import (
    MINUS,
    bytes_text,
    clipped,
    count_text,
    duration,
    money,
    plural,
)
from lazycore.experiments._paired_summary import PairedSummary, summarise
from lazycore.experiments._pairing import pair_cells
from lazycore.experiments._plan import arm_order
from lazycore.experiments._report._forest import Mark, axis, forest_scale, row
from lazycore.experiments._report._markup import Markup, element

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lazycore.experiments._reader import RunRecord
    from lazycore.experiments._report._detail import Detail

__all__ = ["Measured", "costs", "measure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    """A field of the result rows, what people call it, and how it is written."""

    field: str
    title: str
    write: Callable[[float], str]
    unit: str = ""


_RESOURCES = (
    _Resource(field="wall_s", title="Wall clock", write=duration),
    _Resource(field="cpu_s", title="CPU time", write=duration),
    _Resource(field="max_rss_bytes", title="Peak memory", write=bytes_text),
    _Resource(
        field="input_tokens", title="Input tokens", write=count_text, unit="tokens"
    ),
    _Resource(
        field="output_tokens", title="Output tokens", write=count_text, unit="tokens"
    ),
    _Resource(field="cost_usd", title="Model cost", write=money, unit="US dollars"),
)
_RESAMPLES = 2_000
_MODES = {
    "fresh": "Each request is a fresh process, so loading is in it.",
    "fork": (
        "Each request is a child that a warm server forked, so loading is not in it."
    ),
    "session": (
        "Requests of an arm share a process, so loading is not in them, and CPU time "
        "and memory of one request are unknown."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One resource of one arm, compared with the baseline on every benchmark."""

    arm: str
    resource: _Resource
    pairs: Mapping[str, Sequence[tuple[float, float]]]
    found: Mapping[str, PairedSummary]


def measure(record: RunRecord) -> tuple[Measured, ...]:
    """Compare what arms cost, once for all renderings."""
    study = record.study
    measured = []
    for arm in study.arms:
        if arm.name == study.baseline:
            continue
        for resource in _RESOURCES:
            pairs = pair_cells(record.rows, (study.baseline, arm.name), resource.field)
            found = {
                benchmark: summarise(
                    [two - one for one, two in values],
                    binary=False,
                    one_seed=False,
                    margin=None,
                    confidence=study.analysis.confidence,
                    resamples=_RESAMPLES,
                    seed=(
                        record.lock["study_sha256"],
                        arm.name,
                        resource.field,
                        benchmark,
                    ),
                )
                for benchmark, values in pairs.items()
            }
            measured.append(
                Measured(
                    arm=clipped(arm.title, 120),
                    resource=resource,
                    pairs=pairs,
                    found=found,
                )
            )
    return tuple(measured)


def costs(
    record: RunRecord, measured: tuple[Measured, ...], detail: Detail
) -> Markup | None:
    """Return one table per arm and measured resource, or None when none was."""
    tables = [_table(record, one, detail) for one in measured if one.pairs]
    if not tables:
        return None
    return element(
        "section",
        element("h2", "Cost"),
        element("p", _lead(record), class_="lead"),
        _totals(record),
        tables,
        id="cost",
    )


def _lead(record: RunRecord) -> str:
    study = record.study
    cells = list(dict.fromkeys(row.cell for row in record.rows))
    names = tuple(arm.name for arm in study.arms)
    first = sum(arm_order(cell, names)[0] == study.baseline for cell in cells)
    mode = _MODES[study.mode]
    return (
        f"Measured from outside the worker, baseline and arm back to back. {mode} A "
        f"coin derived from the cell's id decided which arm ran first: the baseline "
        f"in {first:,} of {plural(len(cells), 'cell')}. No verdict rests on this."
    )


def _totals(record: RunRecord) -> Markup | None:
    """Return what the workers say the whole run used, arm by arm, or None."""
    sums: dict[str, dict[str, list[float]]] = {}
    told = {(result.cell, result.arm): result for result in record.rows}
    for result in told.values():
        for field in ("input_tokens", "output_tokens", "cost_usd"):
            value = getattr(result, field)
            if value is not None:
                sums.setdefault(result.arm, {}).setdefault(field, []).append(value)
    if not sums:
        return None
    parts = []
    for arm in record.study.arms:
        found = {field: sum(values) for field, values in sums.get(arm.name, {}).items()}
        words = [
            f"{found[field]:,} {noun}"
            for field, noun in (
                ("input_tokens", "tokens read"),
                ("output_tokens", "written"),
            )
            if field in found
        ]
        if "cost_usd" in found:
            words.append(money(found["cost_usd"]))
        parts.append(f"{clipped(arm.title, 120)}: {', '.join(words) or 'nothing told'}")
    return element(
        "p",
        f"Models, as the workers told it, in all: {'; '.join(parts)}. Attempts that "
        "failed without an answer are not in it.",
        class_="note",
    )


def _table(record: RunRecord, measured: Measured, detail: Detail) -> Markup:
    arm, resource = measured.arm, measured.resource
    pairs = dict(list(measured.pairs.items())[: detail.rows])
    found = {benchmark: measured.found[benchmark] for benchmark in pairs}
    factor, unit = _axis_unit(found.values(), resource)
    marks = {
        benchmark: _mark(summary, factor, label=f"{resource.title}, {benchmark}")
        for benchmark, summary in found.items()
    }
    scale = forest_scale(marks.values(), least=1.0)
    rows = [
        element(
            "tr",
            element("th", *_place(record, benchmark, len(values)), scope="row"),
            _numbers(values, found[benchmark], resource, row(marks[benchmark], scale)),
        )
        for benchmark, values in pairs.items()
    ]
    foot = axis(scale, factor=1.0, left=f"{arm} uses less", right=f"{arm} uses more")
    head = element(
        "tr",
        element("th", "Benchmark", scope="col"),
        element("th", "baseline", scope="col", class_="number wide"),
        element("th", arm, scope="col", class_="number wide"),
        element(
            "th", f"Difference in {unit}", scope="col", class_="plot", data_sort="no"
        ),
        element(
            "th",
            "Difference",
            element("small", f"{100 * record.study.analysis.confidence:g} % interval"),
            scope="col",
            class_="number",
        ),
        element("th", "Ratio", scope="col", class_="number"),
    )
    footer = element(
        "tr",
        element("td"),
        element("td", class_="wide"),
        element("td", class_="wide"),
        element("td", foot, class_="plot"),
        element("td"),
        element("td"),
    )
    return element(
        "div",
        element("h3", f"{resource.title} per request: {arm} minus baseline"),
        element(
            "table",
            element("thead", head),
            element("tbody", rows),
            element("tfoot", footer),
            class_="differences",
        ),
        class_="group",
    )


def _place(record: RunRecord, benchmark: str, clusters: int) -> tuple[object, Markup]:
    """Return a benchmark's title and how many clusters of how many seeds it has."""
    title = clipped(benchmark_title(record.study, benchmark), 120)
    blocks = any(b.block_size > 1 for b in record.study.benchmarks)
    noun = "request" if blocks else "unit"
    seeds = len(record.study.seeds)
    times = f" \N{MULTIPLICATION SIGN} {plural(seeds, 'seed')}" if seeds > 1 else ""
    return title, element("small", plural(clusters, noun) + times)


def _numbers(
    values: Sequence[tuple[float, float]],
    summary: PairedSummary,
    resource: _Resource,
    drawing: Markup,
) -> list[Markup]:
    write = resource.write
    assert summary.difference is not None  # a benchmark without pairs has no row
    one = sum(a for a, _ in values) / len(values)
    two = sum(b for _, b in values) / len(values)
    interval = "no interval"
    if summary.interval:
        low, high = (_signed(value, write) for value in summary.interval)
        interval = f"{low} to {high}"
    ratio = two / one if one else None
    return [
        element("td", write(one), class_="number wide", data_value=repr(one)),
        element("td", write(two), class_="number wide", data_value=repr(two)),
        element("td", drawing, class_="plot"),
        element(
            "td",
            element("strong", _signed(summary.difference, write)),
            element("small", interval),
            class_="number",
            data_value=repr(summary.difference),
        ),
        element(
            "td",
            "\N{EM DASH}" if ratio is None else f"\N{MULTIPLICATION SIGN}{ratio:.2f}",
            class_="number",
            data_value=repr(ratio or 0.0),
        ),
    ]


def _signed(value: float, write: Callable[[float], str]) -> str:
    sign = "+" if value > 0 else MINUS if value < 0 else ""
    return f"{sign}{write(abs(value))}"


def _mark(summary: PairedSummary, factor: float, *, label: str) -> Mark:
    """Return a row in the unit of the axis, so that its ticks are round."""
    interval = summary.interval
    return Mark(
        value=None if summary.difference is None else summary.difference * factor,
        interval=interval and (interval[0] * factor, interval[1] * factor),
        tone="none",
        margin=None,
        label=label,
    )


def _axis_unit(
    found: Iterable[PairedSummary], resource: _Resource
) -> tuple[float, str]:
    """Return the factor and the name of the unit that fits the differences."""
    if resource.unit:
        return 1.0, resource.unit
    ends = [end for summary in found for end in (summary.interval or (0.0, 0.0))]
    reach = max(map(abs, ends), default=0.0)
    if resource.field == "max_rss_bytes":
        return (2.0**-20, "MiB") if reach >= 2**20 else (2.0**-10, "KiB")
    return (1.0, "seconds") if reach >= 1 else (1e3, "milliseconds")

"""The last sections: how the numbers were made, and what proves what ran."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from lazycore.experiments._numbers import clipped, duration, plural
from lazycore.experiments._order_check import order_text
from lazycore.experiments._report._markup import Markup, element

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazycore.experiments._paired_result import Comparison
    from lazycore.experiments._reader import RunRecord
    from lazycore.experiments._study import ModelSlot

__all__ = ["digest_text", "methods", "provenance", "verify_command"]

_LONGEST = 400
_MOST_FACTS = 80
_SHOWN_ABOVE = frozenset({"lock", "mode", "models", "started_unix_s"})
_NAMES = {
    "backend": "Sandbox",
    "cores": "Cores",
    "git tree": "Snapshot, git tree",
    "guarantees": "Sandbox guarantees",
    "format": "Journal format",
    "snapshot sha256": "Snapshot, SHA-256",
}


def methods(comparison: Comparison) -> Markup:
    """Return what was computed, in sentences with their sources."""
    family = len(comparison.primary)
    p_methods = sorted(
        {r.p_method for r in comparison.results if r.p_value is not None}
    )
    intervals = sorted({r.interval_method for r in comparison.results if r.units})
    sentences = [
        (
            "The estimand is the mean over units of the paired difference, arm minus "
            "baseline; the seeds of a unit are averaged first, so "
            f"{_sampled(comparison)}."
        ),
        (
            f"Intervals: {'; '.join(intervals) or 'none'}; percentiles are expanded "
            "for few units (Hesterberg 2015)."
        ),
        (
            f"p-values: {'; '.join(p_methods) or 'none'}; never 0 (Phipson and "
            "Smyth 2010)."
        ),
        (
            f"The family is the {plural(family, 'primary comparison')}, corrected by "
            f"Holm (1979) at level {comparison.alpha:g}; everything else is corrected "
            "by Benjamini and Hochberg (1995) and explores."
        ),
        (
            "An arm helps or harms only where the adjusted p is at most the level and "
            "the interval excludes 0. Equivalence is two one-sided t tests against the "
            "declared margin (Schuirmann 1987), corrected by Holm too."
        ),
        f"A failed arm counts as declared: {comparison.failed_arms}.",
        (
            "Resampling is seeded by the study's digest: equal results give equal "
            "numbers on any machine, whatever is installed."
        ),
    ]
    if comparison.looks:
        sentences.append(
            f"{comparison.looks - 1} looks before the end were declared, and the level "
            "is spent over them and the end (Lan and DeMets 1983): a p-value is "
            "multiplied by what its look may not spend, the interval is widened by it. "
            f"This page shows look {comparison.look} of {comparison.looks}, whatever "
            "has run since."
        )
    if comparison.tentative:
        sentences.append(
            "This is an interim look. Whoever stops at the first small p finds one "
            "too often: no p of this page holds its level."
        )
    return element(
        "section",
        element("h2", "How the numbers were made"),
        element("ul", [element("li", sentence) for sentence in sentences]),
        _power(comparison),
        id="methods",
    )


def _sampled(comparison: Comparison) -> str:
    if any(result.grouped for result in comparison.results):
        return "the declared group of units is the cluster, or the unit without one"
    return "the unit is the cluster"


def _power(comparison: Comparison) -> Markup | None:
    rows = [
        element(
            "tr",
            element("th", result.benchmark_title, scope="row"),
            element("td", result.metric_title),
            element("td", f"{result.units:,}", class_="number"),
            element("td", _size(result.detectable, result.kind), class_="number"),
            element("td", _p(result.wilcoxon_p), class_="number"),
            element("td", _p(result.mcnemar_p), class_="number"),
        )
        for result in comparison.primary[:40]
    ]
    if not rows:
        return None
    names = (
        ("Benchmark", None),
        ("Metric", None),
        ("Units", "number"),
        ("Shown with 80 % power", "number"),
        ("Wilcoxon p", "number"),
        ("McNemar p", "number"),
    )
    head = element(
        "tr", [element("th", name, scope="col", class_=kind) for name, kind in names]
    )
    return element(
        "details",
        element("summary", element("strong", "Power and secondary tests")),
        element(
            "div",
            element("table", element("thead", head), element("tbody", rows)),
            class_="scroll",
        ),
    )


def provenance(record: RunRecord) -> Markup:
    """Return what was locked and where it ran, with the command that checks it."""
    study = record.study
    facts: list[tuple[str, object]] = [
        ("Study lock, SHA-256", digest_text(record.lock_digest)),
        ("Results, SHA-256", digest_text(record.results_digest)),
        ("Cells", f"{record.finished_cells:,} of {record.planned_cells:,} finished"),
        ("Time", f"{duration(record.wall_s)} in {plural(record.sessions, 'session')}"),
        ("Mode", study.mode),
        *([("Order", f"{order_text(record)}.")] if record.order_check else []),
        ("Seeds", ", ".join(map(str, study.seeds))),
        *[
            (f"Model slot {clipped(m.slot, 80)}", clipped(_licence(m), _LONGEST))
            for m in study.models
        ],
        *islice(_session(record.provenance), _MOST_FACTS),
    ]
    rows = [
        element("tr", element("th", name, scope="row"), element("td", value))
        for name, value in facts
    ]
    return element(
        "section",
        element("h2", "Provenance"),
        element(
            "p",
            "Every worker ran in a sandbox from a read-only snapshot of the locked "
            "files. Recompute every digest of the run folder with:",
            class_="lead",
        ),
        element("pre", element("code", verify_command(record))),
        element(
            "div",
            element("table", element("tbody", rows), class_="facts"),
            class_="scroll",
        ),
        id="provenance",
    )


def verify_command(record: RunRecord) -> str:
    """Return the command line that verifies the run folder."""
    return f"lazycore-experiments verify {shlex.quote(str(record.path))}"


def digest_text(value: str) -> Markup:
    """Return 64 hex digits in groups of eight that copy as one word."""
    groups = [value[i : i + 8] for i in range(0, len(value), 8)]
    return element(
        "code", [element("span", group) for group in groups], class_="digest"
    )


def _licence(model: ModelSlot) -> str:
    accepted = ", accepted for this run" if model.tier > 1 else ""
    conditions = f": {'; '.join(model.conditions)}" if model.conditions else ""
    return (
        f"{model.checkpoint}, {model.license}, tier {model.tier}{accepted}{conditions}"
    )


def _session(facts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what the last session says of itself, what stands above left out."""
    started = facts.get("started_unix_s")
    if isinstance(started, int):
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(started))
        yield "Started", when
    shown = {key: value for key, value in facts.items() if key not in _SHOWN_ABOVE}
    for name, value in _flat(shown):
        yield _NAMES.get(name, name[:1].upper() + name[1:]), value


def _flat(value: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield leaf values under dotted names; lists are joined."""
    for key in sorted(value):
        item = value[key]
        name = prefix + clipped(str(key).replace("_", " "), 80)
        if isinstance(item, Mapping):
            yield from _flat(item, f"{name} \N{MIDDLE DOT} ")
        elif isinstance(item, list | tuple):
            shown = ", ".join(str(part) for part in item)
            yield name, clipped(shown or "none", _LONGEST)
        else:
            yield name, clipped("unknown" if item is None else str(item), _LONGEST)


def _size(value: float | None, kind: str) -> str:
    if value is None:
        return "\N{EM DASH}"
    return f"{100 * value:.1f} pp" if kind == "binary" else f"{value:.3g}"


def _p(value: float | None) -> str:
    if value is None:
        return "\N{EM DASH}"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"

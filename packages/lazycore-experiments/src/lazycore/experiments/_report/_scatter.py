"""Draw every unit once: baseline across, candidate up, the diagonal between."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from lazycore.experiments._numbers import level_text, plural
from lazycore.experiments._report._markup import Markup, element
from lazycore.experiments._report._scale import Scale, nice_scale

if TYPE_CHECKING:
    from lazycore.experiments._paired_result import PairedResult

__all__ = ["scatter"]

_SIZE, _LEFT, _BOTTOM, _TOP, _RIGHT = 320.0, 46.0, 42.0, 14.0, 14.0
_FEW_PLACES = 49
_LARGEST = 23.0


def scatter(result: PairedResult, *, dots: int) -> Markup:
    """Return the drawing of one comparison's units.

    Units that share a place (a binary metric has few) are one disc whose area is
    their number; units of a real metric are one dot each.

    Args:
        result: The comparison.
        dots: Most dots; of more units every n-th is drawn.
    """
    places = Counter((unit.baseline, unit.candidate) for unit in result.paired)
    few = len(places) <= _FEW_PLACES
    values = [value for place in places for value in place]
    if result.kind == "binary":
        values += [0.0, 1.0]
    pad = 0.12 if few else 0.05
    across = nice_scale(values, start=_LEFT, end=_SIZE - _RIGHT, about=5, pad=pad)
    up = nice_scale(values, start=_SIZE - _BOTTOM, end=_TOP, about=5, pad=pad)
    if result.kind == "binary":
        steps = tuple(k / result.seeds for k in range(result.seeds + 1))
        ticks = steps if result.seeds <= 6 else (0.0, 0.5, 1.0)
    else:
        ticks = across.ticks
    parts = [_frame(result, across, up, ticks)]
    parts.append(
        _discs(result, places, across, up) if few else _dots(result, across, up, dots)
    )
    label = (
        f"{result.benchmark_title}: {result.metric_title} of "
        f"{plural(result.units, 'unit')} under the baseline and under "
        f"{result.arm_title}; better on {result.wins:,}, equal on {result.ties:,}, "
        f"worse on {result.losses:,}"
    )
    return element(
        "svg",
        element("title", label),
        *parts,
        class_="scatter",
        viewBox=f"0 0 {_SIZE:g} {_SIZE:g}",
        role="img",
    )


def _frame(
    result: PairedResult, across: Scale, up: Scale, ticks: tuple[float, ...]
) -> Markup:
    left, right, top, bottom = across.start, across.end, up.end, up.start
    better = (
        f"M{left:g} {bottom:g}V{top:g}H{right:g}z"
        if result.goal == "maximize"
        else f"M{left:g} {bottom:g}H{right:g}V{top:g}z"
    )
    parts = [
        element("path", d=better, class_="better"),
        element("path", d=f"M{left:g} {bottom:g}L{right:g} {top:g}", class_="zero"),
    ]
    for tick in ticks:
        x, y = across(tick), up(tick)
        parts += [
            element("path", d=f"M{x:.1f} {top:g}V{bottom:g}", class_="grid"),
            element("path", d=f"M{left:g} {y:.1f}H{right:g}", class_="grid"),
            element(
                "text",
                _tick(tick, result),
                x=x,
                y=bottom + 15,
                class_="tick",
                text_anchor="middle",
            ),
            element(
                "text",
                _tick(tick, result),
                x=left - 7,
                y=y + 3.5,
                class_="tick",
                text_anchor="end",
            ),
        ]
    middle = (left + right) / 2
    parts += [
        element(
            "text",
            "baseline",
            x=middle,
            y=_SIZE - 8,
            class_="side",
            text_anchor="middle",
        ),
        element(
            "text",
            result.arm_title,
            x="12",
            y=(top + bottom) / 2,
            class_="side",
            text_anchor="middle",
            transform=f"rotate(-90 12 {(top + bottom) / 2:g})",
        ),
    ]
    return element("g", parts)


def _discs(
    result: PairedResult,
    places: Counter[tuple[float, float]],
    across: Scale,
    up: Scale,
) -> Markup:
    most = max(places.values(), default=1)
    parts = []
    for (one, two), count in sorted(places.items(), key=lambda item: -item[1]):
        radius = max(2.2, _LARGEST * math.sqrt(count / most))
        x, y = across(one), up(two)
        title = (
            f"{plural(count, 'unit')}: baseline {level_text(one, kind=result.kind)}, "
            f"{result.arm_title} {level_text(two, kind=result.kind)}"
        )
        disc = element(
            "circle",
            element("title", title),
            cx=x,
            cy=y,
            r=radius,
            class_=f"disc {_tone(result, one, two)}",
        )
        inside = radius > 3.6 * len(f"{count:,}") + 1.5
        number = element(
            "text",
            f"{count:,}",
            x=x if inside else x + radius + 3,
            y=y + 3.2,
            class_="count inside" if inside else "count",
            text_anchor="middle" if inside else None,
        )
        parts += [disc, number]
    return element("g", parts)


def _dots(result: PairedResult, across: Scale, up: Scale, limit: int) -> Markup:
    paths: dict[str, list[str]] = {"none": [], "bad": [], "good": []}
    every = -(-len(result.paired) // max(1, limit))
    for unit in result.paired[::every]:
        tone = _tone(result, unit.baseline, unit.candidate)
        at = f"M{across(unit.baseline):.1f} {up(unit.candidate):.1f}h0"
        paths[tone].append(at)
    # Places that fall together on the paper are drawn once.
    drawn = [
        element("path", d="".join(dict.fromkeys(found)), class_=f"dots {tone}")
        for tone, found in paths.items()
        if found
    ]
    return element("g", drawn)


def _tone(result: PairedResult, one: float, two: float) -> str:
    if one == two:
        return "none"
    return "good" if (two > one) == (result.goal == "maximize") else "bad"


def _tick(value: float, result: PairedResult) -> str:
    if result.kind == "binary":
        return f"{100 * value:.0f} %"
    return f"{value:g}"

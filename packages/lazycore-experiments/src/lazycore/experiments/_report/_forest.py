"""Draw differences with their intervals on one axis, one table row each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazycore.experiments._numbers import MINUS
from lazycore.experiments._report._markup import Markup, element
from lazycore.experiments._report._scale import Scale, nice_scale

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Mark", "axis", "forest_scale", "row"]

WIDTH, HEIGHT, AXIS_HEIGHT, EDGE = 420.0, 50.0, 44.0, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One row of a forest plot.

    Attributes:
        value: The estimate, or None.
        interval: Its interval, or None.
        tone: ``good``, ``bad`` or ``none``: what was shown.
        margin: Equivalence margin to shade, or None.
        label: What a screen reader and a tooltip say.
    """

    value: float | None
    interval: tuple[float, float] | None
    tone: str
    margin: float | None
    label: str


def forest_scale(marks: Iterable[Mark], *, least: float = 1e-9) -> Scale:
    """Return the axis that all rows share; 0 is always on it.

    Args:
        marks: The rows.
        least: What the axis reaches to each side where every row is 0.
    """
    values = [0.0]
    for mark in marks:
        values += [v for v in (mark.value, *(mark.interval or ())) if v is not None]
        values += [] if mark.margin is None else [-mark.margin, mark.margin]
    if not any(values):
        values += [-least, least]
    return nice_scale(values, start=EDGE, end=WIDTH - EDGE)


def row(mark: Mark, scale: Scale) -> Markup:
    """Return the drawing of one row."""
    middle = HEIGHT / 2
    parts = []
    if mark.margin is not None:
        left, right = scale(-mark.margin), scale(mark.margin)
        parts.append(
            element(
                "rect",
                x=left,
                y="0",
                width=max(right - left, 1.0),
                height=HEIGHT,
                class_="margin",
            )
        )
    parts += [
        _line(scale(tick), "grid", 0, HEIGHT) for tick in scale.ticks if tick != 0
    ]
    parts.append(_line(scale(0), "zero", 0, HEIGHT))
    if mark.interval is not None:
        low, high = (scale(value) for value in mark.interval)
        shape = f"M{low:.1f} {middle - 5:g}v10m0-5H{high:.1f}m0-5v10"
        parts.append(element("path", d=shape, class_=f"interval {mark.tone}"))
    if mark.value is not None:
        at = scale(mark.value)
        parts.append(
            element("circle", cx=at, cy=middle, r="5", class_=f"point {mark.tone}")
        )
    return element(
        "svg",
        element("title", mark.label),
        *parts,
        class_="forest",
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
    )


def axis(scale: Scale, *, factor: float, left: str, right: str) -> Markup:
    """Return the axis under the rows, with what its two sides mean.

    Args:
        scale: The shared scale.
        factor: Numbers are multiplied by it before they are written.
        left: What values below 0 mean.
        right: What values above 0 mean.
    """
    parts = [element("path", d=f"M{EDGE:g} .5H{WIDTH - EDGE:g}", class_="axis")]
    for tick in scale.ticks:
        at = scale(tick)
        parts.append(_line(at, "axis", 0, 5))
        label = f"{round(tick * factor, 9):+g}".replace("-", MINUS)
        label = "0" if tick == 0 else label
        parts.append(
            element("text", label, x=at, y="19", class_="tick", text_anchor="middle")
        )
    zero = scale(0)
    if zero > 90:
        parts.append(
            element(
                "text",
                f"\N{LEFTWARDS ARROW} {left}",
                x=zero - 8,
                y="37",
                class_="side",
                text_anchor="end",
            )
        )
    if zero < WIDTH - 90:
        parts.append(
            element(
                "text",
                f"{right} \N{RIGHTWARDS ARROW}",
                x=zero + 8,
                y="37",
                class_="side",
            )
        )
    return element(
        "svg",
        *parts,
        class_="forest-axis",
        viewBox=f"0 0 {WIDTH:g} {AXIS_HEIGHT:g}",
        aria_hidden="true",
    )


def _line(x: float, kind: str, top: float, bottom: float) -> Markup:
    return element("path", d=f"M{x:.1f} {top:g}V{bottom:g}", class_=kind)

"""Write measured numbers for people: signs, percentage points, p-values, durations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "amount",
    "bytes_text",
    "clipped",
    "count_text",
    "duration",
    "joined",
    "level_text",
    "money",
    "p_text",
    "plural",
    "size_text",
    "span",
]

MINUS = "\N{MINUS SIGN}"


def amount(value: float, *, kind: str) -> str:
    """Return a signed difference: percentage points of a binary metric, else plain."""
    shown = f"{100 * value:+.1f}" if kind == "binary" else _plain(value)
    if float(shown) == 0:
        shown = shown.lstrip("+-")
    text = shown.replace("-", MINUS)
    return f"{text} pp" if kind == "binary" else text


def size_text(value: float, *, kind: str) -> str:
    """Return a declared size as it was declared, without a sign."""
    return f"{100 * value:g} pp" if kind == "binary" else f"{value:g}"


def span(interval: tuple[float, float], *, kind: str) -> str:
    """Return both ends of an interval; the unit is written once."""
    low, high = (amount(value, kind=kind) for value in interval)
    return f"{low.removesuffix(' pp')} to {high}"


def level_text(value: float, *, kind: str) -> str:
    """Return the level of a metric: a percentage of a binary metric, else plain."""
    return f"{100 * value:.1f} %" if kind == "binary" else _plain(value).lstrip("+")


def p_text(p_value: float | None) -> str:
    """Return ``p = 0.034`` or ``p < 0.001``."""
    if p_value is None:
        return "p unknown"
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def duration(seconds: float) -> str:
    """Return a duration with the unit that fits."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 90:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def bytes_text(size: float) -> str:
    """Return a number of bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if size >= 10 else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def money(dollars: float) -> str:
    """Return US dollars, cents written out only where they say enough."""
    if dollars == 0 or dollars >= 0.995:
        return f"${dollars:,.2f}"
    return f"${dollars:.{2 - math.floor(math.log10(dollars))}f}"


def count_text(value: float) -> str:
    """Return a mean count: whole where it is large."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, thousands set apart."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def clipped(shown: str, limit: int) -> str:
    """Return a text of at most so many characters; an ellipsis marks the cut."""
    if len(shown) <= limit:
        return shown
    return shown[: max(0, limit - 1)] + "\N{HORIZONTAL ELLIPSIS}"


def joined(names: Sequence[str], *, most: int = 6) -> str:
    """Join names as a sentence does; of very many, name some and count the rest."""
    if len(names) > most:
        kept = names[: most - 1]
        return f"{', '.join(kept)} and {len(names) - len(kept):,} more"
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _plain(value: float) -> str:
    """Return three significant digits with a sign, without an exponent if short."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    if -4 <= digits <= 7:
        return f"{value:+.{max(0, digits)}f}"
    return f"{value:+.2e}"

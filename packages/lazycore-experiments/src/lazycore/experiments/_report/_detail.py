"""How much a report shows, so that a run of any size fits one small file."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DETAILS", "LIMIT_BYTES", "Detail"]

LIMIT_BYTES = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """Caps of one rendering.

    Attributes:
        rows: Comparisons in a table of differences.
        plots: Comparisons that are drawn unit by unit.
        dots: Dots in one drawing.
        listed: Units listed by name on each side, better and worse.
        output: Characters of one stored output.
        failures: Failures listed one by one.
    """

    rows: int
    plots: int
    dots: int
    listed: int
    output: int
    failures: int


# Tried in this order until the file is small enough.
DETAILS = (
    Detail(rows=400, plots=24, dots=4_000, listed=12, output=240, failures=60),
    Detail(rows=200, plots=12, dots=2_000, listed=8, output=160, failures=30),
    Detail(rows=100, plots=8, dots=800, listed=4, output=80, failures=15),
    Detail(rows=40, plots=0, dots=0, listed=0, output=0, failures=5),
)

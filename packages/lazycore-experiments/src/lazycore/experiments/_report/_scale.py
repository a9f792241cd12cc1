"""Map numbers to coordinates, with round ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Scale", "nice_scale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A linear scale.

    Attributes:
        low: Number at `start`.
        high: Number at `end`.
        start: Coordinate of `low`.
        end: Coordinate of `high`.
        ticks: Round numbers inside.
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def __call__(self, value: float) -> float:
        """Return the coordinate of a number, kept inside the scale."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def nice_scale(
    values: list[float], *, start: float, end: float, about: int = 5, pad: float = 0.06
) -> Scale:
    """Return a scale that holds all values, with about so many ticks.

    Args:
        values: At least one number.
        start: Coordinate of the lowest.
        end: Coordinate of the highest.
        about: Wanted number of ticks.
        pad: Free share at both ends.
    """
    low, high = min(values), max(values)
    reach = high - low or abs(high) or 1.0
    low, high = low - pad * reach, high + pad * reach
    step = 10 ** math.floor(math.log10((high - low) / about))
    step *= next(
        factor
        for factor in (1, 2, 2.5, 5, 10)
        if (high - low) / (step * factor) <= about
    )
    first, last = math.ceil(low / step), math.floor(high / step)
    ticks = tuple(float(f"{k * step:.12g}") for k in range(first, last + 1))
    return Scale(low=low, high=high, start=start, end=end, ticks=ticks)

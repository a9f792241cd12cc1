"""Correct p-values for how many of them there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["benjamini_hochberg", "holm"]


def holm(
    p_values: Sequence[float],
    *,
    scale: Callable[[int, int], float] | None = None,
) -> tuple[float, ...]:
    """Return p-values adjusted for the family-wise error rate.

    Args:
        p_values: The whole family.
        scale: What the p-value of an index is multiplied by when so many of the
            family are left; None where each is tested once, at its whole level.

    Returns:
        Adjusted values in the same order (Holm, Scandinavian Journal of Statistics
        6, 1979).
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for step, index in enumerate(order):
        left = len(p_values) - step
        factor = 1.0 if scale is None else scale(index, left)
        reached = max(reached, min(1.0, left * p_values[index] * factor))
        adjusted[index] = reached
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted for the false discovery rate.

    Args:
        p_values: The whole family.

    Returns:
        Adjusted values in the same order (Benjamini and Hochberg, Journal of the
        Royal Statistical Society B 57, 1995).
    """
    size = len(p_values)
    order = sorted(range(size), key=lambda index: -p_values[index])
    adjusted = [0.0] * size
    reached = 1.0
    for step, index in enumerate(order):
        reached = min(reached, p_values[index] * size / (size - step))
        adjusted[index] = reached
    return tuple(adjusted)

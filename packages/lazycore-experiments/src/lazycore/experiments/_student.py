"""Student's t distribution, so that intervals of few units are wide enough.

The standard library has the normal distribution only. The distribution function is
the regularised incomplete beta function, evaluated by Lentz's continued fraction
(Numerical Recipes, 3rd edition, section 6.4; DLMF 8.17.22).
"""

from __future__ import annotations

import math

__all__ = ["student_cdf", "student_quantile"]

_TINY = 1e-300
_ENOUGH = 1e-15


def student_cdf(value: float, *, degrees: int) -> float:
    """Return P(T <= value) for Student's t.

    Args:
        value: Any finite number.
        degrees: Degrees of freedom, at least 1.
    """
    tail = 0.5 * _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + value * value))
    return 1 - tail if value > 0 else tail


def student_quantile(probability: float, *, degrees: int) -> float:
    """Return the value that Student's t stays below with a probability.

    Args:
        probability: Strictly between 0 and 1.
        degrees: Degrees of freedom, at least 1.
    """
    if not 0 < probability < 1:
        raise ValueError(f"a probability lies between 0 and 1, not {probability}")
    if probability < 0.5:
        return -student_quantile(1 - probability, degrees=degrees)
    low, high = 0.0, 1.0
    while student_cdf(high, degrees=degrees) < probability:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        if student_cdf(middle, degrees=degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
    )
    # The fraction converges fast on one side of the mean only; use the symmetry.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    upper = 1.0
    lower = 1 / _nonzero(1 - (a + b) * x / (a + 1))
    value = lower
    for m in range(1, 500):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            lower = 1 / _nonzero(1 + factor * lower)
            upper = _nonzero(1 + factor / upper)
            step = lower * upper
            value *= step
        if abs(step - 1) < _ENOUGH:
            break
    return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY

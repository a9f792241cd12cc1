"""Numbers of a leaderboard as span attributes."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._names import ATTR_ML_METRIC_PREFIX
from lazycore.telemetry._target import target_span
from lazycore.telemetry._text import metadata
from lazycore.telemetry._values import as_int, number_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._span import GenAISpan

__all__ = ["ml_metric_attribute", "set_ml_metric", "set_ml_metrics"]

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*", re.ASCII)


def ml_metric_attribute(name: str) -> str:
    """Return the attribute of a metric: `ml.metric.` and the name in lower case.

    Args:
        name: Letters, digits, underscores and dots; starts with a letter.

    Raises:
        TelemetryUsageError: If the name is none.

    Example:
        >>> ml_metric_attribute("Accuracy")
        'ml.metric.accuracy'
    """
    given: object = name
    lowered = given.lower() if isinstance(given, str) else ""
    if not _NAME.fullmatch(lowered) or len(lowered) > 128:
        raise TelemetryUsageError(
            f"{name!r} is no metric name: start with a letter and use letters, digits, "
            "underscores and single dots, such as 'f1_macro' or 'picp.p90'"
        )
    return ATTR_ML_METRIC_PREFIX + lowered


def set_ml_metric(
    span: Span | GenAISpan,
    name: str,
    value: object,
    *,
    split: str | None = None,
    step: int | None = None,
    higher_is_better: bool | None = None,
) -> None:
    """Write a metric to a span as a double.

    A value that is not finite is left out of the numeric attribute (receivers drop
    or corrupt NaN) and said in `ml.metric.<name>.nonfinite` as `nan`, `inf` or
    `-inf`. A value that is no number (a boolean neither) is named in
    `ml.metric.<name>.invalid` by its type.

    Args:
        span: Where to write.
        name: Name of the metric.
        value: An int, a float, a NumPy or torch scalar.
        split: Part of the data, such as `test`.
        step: Step of the training.
        higher_is_better: Direction of the metric.

    Raises:
        TelemetryUsageError: If the name is none or `span` is no span.

    Example:
        >>> from lazycore.telemetry import get_tracer
        >>> with get_tracer().start_as_current_span("fit") as span:
        ...     set_ml_metric(span, "accuracy", 0.91, split="test")
    """
    attribute = ml_metric_attribute(name)
    target = target_span(span)
    if target is None or not target.is_recording():
        return
    found: dict[str, AttributeValue] = {}
    number = number_of(value)
    if number is None:
        found[f"{attribute}.invalid"] = type(value).__name__[:64]
    elif math.isfinite(number):
        found[attribute] = number
    else:
        found[f"{attribute}.nonfinite"] = str(number)
    if split is not None:
        found[f"{attribute}.split"] = metadata(split)
    read = None if step is None else as_int(step)
    if read is not None:
        found[f"{attribute}.step"] = read
    if higher_is_better is not None:
        found[f"{attribute}.higher_is_better"] = bool(higher_is_better)
    target.set_attributes(found)


def set_ml_metrics(
    span: Span | GenAISpan, values: Mapping[str, object], *, split: str | None = None
) -> None:
    """Write several metrics; all names are checked before any is written.

    Args:
        span: Where to write.
        values: Name to value.
        split: Part of the data that they were computed on.

    Raises:
        TelemetryUsageError: If a name is none; nothing is written then.

    Example:
        >>> from lazycore.telemetry import get_tracer
        >>> with get_tracer().start_as_current_span("fit") as span:
        ...     set_ml_metrics(span, {"f1": 0.8, "mpiw": 1.2})
    """
    for name in values:
        ml_metric_attribute(name)
    for name, value in values.items():
        set_ml_metric(span, name, value, split=split)

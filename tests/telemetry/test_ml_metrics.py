"""Leaderboard numbers on spans."""

from __future__ import annotations

import fractions
from typing import Any

import pytest

from lazycore.telemetry import get_tracer, ml_metric_attribute, set_ml_metrics
from lazycore.telemetry import set_ml_metric as write


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("accuracy", "ml.metric.accuracy"),
        ("F1_Macro", "ml.metric.f1_macro"),
        ("picp.p90", "ml.metric.picp.p90"),
    ],
)
def test_names_are_lowered(name: str, attribute: str) -> None:
    assert ml_metric_attribute(name) == attribute


@pytest.mark.parametrize(
    "name", ["", "9a", "a b", "a..b", "a.", ".a", "ä", "a-b", "a" * 200]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no metric name"):
        ml_metric_attribute(name)


@pytest.mark.parametrize(
    ("value", "attributes"),
    [
        (0.5, {"ml.metric.m": 0.5}),
        (1, {"ml.metric.m": 1.0}),
        (fractions.Fraction(1, 4), {"ml.metric.m": 0.25}),
        (True, {"ml.metric.m.invalid": "bool"}),
        ("0.5", {"ml.metric.m.invalid": "str"}),
        (None, {"ml.metric.m.invalid": "NoneType"}),
        (float("nan"), {"ml.metric.m.nonfinite": "nan"}),
        (10**400, {"ml.metric.m.invalid": "int"}),
    ],
)
def test_only_finite_numbers_are_numbers(
    value: object, attributes: dict[str, Any], recorded: Any
) -> None:
    with get_tracer().start_as_current_span("fit") as span:
        write(span, "m", value)
    assert dict(recorded.span.attributes) == attributes


def test_context_of_a_metric_is_written_beside_it(recorded: Any) -> None:
    with get_tracer().start_as_current_span("fit") as span:
        write(span, "loss", 0.5, split="test", step=3, higher_is_better=False)
        set_ml_metrics(span, {"f1": 1, "mpiw": 2.0}, split="dev")
    assert dict(recorded.span.attributes) == {
        "ml.metric.loss": 0.5,
        "ml.metric.loss.split": "test",
        "ml.metric.loss.step": 3,
        "ml.metric.loss.higher_is_better": False,
        "ml.metric.f1": 1.0,
        "ml.metric.f1.split": "dev",
        "ml.metric.mpiw": 2.0,
        "ml.metric.mpiw.split": "dev",
    }

"""Write a study down as the document that its lock holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.experiments._frozen import freeze, thaw

if TYPE_CHECKING:
    from lazycore.experiments._study import Study

__all__ = ["study_document"]


def study_document(study: Study) -> dict[str, Any]:
    """Return a study as plain JSON in the shape of its file, units inlined."""
    arms = {
        arm.name: {
            "title": arm.title,
            "entrypoint": arm.entrypoint,
            "interpreter": arm.interpreter,
            "arguments": list(arm.arguments),
            "environment": list(arm.environment),
            "parameters": thaw(arm.parameters),
        }
        for arm in study.arms
    }
    benchmarks = [
        {
            "id": benchmark.id,
            "title": benchmark.title,
            "units": list(benchmark.units),
            **({"groups": thaw(benchmark.groups)} if benchmark.groups else {}),
            "block_size": benchmark.block_size,
            "parameters": thaw(benchmark.parameters),
        }
        for benchmark in study.benchmarks
    ]
    return {
        "schema": 1,
        "study": {
            "id": study.id,
            "title": study.title,
            "question": study.question,
            "baseline": study.baseline,
            "mode": study.mode,
            "seeds": list(study.seeds),
            "tree": study.tree,
            "exclude": list(study.exclude),
        },
        "parameters": thaw(study.parameters),
        # An object has no order once it is canonical; the file's order is kept.
        "arm_order": [arm.name for arm in study.arms],
        "arms": arms,
        "benchmarks": benchmarks,
        "metric_order": [metric.name for metric in study.metrics],
        "metrics": {
            metric.name: _present(metric, omit="name") for metric in study.metrics
        },
        "limits": _present(study.limits),
        "retries": _present(study.retries),
        "models": [_present(model) for model in study.models],
        "analysis": _analysis(study),
    }


def _analysis(study: Study) -> dict[str, Any]:
    """Return the analysis plan; of looks nothing is said where nobody looks."""
    found = _present(study.analysis)
    if not study.analysis.looks:
        del found["looks"], found["spending"]
    return found


def _present(record: Any, omit: str = "") -> dict[str, Any]:  # any of the dataclasses
    """Return a dataclass as JSON without the fields that are None: TOML has no null."""
    pairs = ((name, getattr(record, name)) for name in record.__dataclass_fields__)
    return {
        name: thaw(freeze(value))
        for name, value in pairs
        if name != omit and value is not None
    }

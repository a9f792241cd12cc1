"""What a cell came to: arms, attempts, resources, and its form in the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import digest
from lazycore.experiments._failures import FailureClass
from lazycore.experiments._results import FailureRow, ResultRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._plan import Cell
    from lazycore.experiments._protocol import Response
    from lazycore.experiments._study import Study

__all__ = [
    "ArmOutcome",
    "Attempt",
    "Resources",
    "attempt_body",
    "cell_body",
    "failure_rows",
    "leaf_digest",
    "result_rows",
]

# What the method or the benchmark reports is a result; the rest is a fault.
_REPORTED = frozenset({FailureClass.ALGORITHM, FailureClass.BENCHMARK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What an attempt used; None is unknown, never 0.

    Attributes:
        wall_s: From the start of the worker to its end.
        cpu_s: User and system time of the worker and its descendants.
        max_rss_bytes: Peak resident set of one process.
        exit_reason: ``completed``, ``nonzero_exit``, ``signal``, ``timed_out``,
            ``oom_killed`` or ``supervisor_error``.
        exit_code: Exit status, or minus the signal, or None.
        method: How the figures were obtained.
    """

    wall_s: float | None
    cpu_s: float | None
    max_rss_bytes: int | None
    exit_reason: str
    exit_code: int | None
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of one arm.

    Attributes:
        number: From 1.
        failure_class: Why it failed, or None.
        message: What happened, screened, or None.
        resources: What it used.
        response: The checked response, or None.
    """

    number: int
    failure_class: FailureClass | None
    message: str | None
    resources: Resources
    response: Response | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmOutcome:
    """The attempts of one arm in one cell; the last one counts.

    Attributes:
        arm: Its name.
        request: Digest of its request.
        attempts: In order, at least one.
        started_ns: When the first attempt began, in Unix nanoseconds.
        ended_ns: When the last one ended.
    """

    arm: str
    request: str
    attempts: tuple[Attempt, ...]
    started_ns: int = 0
    ended_ns: int = 0

    @property
    def last(self) -> Attempt:
        """The attempt that counts."""
        return self.attempts[-1]


def attempt_body(cell: Cell, arm: str, attempt: Attempt) -> dict[str, Any]:
    """Return a failed attempt that is followed by another, for the journal."""
    return {
        "cell": cell.id,
        "benchmark": cell.benchmark,
        "model": cell.model,
        "seed": cell.seed,
        "units": list(cell.units),
        "arm": arm,
        "attempt": attempt.number,
        "class": attempt.failure_class,
        "message": attempt.message,
        "resources": _resources(attempt.resources),
    }


def cell_body(cell: Cell, outcomes: Mapping[str, ArmOutcome]) -> dict[str, Any]:
    """Return a finished cell as the journal keeps it."""
    arms = {name: _arm(outcomes[name]) for name in sorted(outcomes)}
    failed = any(
        arm["class"] is not None and arm["class"] not in _REPORTED
        for arm in arms.values()
    )
    return {
        "cell": cell.id,
        "index": cell.index,
        "benchmark": cell.benchmark,
        "model": cell.model,
        "seed": cell.seed,
        "units": list(cell.units),
        "block": cell.block,
        "order": list(cell.order),
        "status": "failed" if failed else "succeeded",
        "arms": arms,
    }


def leaf_digest(body: Mapping[str, Any]) -> str:
    """Return the digest of a cell's values and statuses, without its timings."""
    arms = {
        name: [
            arm["status"],
            arm["class"],
            {
                unit: [row["class"], row["metrics"]]
                for unit, row in arm["units"].items()
            },
        ]
        for name, arm in body["arms"].items()
    }
    place = [body["benchmark"], body["model"], body["seed"], body["units"]]
    return digest([place, body["status"], arms])


def result_rows(study: Study, body: Mapping[str, Any]) -> tuple[ResultRow, ...]:
    """Return the rows of a finished cell: units, then arms, then metrics."""
    benchmark = _benchmark(study, body)
    rows: list[ResultRow] = []
    for unit in body["units"]:
        for arm in study.arms:
            record = body["arms"][arm.name]
            found = record["units"].get(unit)
            failure = record["class"] if found is None else found["class"]
            used, told = record["resources"], record["usage"]
            rows.extend(
                ResultRow(
                    cell=body["cell"],
                    benchmark=benchmark,
                    unit=unit,
                    seed=body["seed"],
                    arm=arm.name,
                    metric=metric.name,
                    value=None if failure else float(found["metrics"][metric.name]),
                    status="failed" if failure else "succeeded",
                    failure_class=failure,
                    attempt=record["attempt"],
                    wall_s=used["wall_s"],
                    cpu_s=used["cpu_s"],
                    max_rss_bytes=used["max_rss_bytes"],
                    request_digest=record["request"],
                    response_digest=record["response"],
                    input_tokens=told.get("input_tokens"),
                    output_tokens=told.get("output_tokens"),
                    cost_usd=_number(told.get("cost_usd")),
                )
                for metric in study.metrics
            )
    return tuple(rows)


def failure_rows(
    study: Study, body: Mapping[str, Any], *, final: bool
) -> tuple[FailureRow, ...]:
    """Return the failures that an ``attempt`` or a ``cell`` record holds."""
    common: dict[str, Any] = {
        "cell": body["cell"],
        "benchmark": _benchmark(study, body),
        "seed": body["seed"],
        "final": final,
    }
    if not final:
        return (
            FailureRow(
                **common,
                units=tuple(body["units"]),
                arm=body["arm"],
                attempt=body["attempt"],
                failure_class=body["class"],
                message=body["message"] or "",
            ),
        )
    rows: list[FailureRow] = []
    for name, arm in body["arms"].items():
        whole = arm["class"]
        by_unit = [(unit, row) for unit, row in arm["units"].items() if row["class"]]
        found = (
            [(tuple(body["units"]), whole, arm["message"])]
            if whole
            else [((unit,), row["class"], row["message"]) for unit, row in by_unit]
        )
        rows.extend(
            FailureRow(
                **common,
                units=units,
                arm=name,
                attempt=arm["attempt"],
                failure_class=failure,
                message=message or "",
            )
            for units, failure, message in found
        )
    return tuple(rows)


def _number(value: float | None) -> float | None:
    """Return a float: canonical JSON writes a whole one as an integer."""
    return None if value is None else float(value)


def _benchmark(study: Study, body: Mapping[str, Any]) -> str:
    name: str = body["benchmark"]
    return f"{name}@{body['model']}" if len(study.models) > 1 else name


def _resources(used: Resources) -> dict[str, Any]:
    return {
        "wall_s": used.wall_s,
        "cpu_s": used.cpu_s,
        "max_rss_bytes": used.max_rss_bytes,
        "exit_reason": used.exit_reason,
        "exit_code": used.exit_code,
        "method": used.method,
    }


def _arm(outcome: ArmOutcome) -> dict[str, Any]:
    last = outcome.last
    response = last.response
    units = {} if response is None else response.units
    rows = {
        unit: {
            "class": row.failure_class,
            "message": row.message,
            "metrics": dict(row.metrics),
            "output": row.output,
        }
        for unit, row in units.items()
    }
    failures = {row.failure_class for row in units.values()}
    # A worker that reports one failure for the whole request failed as a whole.
    whole = last.failure_class
    message = last.message
    if whole is None and None not in failures and len(failures) == 1:
        first = next(iter(units.values()))
        whole, message = first.failure_class, first.message
    return {
        "status": "succeeded" if whole is None else "failed",
        "class": whole,
        "message": message,
        "attempt": last.number,
        "request": outcome.request,
        "response": None if response is None else response.digest,
        "usage": {} if response is None else dict(response.usage),
        "resources": _resources(last.resources),
        "units": rows,
    }

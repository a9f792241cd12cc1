"""One row per arm, unit and metric: what a run hands to statistics and reports."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FailureRow", "ResultRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One metric of one unit under one arm.

    A failed arm (or a failed unit of a block cell) has one row per declared
    metric, with ``value`` None and its failure class. Resources that could not be
    measured are None, never 0. In a block cell the resources are those of the
    whole block.

    Attributes:
        cell: Cell id, 64 hex digits.
        benchmark: Benchmark id; ``id@slot`` where a study has several model slots.
        unit: Unit id: the cluster of the paired statistics.
        seed: Replicate inside the unit.
        arm: Arm name.
        metric: Metric name as declared in the study.
        value: The measured number, or None where the arm or unit failed.
        status: ``succeeded`` or ``failed``.
        failure_class: One of the failure classes, or None.
        attempt: The attempt that produced this outcome, from 1.
        wall_s: Wall-clock seconds of that attempt.
        cpu_s: CPU seconds of that attempt, descendants included.
        max_rss_bytes: Peak resident set size of the attempt.
        request_digest: SHA-256 of the canonical request.
        response_digest: SHA-256 of the canonical response, or None without one.
        input_tokens: Tokens the worker says its models read for the request, or None.
        output_tokens: Tokens the worker says its models wrote, or None.
        cost_usd: What the worker says the request cost in US dollars, or None.

    Examples:
        >>> row = ResultRow(
        ...     cell="0" * 64, benchmark="b", unit="u", seed=0, arm="no_op",
        ...     metric="accuracy", value=1.0, status="succeeded",
        ...     failure_class=None, attempt=1, wall_s=0.1, cpu_s=0.1,
        ...     max_rss_bytes=None, request_digest="0" * 64, response_digest=None,
        ... )
        >>> row.value
        1.0
    """

    cell: str
    benchmark: str
    unit: str
    seed: int
    arm: str
    metric: str
    value: float | None
    status: str
    failure_class: str | None
    attempt: int
    wall_s: float | None
    cpu_s: float | None
    max_rss_bytes: int | None
    request_digest: str
    response_digest: str | None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """One attempt that did not succeed, retried or final.

    Attributes:
        cell: Cell id.
        benchmark: Benchmark id as in `ResultRow`.
        units: The units of the attempt; more than one in a block cell.
        seed: Replicate inside the unit.
        arm: Arm name.
        attempt: From 1.
        failure_class: One of the failure classes.
        message: What happened, screened for secrets, at most 2,048 characters.
        final: False where a later attempt followed.
    """

    cell: str
    benchmark: str
    units: tuple[str, ...]
    seed: int
    arm: str
    attempt: int
    failure_class: str
    message: str
    final: bool

"""The host's side of the protocol: build requests, judge responses strictly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import canonical, sha256_hex
from lazycore.experiments._errors import CanonicalError, ProtocolError
from lazycore.experiments._failures import FailureClass
from lazycore.experiments._strict_json import parse
from lazycore.experiments._worker import WORKER_PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._plan import Cell
    from lazycore.experiments._study import Study

__all__ = [
    "USAGE_COUNTS",
    "USAGE_NUMBERS",
    "Response",
    "UnitOutcome",
    "build_request",
    "read_response",
    "request_digest",
]

_LAST_FIELD = b'"schema_version":1}'

USAGE_COUNTS = frozenset(
    {
        "cached_tokens",
        "input_tokens",
        "model_calls",
        "output_tokens",
        "reasoning_tokens",
        "tool_calls",
        "total_tokens",
    }
)
USAGE_NUMBERS = frozenset(
    {"cost_usd", "model_seconds", "queue_seconds", "tool_seconds"}
)
_FIELDS = frozenset(
    {
        "failure",
        "metrics",
        "output",
        "protocol",
        "request_hash",
        "schema_version",
        "status",
        "units",
        "usage",
    }
)
_UNIT_FIELDS = frozenset({"failure", "metrics", "output", "status"})
_FAILURE_FIELDS = frozenset({"category", "message", "scope"})
_SCOPES = {
    "algorithm": FailureClass.ALGORITHM,
    "benchmark": FailureClass.BENCHMARK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOutcome:
    """What one unit gave under one arm.

    Attributes:
        metrics: Metric name to value; empty when it failed.
        output: What the worker wants kept.
        failure_class: ``algorithm`` or ``benchmark``, or None.
        message: Category and message of the failure, or None.
    """

    metrics: Mapping[str, float]
    output: Any  # JSON of the worker's choice
    failure_class: FailureClass | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response that passed every check.

    Attributes:
        digest: SHA-256 of its canonical form.
        usage: Known counters.
        output: Output of the whole request.
        units: One outcome per unit of the cell.
    """

    digest: str
    usage: Mapping[str, float]
    output: Any  # JSON of the worker's choice
    units: Mapping[str, UnitOutcome]


def build_request(
    study: Study, lock_digest: str, cell: Cell, arm: str
) -> tuple[bytes, str]:
    """Return the canonical request of an arm in a cell and its digest.

    The digest covers everything but itself; the worker must repeat it.
    """
    text = _request(study, lock_digest, cell, arm)
    found = sha256_hex(text)
    # Its place in the order of the keys: the last one stays the last.
    begin = text.removesuffix(_LAST_FIELD)
    return b'%s"request_hash":"%s",%s' % (begin, found.encode(), _LAST_FIELD), found


def request_digest(study: Study, lock_digest: str, cell: Cell, arm: str) -> str:
    """Return the digest of a request alone."""
    return sha256_hex(_request(study, lock_digest, cell, arm))


def _request(study: Study, lock_digest: str, cell: Cell, arm: str) -> bytes:
    benchmark = study.benchmark(cell.benchmark)
    chosen = study.arm(arm)
    model = next((m for m in study.models if m.slot == cell.model), None)
    document: dict[str, Any] = {
        "schema_version": 1,
        "protocol": WORKER_PROTOCOL,
        "lock": lock_digest,
        "cell": {
            "id": cell.id,
            "study": study.id,
            "benchmark": cell.benchmark,
            "units": cell.units,
            "seed": cell.seed,
            "block": cell.block,
        },
        "arm": {"name": arm},
        "model": model and {"slot": model.slot, "checkpoint": model.checkpoint},
        "metrics": [metric.name for metric in study.metrics],
        "parameters": {
            "shared": study.parameters,
            "benchmark": benchmark.parameters,
            "arm": chosen.parameters,
        },
    }
    return canonical(document)


def read_response(
    data: bytes,
    *,
    request_hash: str,
    cell: Cell,
    metrics: frozenset[str] | None,
    limit: int,
) -> Response:
    """Check a response against the protocol.

    Args:
        data: What the worker wrote.
        request_hash: The request it must answer.
        cell: The cell of the request.
        metrics: The declared metric names; exactly these must be there. None
            accepts any, at least one.
        limit: Longest accepted response in bytes.

    Raises:
        ProtocolError: Anything else than one well-formed answer to this request.
    """
    try:
        document = parse(data, limit_bytes=limit)
    except CanonicalError as error:
        raise ProtocolError(f"the response is refused: {error}") from error
    fields = _object(document, _FIELDS, "the response")
    if type(fields["schema_version"]) is not int or fields["schema_version"] != 1:
        raise ProtocolError("schema_version is not 1")
    if fields["protocol"] != WORKER_PROTOCOL:
        raise ProtocolError(f"protocol is not {WORKER_PROTOCOL}")
    if fields["request_hash"] != request_hash:
        raise ProtocolError("request_hash is not that of the request")
    usage = _usage(fields["usage"])
    whole = {name: fields[name] for name in ("status", "metrics", "output", "failure")}
    units: dict[str, UnitOutcome]
    if fields["status"] == "failed" or not cell.block:
        if fields["units"] is not None:
            raise ProtocolError("units must be null unless a block succeeded")
        outcome = _outcome(whole, metrics, "the response")
        units = dict.fromkeys(cell.units, outcome)
    else:
        if fields["metrics"] != {} or fields["failure"] is not None:
            raise ProtocolError("a block answers per unit; its own metrics are {}")
        if fields["status"] != "succeeded":
            raise ProtocolError("status is neither 'succeeded' nor 'failed'")
        rows = _object(fields["units"], frozenset(cell.units), "units")
        units = {
            unit: _outcome(
                _object(rows[unit], _UNIT_FIELDS, f"unit {unit!r}"),
                metrics,
                f"unit {unit!r}",
            )
            for unit in cell.units
        }
    return Response(
        digest=sha256_hex(canonical(document)),
        usage=usage,
        output=fields["output"],
        units=units,
    )


def _object(value: object, names: frozenset[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError(f"{where} is no object")
    if value.keys() != names:
        missing = sorted(names - value.keys())[:5]
        unknown = sorted(name[:40] for name in value.keys() - names)[:5]
        raise ProtocolError(f"{where}: missing {missing}, unknown {unknown}")
    return value


def _outcome(
    fields: dict[str, Any], metrics: frozenset[str] | None, where: str
) -> UnitOutcome:
    failure = fields["failure"]
    if fields["status"] == "failed":
        if fields["metrics"] != {} or fields["output"] is not None:
            raise ProtocolError(f"{where} failed, so metrics are {{}}, output null")
        detail = _object(failure, _FAILURE_FIELDS, f"{where}: failure")
        if not all(isinstance(text, str) for text in detail.values()):
            raise ProtocolError(f"{where}: failure fields are strings")
        if detail["scope"] not in _SCOPES:
            raise ProtocolError(f"{where}: scope is neither algorithm nor benchmark")
        text = ": ".join(filter(None, (detail["category"], detail["message"])))
        return UnitOutcome(
            metrics={},
            output=None,
            failure_class=_SCOPES[detail["scope"]],
            message=text[:2048],
        )
    if fields["status"] != "succeeded":
        raise ProtocolError(f"{where}: status is neither 'succeeded' nor 'failed'")
    if failure is not None:
        raise ProtocolError(f"{where} succeeded, so failure is null")
    values = fields["metrics"]
    names = metrics
    if names is None:
        found = values if isinstance(values, dict) else {}
        names = frozenset(found) or frozenset({"any metric"})
    values = _object(values, names, f"{where}: metrics")
    for name, value in values.items():
        if type(value) not in {int, float} or not math.isfinite(value):
            raise ProtocolError(f"{where}: metric {name} is no finite number")
    return UnitOutcome(
        metrics={name: float(value) for name, value in values.items()},
        output=fields["output"],
        failure_class=None,
        message=None,
    )


def _usage(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ProtocolError("usage is no object")
    for name, number in value.items():
        whole = name in USAGE_COUNTS
        if not whole and name not in USAGE_NUMBERS:
            raise ProtocolError(f"usage: unknown counter {name[:40]!r}")
        kinds = {int} if whole else {int, float}
        if type(number) not in kinds or number < 0:
            raise ProtocolError(f"usage: {name} is no number from 0")
    return value

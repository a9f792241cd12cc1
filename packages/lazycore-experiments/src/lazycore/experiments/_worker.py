"""The worker's side of the protocol: read a request, call a handler, answer.

Runs inside the sandbox, often once per request, so it imports little. The answer
goes to a descriptor of its own: whatever the handler prints stays a log line.
"""

from __future__ import annotations

import json
import os
import sys

# `typing` would cost every worker a few milliseconds of its start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["AlgorithmFailure", "BenchmarkFailure", "Reply", "Request", "serve"]

WORKER_PROTOCOL = "lazycore-experiments/worker/1"
REPLY_VARIABLE = "LAZYCORE_REPLY_FD"
REQUESTS_VARIABLE = "LAZYCORE_REQUESTS"
REPLIES_VARIABLE = "LAZYCORE_REPLIES"
READY = b"ready"
# A warm server sets this list: `serve` then registers instead of answering.
_registered: list[tuple[Handler, Callable[[], object] | None]] | None = None

if TYPE_CHECKING:
    Handler = Callable[["Request"], "Mapping[str, float] | Reply"]


class AlgorithmFailure(Exception):  # noqa: N818 - it reports, it does not complain
    """Raise it when the method, not the program, failed on a unit.

    Args:
        category: A short word that reports group by.
        message: What happened.

    Examples:
        >>> raise AlgorithmFailure("no-answer", "the solver gave up")
        Traceback (most recent call last):
        ...
        lazycore.experiments._worker.AlgorithmFailure: no-answer: the solver gave up
    """

    scope = "algorithm"

    def __init__(self, category: str, message: str = "") -> None:
        self.category = category
        self.message = message
        super().__init__(f"{category}: {message}" if message else category)


class BenchmarkFailure(AlgorithmFailure):
    """Raise it when the benchmark's own data or scorer failed on a unit.

    Examples:
        >>> BenchmarkFailure("bad-row", "row 7 has no label").scope
        'benchmark'
    """

    scope = "benchmark"


class Request:
    """What one call has to do.

    Attributes:
        unit: The unit's id; in a block, the first.
        units: All unit ids; more than one in a block.
        benchmark: Benchmark id.
        seed: Replicate inside the unit.
        arm: Name of the arm.
        model: Checkpoint of the model slot, or None.
        parameters: Shared parameters, then the benchmark's, then the arm's.
        block: Whether the answer is per unit.
        document: The whole request.

    Examples:
        >>> def handler(request: Request) -> dict[str, float]:
        ...     return {"accuracy": float(len(request.unit) > 3)}
    """

    __slots__ = (
        "arm",
        "benchmark",
        "block",
        "document",
        "model",
        "parameters",
        "seed",
        "unit",
        "units",
    )

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        cell = document["cell"]
        self.benchmark: str = cell["benchmark"]
        self.units: tuple[str, ...] = tuple(cell["units"])
        self.unit: str = self.units[0]
        self.seed: int = cell["seed"]
        self.block: bool = cell["block"]
        self.arm: str = document["arm"]["name"]
        model = document["model"]
        self.model: str | None = None if model is None else model["checkpoint"]
        parts = document["parameters"]
        self.parameters: dict[str, Any] = {
            **parts["shared"],
            **parts["benchmark"],
            **parts["arm"],
        }

    def stream(self, *parts: str | int) -> random.Random:
        """Return random numbers that depend on study, benchmark, seed and parts.

        Equal for every arm: both arms see the same noise, which is what makes the
        difference a paired one.

        Args:
            parts: What sets this stream apart, for instance the unit.

        Examples:
            >>> def handler(request: Request) -> dict[str, float]:
            ...     return {"draw": request.stream(request.unit).random()}
        """
        import hashlib
        import random

        cell = self.document["cell"]
        text = json.dumps([cell["study"], cell["benchmark"], self.seed, *parts])
        seed = hashlib.sha256(text.encode()).digest()
        return random.Random(seed)  # noqa: S311 - noise for science, not a secret


class Reply:
    """What a handler returns when bare metrics are not enough.

    Args:
        metrics: Metric name to finite number; empty in a block.
        output: Anything JSON-able that the report should keep.
        usage: Calls, tokens, seconds and cost; see the protocol page.
        units: In a block: unit id to its own `Reply` or `AlgorithmFailure`.

    Examples:
        >>> Reply(metrics={"accuracy": 1.0}, output="positive").metrics
        {'accuracy': 1.0}
    """

    __slots__ = ("metrics", "output", "units", "usage")

    def __init__(
        self,
        metrics: Mapping[str, float] | None = None,
        *,
        output: Any = None,  # JSON of the worker's choice
        usage: Mapping[str, float] | None = None,
        units: Mapping[str, Reply | AlgorithmFailure] | None = None,
    ) -> None:
        self.metrics = dict(metrics or {})
        self.output = output
        self.usage = dict(usage or {})
        self.units = None if units is None else dict(units)


def serve(
    handler: Callable[[Request], Mapping[str, float] | Reply],
    *,
    prepare: Callable[[], object] | None = None,
) -> None:
    """Answer one request with a handler; the last line of a worker file.

    In mode ``fresh`` the request is read from stdin, ``prepare`` and the handler run,
    and the answer is written to its own descriptor. In mode ``fork`` a warm server
    runs ``prepare`` once and forks one confined child per request for the handler.
    In mode ``session`` ``prepare`` runs once and the handler for one request after
    the other in the same process: what it keeps, the next request finds.

    Args:
        handler: Takes a `Request`, returns metrics or a `Reply`, or raises
            `AlgorithmFailure`. Any other exception ends the worker: class crash.
        prepare: Loads what every request needs, before the first one.

    Examples:
        >>> def handler(request: Request) -> dict[str, float]:
        ...     return {"accuracy": 1.0}
        >>> if __name__ == "__main__":  # in a worker file
        ...     serve(handler)  # doctest: +SKIP
    """
    if _registered is not None:
        _registered.append((handler, prepare))
        return
    requests = os.environ.get(REQUESTS_VARIABLE)
    if requests is not None:
        _converse(handler, prepare, requests, os.environ[REPLIES_VARIABLE])
        return
    channel = os.environ.get(REPLY_VARIABLE)
    document = json.loads(sys.stdin.buffer.read())
    if prepare is not None:
        prepare()
    data = answer(handler, document)
    sys.stdout.flush()
    if channel is None:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    _write(int(channel), data)


def _converse(
    handler: Handler, prepare: Callable[[], object] | None, requests: str, replies: str
) -> None:
    """Answer requests, one line each, until there are no more."""
    with open(requests, "rb") as source:  # noqa: PTH123 - pathlib is slow to load
        channel = os.open(replies, os.O_WRONLY | os.O_CLOEXEC)
        if prepare is not None:
            prepare()
        _write(channel, READY + b"\n")
        for line in source:
            data = answer(handler, json.loads(line))
            sys.stdout.flush()
            _write(channel, data + b"\n")


def _write(channel: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(channel, view) :]


def answer(handler: Handler, document: dict[str, Any]) -> bytes:
    """Call a handler and encode its answer in the protocol."""
    request = Request(document)
    response: dict[str, Any] = {
        "schema_version": 1,
        "protocol": WORKER_PROTOCOL,
        "request_hash": document["request_hash"],
        "status": "succeeded",
        "metrics": {},
        "usage": {},
        "output": None,
        "failure": None,
        "units": None,
    }
    try:
        result = handler(request)
    except AlgorithmFailure as failure:
        response |= {"status": "failed", "failure": _failure(failure)}
    else:
        reply = result if isinstance(result, Reply) else Reply(result)
        response |= {
            "metrics": reply.metrics,
            "usage": reply.usage,
            "output": reply.output,
        }
        if reply.units is not None:
            response["units"] = {
                unit: _unit(item) for unit, item in reply.units.items()
            }
    # NaN is written as NaN: the host refuses it and says so, with the metric's name.
    return json.dumps(response, default=_plain, ensure_ascii=False).encode()


def _unit(item: Reply | AlgorithmFailure) -> dict[str, Any]:
    if isinstance(item, AlgorithmFailure):
        return {
            "status": "failed",
            "metrics": {},
            "output": None,
            "failure": _failure(item),
        }
    return {
        "status": "succeeded",
        "metrics": item.metrics,
        "output": item.output,
        "failure": None,
    }


def _failure(failure: AlgorithmFailure) -> dict[str, str]:
    return {
        "scope": failure.scope,
        "category": failure.category,
        "message": failure.message,
    }


def _plain(value: object) -> object:
    """Reduce NumPy scalars, which have `item`, to Python numbers."""
    item = getattr(value, "item", None)
    if callable(item):
        return item()
    raise TypeError(f"a {type(value).__name__} is no JSON value")

"""Carry the context to threads, executors, process pools and child programs."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lazycore.telemetry import _runtime
from lazycore.telemetry._errors import TelemetryUsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token

    from opentelemetry.context import Context

__all__ = ["attach_carrier", "carrier", "run_in_context"]

P = ParamSpec("P")
R = TypeVar("R")

_KEYS = ("traceparent", "tracestate", "baggage")


def carrier(*, environment: bool = False, baggage: bool = False) -> dict[str, str]:
    """Return the present context as text that any process can carry.

    Args:
        environment: Names in capitals (`TRACEPARENT`), for the environment of a
            child program, as OpenTelemetry's environment carriers have it.
        baggage: Whether baggage goes along. It is data of the application, so it
            does not cross a trust boundary by itself.

    Returns:
        Empty where no span is current and no baggage is asked for.

    Example:
        >>> carrier()
        {}
    """
    _runtime.current()
    from opentelemetry.trace.propagation.tracecontext import (
        TraceContextTextMapPropagator,
    )

    found: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(found)
    if baggage:
        from opentelemetry.baggage.propagation import W3CBaggagePropagator

        W3CBaggagePropagator().inject(found)
    if environment:
        return {name.upper(): value for name, value in found.items()}
    return found


class attach_carrier:  # noqa: N801 - used as a function
    """Continue a context that `carrier` described, for the length of a block.

    Args:
        values: What `carrier` returned; None takes `TRACEPARENT`, `TRACESTATE` and
            `BAGGAGE` from this process's environment. What is not understood is
            ignored: the carrier may come from an untrusted side.

    Example:
        >>> from lazycore.telemetry import genai_span
        >>> parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        >>> with attach_carrier({"traceparent": parent}):
        ...     carrier()["traceparent"] == parent
        True
    """

    __slots__ = ("_attached", "_token", "_values")

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        if values is not None and not hasattr(values, "items"):
            raise TelemetryUsageError(
                f"a carrier is a mapping of strings, not {type(values).__name__}"
            )
        self._values = values
        self._token: Token[Context] | None = None
        self._attached: Context | None = None

    def __enter__(self) -> None:
        from opentelemetry.baggage.propagation import W3CBaggagePropagator
        from opentelemetry.trace.propagation.tracecontext import (
            TraceContextTextMapPropagator,
        )

        values = os.environ if self._values is None else self._values
        found = {
            name.lower(): value
            for name, value in _items(values)
            if isinstance(name, str)
            and isinstance(value, str)
            and name.lower() in _KEYS
            and len(value) <= 8192
        }
        runtime = _runtime.current()
        context = TraceContextTextMapPropagator().extract(found)
        context = W3CBaggagePropagator().extract(found, context)
        self._attached = context
        self._token = runtime.attach(context)

    def __exit__(self, *_: object) -> None:
        token, self._token = self._token, None
        runtime = _runtime.current()
        if token is not None and runtime.get_context() is self._attached:
            # In a copy of the context the token can't be used.
            with contextlib.suppress(ValueError):
                runtime.detach(token)


def run_in_context(
    function: Callable[P, R], values: Mapping[str, str] | None = None
) -> Callable[P, R]:
    """Bind a function to the present context, for a thread, executor or process pool.

    The result can be pickled where the function can: it holds the context as text.

    Args:
        function: What to run elsewhere.
        values: A carrier of another moment; the present context by default.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor(1) as pool:
        ...     pool.submit(run_in_context(len), "abc").result()
        3
    """
    if not callable(function):
        raise TelemetryUsageError(f"expected a function, found {function!r}")
    held = carrier(baggage=True) if values is None else dict(values)
    return functools.partial(_run, function, held)


def _run(
    function: Callable[P, R],
    values: Mapping[str, str],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    with attach_carrier(values):
        return function(*args, **kwargs)


def _items(values: Mapping[str, str]) -> list[tuple[object, object]]:
    """Return the pairs of a carrier from an untrusted side."""
    try:
        return list(values.items())
    except Exception:  # noqa: BLE001 - foreign mappings may refuse
        return []

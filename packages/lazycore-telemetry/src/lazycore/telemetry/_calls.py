"""Read a call: which operation it means, and whether its options make sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._operations import CONTROLS, FREE, find_operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.telemetry._operations import Operation

__all__ = ["SHAPES", "Shape", "read_call"]

# Programs write few different calls; more than this many are checked each time.
MAX_SHAPES: Final = 512


class Shape:
    """A call without its values: an operation and the names of its options.

    Checked once and remembered, so that the next call of the same shape needs one
    look-up. It holds no value of any call.

    Attributes:
        operation: What the call means.
        needs: Options that must have a value.
        plain: An inference whose span is named after its model and has nothing but
            the attributes of its options.
        answers: Whether its response may say all that an inference's does.
    """

    __slots__ = ("answers", "needs", "operation", "plain")

    def __init__(
        self, operation: Operation, *, needs: frozenset[str], plain: bool
    ) -> None:
        self.operation = operation
        self.needs = needs
        self.plain = plain
        self.answers = operation.answers

    def altered(self) -> Shape:
        """Return the shape of the same call with options that came later."""
        return Shape(self.operation, needs=self.needs, plain=False)

    def lacks(self, given: Mapping[str, object]) -> bool:
        """Tell whether a needed option has no value."""
        return any(given.get(name) is None for name in self.needs)


SHAPES: Final[dict[tuple[object, ...], Shape]] = {}


def read_call(
    name: object, provider: object, model: object, given: dict[str, object]
) -> tuple[Shape, dict[str, object]]:
    """Return the shape of a call that is not known yet, and all its options.

    Raises:
        TelemetryUsageError: Naming the option and what is allowed.
    """
    kind = given.get("kind")
    remote = provider is not None or getattr(kind, "name", None) == "CLIENT"
    operation = find_operation(name, remote=remote)
    request = given.get("request")
    asked = given
    if request is not None:
        if not isinstance(request, dict):
            raise TelemetryUsageError(
                f"request is a dict of options, not {type(request).__name__}"
            )
        doubled = sorted(request.keys() & given.keys())
        if doubled:
            raise TelemetryUsageError(f"given twice: {', '.join(doubled)}")
        given = {**given, **request}
        del given["request"]
    check_call(operation, provider, model, given)
    check_controls(given)
    if operation is FREE:
        given = {**given, "name": given.get("name") or name}
    needs = operation.needs
    if "server_port" in given:
        needs |= {"server_address"}
    simple = CONTROLS.isdisjoint(given)
    plain = simple and operation.family == "inference" and provider is not None
    found = Shape(operation, needs=needs, plain=plain)
    # Controls decide what a call means or are checked by value: each time.
    if simple and given is asked and len(SHAPES) < MAX_SHAPES:
        SHAPES[name, provider is None, model is None, *asked] = found
    return found, given


def check_call(
    operation: Operation,
    provider: object,
    model: object,
    given: dict[str, object],
) -> None:
    """Refuse options that the operation does not have, and missing ones.

    Raises:
        TelemetryUsageError: Naming the option and what is allowed.
    """
    unknown = sorted(given.keys() - operation.allows)
    label = operation.name or "a span of your own"
    if unknown:
        allowed = ", ".join(sorted(operation.allows))
        raise TelemetryUsageError(
            f"{label} does not take {', '.join(unknown)}; it takes {allowed}; "
            "attributes of your own go into extra={...}"
        )
    for name, value in (("provider", provider), ("model", model)):
        if value is not None and name not in operation.takes:
            raise TelemetryUsageError(f"{label} does not take {name}")
    if operation.needs_provider and provider is None:
        raise TelemetryUsageError(
            f"{label} needs provider=..., as the conventions require: 'openai', "
            "'anthropic', 'aws.bedrock', or a name of your own"
        )
    missing = sorted(name for name in operation.needs if given.get(name) is None)
    if missing:
        raise TelemetryUsageError(f"{label} needs {', '.join(missing)}")
    if given.get("server_port") is not None and given.get("server_address") is None:
        raise TelemetryUsageError("server_port says nothing without server_address")


def check_controls(given: Mapping[str, object]) -> None:
    """Refuse controls of a wrong kind: they come from code, not from data."""
    for key, method in (("tracer", "start_span"), ("extra", "items")):
        value = given.get(key)
        if value is not None and not callable(getattr(value, method, None)):
            raise TelemetryUsageError(f"{key} has no {method}(): {value!r}")
    attributes = given.get("attributes")
    if attributes is not None and not callable(getattr(attributes, "items", None)):
        raise TelemetryUsageError("attributes is a mapping")
    kind = given.get("kind")
    if kind is not None and getattr(kind, "name", None) not in _KINDS:
        raise TelemetryUsageError(f"kind is an OpenTelemetry SpanKind, not {kind!r}")
    context = given.get("context")
    if context is not None and not isinstance(context, dict):
        raise TelemetryUsageError(
            f"context is an OpenTelemetry Context, not {type(context).__name__}"
        )


_KINDS = frozenset({"CLIENT", "CONSUMER", "INTERNAL", "PRODUCER", "SERVER"})

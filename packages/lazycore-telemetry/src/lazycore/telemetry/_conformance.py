"""Hold spans against the table of names, and the table against itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lazycore.telemetry._conventions import (
        Attribute,
        Conventions,
        Metric,
        SpanRules,
    )

__all__ = ["FinishedSpan", "fits", "problems", "violations"]

TYPES: Final = (
    "any",
    "boolean",
    "double",
    "int",
    "string",
    "string[]",
    "template[any]",
)
KINDS: Final = ("CLIENT", "INTERNAL")


class FinishedSpan(Protocol):
    """What the check reads of a span; an SDK's exported span has it."""

    @property
    def name(self) -> str:
        """Name of the span."""

    @property
    def kind(self) -> Any:
        """Its kind, an enumeration with names."""

    @property
    def attributes(self) -> Mapping[str, Any] | None:
        """Its attributes."""


def violations(table: Conventions, span: FinishedSpan, profile: str) -> Iterator[str]:
    """Yield what of a finished span breaks the table."""
    given = dict(span.attributes or {})
    operation = given.get("gen_ai.operation.name")
    if operation is None:
        yield f"{span.name}: no gen_ai.operation.name"
        return
    kind = getattr(span.kind, "name", str(span.kind))
    remote = operation == "invoke_agent" and kind == "CLIENT"
    rules = table.operations.get(f"{operation} (remote)" if remote else operation)
    if rules is None:
        yield f"{span.name}: unknown operation {operation}"
        return
    if kind not in rules.kinds:
        yield f"{span.name}: kind {kind} is none of {', '.join(rules.kinds)}"
    expected = span_name(rules, given)
    if span.name != expected:
        yield f"{span.name}: the name should be {expected!r}"
    for name in rules.required:
        if name not in given:
            yield f"{span.name}: {name} is required"
    for pair in given.items():
        yield from _of_attribute(table, span.name, rules, profile, pair)


def _of_attribute(
    table: Conventions,
    label: str,
    rules: SpanRules,
    profile: str,
    pair: tuple[str, object],
) -> Iterator[str]:
    name, value = pair
    entry = table.attribute(name)
    if entry is None:
        yield f"{label}: {name} is not in the table"
        return
    if entry.replaced_by is not None and profile != "dup":
        yield f"{label}: {name} is deprecated, use {entry.replaced_by}"
    if not fits(entry.type, value):
        yield f"{label}: {name} should be {entry.type}, is {value!r:.60}"
    if (
        entry.origin != "lazycore"
        and entry.replaced_by is None
        and entry.name not in rules.known
        and not entry.name.startswith("security_rule.")
    ):
        yield f"{label}: {name} does not belong on {rules.name}"


def span_name(rules: SpanRules, given: Mapping[str, object]) -> str:
    """Return the name that a span with these attributes should have."""
    operation, _, target = rules.span_name.partition(" ")
    del operation
    value = given.get(target.strip("{}")) if target else None
    name = str(given.get("gen_ai.operation.name"))
    return f"{name} {value}" if value is not None else name


def problems(table: Conventions) -> Iterator[str]:
    """Yield what is inconsistent in the table itself."""
    for entry in table.attributes.values():
        yield from _entry_problems(table, entry)
    for rules in table.operations.values():
        yield from _rule_problems(table, rules)
    for event in table.events.values():
        yield from _strangers(table, event.name, (*event.required, *event.optional))
    for metric in table.metrics.values():
        yield from _metric_problems(table, metric)


def _entry_problems(table: Conventions, entry: Attribute) -> Iterator[str]:
    if entry.type not in TYPES:
        yield f"{entry.name}: unknown type {entry.type}"
    if entry.origin not in {"gen_ai", "core", "lazycore"}:
        yield f"{entry.name}: unknown origin {entry.origin}"
    successor = entry.replaced_by
    # Names of one provider's own conventions are no part of this table.
    if (
        successor is not None
        and successor not in table.attributes
        and not successor.startswith("openai.")
    ):
        yield f"{entry.name}: replaced by {successor}, which is not there"
    if entry.origin == "gen_ai" and not entry.name.startswith("gen_ai."):
        yield f"{entry.name}: not in the gen_ai namespace"


def _rule_problems(table: Conventions, rules: SpanRules) -> Iterator[str]:
    if "gen_ai.operation.name" not in rules.required:
        yield f"{rules.name}: gen_ai.operation.name is not required"
    if not set(rules.kinds) <= set(KINDS):
        yield f"{rules.name}: unknown kind in {rules.kinds}"
    levels = (*rules.required, *rules.conditional, *rules.recommended)
    total = (*levels, *rules.opt_in)
    if len(total) != len(set(total)):
        yield f"{rules.name}: a name on two levels"
    for name in levels:
        entry = table.attribute(name)
        if entry is not None and entry.content:
            yield f"{rules.name}: content {name} is not opt-in"
    yield from _strangers(table, rules.name, total)


def _metric_problems(table: Conventions, metric: Metric) -> Iterator[str]:
    if not set(metric.profiles) <= set(table.profiles):
        yield f"{metric.name}: unknown profile"
    if list(metric.buckets) != sorted(set(metric.buckets)):
        yield f"{metric.name}: buckets do not ascend"
    if (metric.instrument == "histogram") != bool(metric.buckets):
        yield f"{metric.name}: buckets belong to histograms"
    yield from _strangers(table, metric.name, metric.attributes)


def _strangers(table: Conventions, label: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        entry = table.attribute(name)
        if entry is None:
            yield f"{label}: {name} is not in the table"
        elif entry.replaced_by is not None:
            yield f"{label}: {name} is deprecated"


def fits(kind: str, value: object) -> bool:
    """Tell whether an exported value has the type of the table."""
    if kind == "string":
        return isinstance(value, str)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "double":
        return isinstance(value, float)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string[]":
        return isinstance(value, (list, tuple)) and all(
            isinstance(item, str) for item in value
        )
    return True

"""The dated table of names: read from data, checked, and asked about spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from lazycore.telemetry._errors import TelemetryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Attribute", "Conventions", "Event", "Metric", "SpanRules", "conventions"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One attribute name: its type, origin, age, successor."""

    name: str
    type: str
    since: str
    origin: str
    content: bool
    replaced_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRules:
    """What the span of one operation is named and carries."""

    name: str
    span_name: str
    kinds: tuple[str, ...]
    required: tuple[str, ...]
    conditional: tuple[str, ...]
    recommended: tuple[str, ...]
    opt_in: tuple[str, ...]

    @property
    def known(self) -> frozenset[str]:
        """Every attribute that the span may carry."""
        return frozenset(
            (*self.required, *self.conditional, *self.recommended, *self.opt_in)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event: where it travels and what it carries."""

    name: str
    origin: str
    signals: tuple[str, ...]
    required: tuple[str, ...]
    optional: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One instrument and the profiles that emit it."""

    name: str
    instrument: str
    unit: str
    since: str
    profiles: tuple[str, ...]
    attributes: tuple[str, ...]
    buckets: tuple[float, ...]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """The table of names as it stood on a date.

    Attributes:
        dated: Month of the state.
        schema_url: Schema that emitted spans name.
        providers: Well-known providers; the set is open.
        attributes: Name to attribute, this slice's own names included.
        operations: Operation to the rules of its span.
        events: Name to event.
        metrics: Name to metric, of both live generations.

    Example:
        >>> table = conventions()
        >>> table.attributes["gen_ai.system"].replaced_by
        'gen_ai.provider.name'
    """

    dated: str
    schema_url: str
    registry: str
    stability: str
    profiles: tuple[str, ...]
    providers: tuple[str, ...]
    output_types: tuple[str, ...]
    finish_reasons: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(repr=False)
    operations: Mapping[str, SpanRules] = field(repr=False)
    events: Mapping[str, Event] = field(repr=False)
    metrics: Mapping[str, Metric] = field(repr=False)

    def attribute(self, name: str) -> Attribute | None:
        """Return the entry of a name; templates match what continues them.

        Example:
            >>> conventions().attribute("gen_ai.prompt.variable.city").type
            'template[any]'
        """
        found = self.attributes.get(name)
        if found is not None:
            return found
        while "." in name:
            name = name.rpartition(".")[0]
            found = self.attributes.get(name)
            if found is not None and found.type.startswith("template"):
                return found
        return None

    def violations(self, span: FinishedSpan, *, profile: str = "2026-10") -> list[str]:
        """Return what of a finished span breaks the table; empty if nothing does.

        Args:
            span: An exported span.
            profile: Profile that it was recorded under; `dup` tolerates former names.

        Example:
            >>> from types import SimpleNamespace as Finished
            >>> span = Finished(name="chat", kind=None, attributes={})
            >>> conventions().violations(span)
            ['chat: no gen_ai.operation.name']
        """
        return list(self._violations(span, profile))

    def _violations(self, span: FinishedSpan, profile: str) -> Iterator[str]:
        given = dict(span.attributes or {})
        operation = given.get("gen_ai.operation.name")
        if operation is None:
            yield f"{span.name}: no gen_ai.operation.name"
            return
        kind = getattr(span.kind, "name", str(span.kind))
        remote = operation == "invoke_agent" and kind == "CLIENT"
        rules = self.operations.get(f"{operation} (remote)" if remote else operation)
        if rules is None:
            yield f"{span.name}: unknown operation {operation}"
            return
        if kind not in rules.kinds:
            yield f"{span.name}: kind {kind} is none of {', '.join(rules.kinds)}"
        expected = self.span_name(rules, given)
        if span.name != expected:
            yield f"{span.name}: the name should be {expected!r}"
        for name in rules.required:
            if name not in given:
                yield f"{span.name}: {name} is required"
        for name, value in given.items():
            yield from self._of_attribute(span.name, rules, profile, name, value)

    def _of_attribute(
        self, label: str, rules: SpanRules, profile: str, name: str, value: object
    ) -> Iterator[str]:
        entry = self.attribute(name)
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

    def span_name(self, rules: SpanRules, given: Mapping[str, object]) -> str:
        """Return the name that a span with these attributes should have."""
        operation, _, target = rules.span_name.partition(" ")
        del operation
        value = given.get(target.strip("{}")) if target else None
        name = str(given.get("gen_ai.operation.name"))
        return f"{name} {value}" if value is not None else name

    def problems(self) -> list[str]:
        """Return what is inconsistent in the table itself; empty if nothing is.

        Example:
            >>> conventions().problems()
            []
        """
        return list(self._problems())

    def _problems(self) -> Iterator[str]:
        for entry in self.attributes.values():
            yield from self._entry_problems(entry)
        for rules in self.operations.values():
            yield from self._rule_problems(rules)
        for event in self.events.values():
            yield from self._strangers(event.name, (*event.required, *event.optional))
        for metric in self.metrics.values():
            yield from self._metric_problems(metric)

    def _entry_problems(self, entry: Attribute) -> Iterator[str]:
        if entry.type not in TYPES:
            yield f"{entry.name}: unknown type {entry.type}"
        if entry.origin not in {"gen_ai", "core", "lazycore"}:
            yield f"{entry.name}: unknown origin {entry.origin}"
        successor = entry.replaced_by
        # Names of one provider's own conventions are no part of this table.
        if (
            successor is not None
            and successor not in self.attributes
            and not successor.startswith("openai.")
        ):
            yield f"{entry.name}: replaced by {successor}, which is not there"
        if entry.origin == "gen_ai" and not entry.name.startswith("gen_ai."):
            yield f"{entry.name}: not in the gen_ai namespace"

    def _rule_problems(self, rules: SpanRules) -> Iterator[str]:
        if "gen_ai.operation.name" not in rules.required:
            yield f"{rules.name}: gen_ai.operation.name is not required"
        if not set(rules.kinds) <= set(KINDS):
            yield f"{rules.name}: unknown kind in {rules.kinds}"
        levels = (*rules.required, *rules.conditional, *rules.recommended)
        total = (*levels, *rules.opt_in)
        if len(total) != len(set(total)):
            yield f"{rules.name}: a name on two levels"
        for name in levels:
            entry = self.attribute(name)
            if entry is not None and entry.content:
                yield f"{rules.name}: content {name} is not opt-in"
        yield from self._strangers(rules.name, total)

    def _metric_problems(self, metric: Metric) -> Iterator[str]:
        if not set(metric.profiles) <= set(self.profiles):
            yield f"{metric.name}: unknown profile"
        if list(metric.buckets) != sorted(set(metric.buckets)):
            yield f"{metric.name}: buckets do not ascend"
        if (metric.instrument == "histogram") != bool(metric.buckets):
            yield f"{metric.name}: buckets belong to histograms"
        yield from self._strangers(metric.name, metric.attributes)

    def _strangers(self, label: str, names: tuple[str, ...]) -> Iterator[str]:
        for name in names:
            entry = self.attribute(name)
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


_loaded: Conventions | None = None


def conventions() -> Conventions:
    """Return the table that this version was built on.

    Raises:
        TelemetryError: If the installed table is damaged.

    Example:
        >>> conventions().dated
        '2026-10'
    """
    global _loaded  # noqa: PLW0603 - read once
    if _loaded is None:
        import tomllib
        from importlib.resources import files

        try:
            text = (files(__package__) / "conventions.toml").read_text("utf-8")
            _loaded = parse(tomllib.loads(text))
        except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise TelemetryError(
                f"the installed table of conventions is damaged ({error!r}): "
                "reinstall lazycore-telemetry"
            ) from error
    return _loaded


def parse(data: Mapping[str, Any]) -> Conventions:
    """Return the table for parsed data."""
    return Conventions(
        dated=data["dated"],
        schema_url=data["schema_url"],
        registry=data["registry"],
        stability=data["stability"],
        profiles=tuple(data["profiles"]),
        providers=tuple(data["providers"]),
        output_types=tuple(data["output_types"]),
        finish_reasons=tuple(data["finish_reasons"]),
        attributes={
            name: Attribute(
                name=name,
                type=entry["type"],
                since=entry["since"],
                origin=entry.get("origin", "gen_ai"),
                content=entry.get("content", False),
                replaced_by=entry.get("replaced_by"),
            )
            for name, entry in data["attributes"].items()
        },
        operations={
            name: SpanRules(
                name=name,
                span_name=entry["name"],
                kinds=tuple(entry["kinds"]),
                required=tuple(entry["required"]),
                conditional=tuple(entry["conditional"]),
                recommended=tuple(entry["recommended"]),
                opt_in=tuple(entry["opt_in"]),
            )
            for name, entry in data["operations"].items()
        },
        events={
            name: Event(
                name=name,
                origin=entry["origin"],
                signals=tuple(entry["signals"]),
                required=tuple(entry["required"]),
                optional=tuple(entry["optional"]),
            )
            for name, entry in data["events"].items()
        },
        metrics={
            name: Metric(
                name=name,
                instrument=entry["instrument"],
                unit=entry["unit"],
                since=entry["since"],
                profiles=tuple(entry["profiles"]),
                attributes=tuple(entry["attributes"]),
                buckets=tuple(entry.get("buckets", ())),
            )
            for name, entry in data["metrics"].items()
        },
    )

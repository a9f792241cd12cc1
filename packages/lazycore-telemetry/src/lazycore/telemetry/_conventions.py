"""The dated table of names: read from data, checked, and asked about spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lazycore.telemetry._errors import TelemetryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lazycore.telemetry._conformance import FinishedSpan

__all__ = ["Attribute", "Conventions", "Event", "Metric", "SpanRules", "conventions"]


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
        from lazycore.telemetry._conformance import violations

        return list(violations(self, span, profile))

    def problems(self) -> list[str]:
        """Return what is inconsistent in the table itself; empty if nothing is.

        Example:
            >>> conventions().problems()
            []
        """
        from lazycore.telemetry._conformance import problems

        return list(problems(self))


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
            for name, entry in _whole(data["operations"])
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
            for name, entry in _whole(data["metrics"])
        },
    )


def _whole(entries: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield entries with what they leave to another one."""
    for name, given in entries.items():
        entry = given
        while "same_as" in entry:
            other = entries[entry["same_as"]]
            own = {key: v for key, v in entry.items() if key != "same_as"}
            entry = {**other, **own}
        yield name, entry

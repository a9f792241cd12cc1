"""Give a developer's own values a form that attributes can hold."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from lazycore.telemetry._fit import fit
from lazycore.telemetry._text import as_text, metadata, type_name
from lazycore.telemetry._values import as_float, as_int, normalise, number_of

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

__all__ = ["as_attribute", "own_attributes"]

MAX_ITEMS: Final = 1024
MAX_BYTES: Final = 16_000
_SCALARS: Final = (str, bool, int, float)


def as_attribute(value: object) -> AttributeValue | None:
    """Return what an attribute can hold for any value.

    Scalars stay; lists of one scalar type stay; anything else becomes JSON text of
    bounded size. None stands for what can't be said (NaN, an empty value).
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum) and isinstance(value.value, _SCALARS):
        return as_attribute(value.value)
    if isinstance(value, str):
        return metadata(value)
    if isinstance(value, int):
        number = as_int(value)
        return as_text(value) if number is None else number
    if isinstance(value, float):
        return as_float(value)
    if isinstance(value, (list, tuple)):
        found = _as_array(value)
        if found is not None:
            return found
    integer = as_int(value)
    if integer is not None and type_name(type(value)).startswith("numpy.int"):
        return integer
    real = number_of(value)
    if real is not None:
        return as_float(real)
    return fit(normalise(value, max_chars=MAX_ITEMS), MAX_BYTES)


def _as_array(value: list[object] | tuple[object, ...]) -> AttributeValue | None:
    """Return an array of one scalar type, None for anything else."""
    if len(value) > MAX_ITEMS or not all(isinstance(v, _SCALARS) for v in value):
        return None
    items = [as_attribute(item) for item in value]
    kinds = {type(item) for item in items}
    if kinds <= {str}:
        strings = [item for item in items if isinstance(item, str)]
        return tuple(strings) if sum(map(len, strings)) <= MAX_BYTES else None
    if kinds <= {bool}:
        return tuple(item for item in items if isinstance(item, bool))
    if kinds <= {int}:
        return tuple(item for item in items if isinstance(item, int))
    if kinds <= {int, float}:
        return tuple(float(item) for item in items if isinstance(item, (int, float)))
    return None


def own_attributes(given: object) -> dict[str, AttributeValue]:
    """Return attributes of the developer's own, made safe."""
    found: dict[str, AttributeValue] = {}
    try:
        pairs = list(given.items())  # type: ignore[attr-defined] # may raise
    except Exception:  # noqa: BLE001 - foreign mappings may refuse
        return found
    for key, value in pairs:
        name = metadata(key)
        try:
            read = as_attribute(value)
        except Exception:  # noqa: BLE001 - foreign values may refuse
            read = f"<{type_name(type(value))}>"
        if name and read is not None:
            found[name] = read
    return found

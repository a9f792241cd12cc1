"""Turn foreign values into what attributes and JSON can hold, without ever raising."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import itertools
import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, TypeAlias

from lazycore.telemetry._text import as_text, clean, metadata, type_name

if TYPE_CHECKING:
    from collections.abc import Iterable


__all__ = [
    "JSON",
    "MANY",
    "as_bool",
    "as_float",
    "as_int",
    "as_strings",
    "dumps",
    "normalise",
]

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"

_INT64 = 1 << 63
# Below it, and above its negative, an int needs no second look.
MANY = 1 << 62
MAX_DEPTH = 24
MAX_NODES = 5_000
MAX_ITEMS = 2_000
MAX_KEY_CHARS = 256
MAX_STRINGS = 256


def as_int(value: object) -> int | None:
    """Return a 64-bit integer, or None for what is none."""
    if type(value) is int:
        return value if -_INT64 <= value < _INT64 else None
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, int):
            return as_int(int.__int__(value))
        number = _scalar(value)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        return as_int(number) if type(number) is int else None
    except Exception:  # noqa: BLE001 - foreign scalars may refuse
        return None


def as_float(value: object) -> float | None:
    """Return a finite double, or None for what is none."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    number = number_of(value)
    return number if number is not None and math.isfinite(number) else None


def number_of(value: object) -> float | None:
    """Return the double of a number, non-finite ones too; None for what is none."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, float):
            return float.__float__(value)
        if isinstance(value, int):
            return float(int.__int__(value))
        number = _scalar(value)
        if type(number) is int or type(number) is float:
            return float(number)
    except Exception:  # noqa: BLE001 - foreign scalars may refuse
        return None
    return None


def _scalar(value: object) -> object:
    """Return the Python number of a NumPy or torch scalar, Decimal or Fraction."""
    if isinstance(value, (str, bytes, bytearray, complex, bool)) or value is None:
        return None
    size = getattr(value, "size", None)
    if callable(size):  # a torch tensor
        numel = getattr(value, "numel", None)
        size = numel() if callable(numel) else 1
    if isinstance(size, int) and size != 1:
        return None
    item = getattr(value, "item", None)
    if callable(item):
        found: object = item()
        return None if isinstance(found, bool) else found
    number = getattr(value, "__float__", None)
    return float(number()) if callable(number) else None


def as_bool(value: object) -> bool | None:
    """Return a boolean, or None for what is none."""
    if isinstance(value, bool):
        return value
    if type_name(type(value)) in {"numpy.bool", "numpy.bool_"}:
        return str(value) == "True"
    return None


def as_strings(value: object) -> tuple[str, ...] | None:
    """Return a tuple of clean texts; one string counts as a list of one."""
    if type(value) is tuple or type(value) is list:
        if len(value) == 1:  # by far the most common
            return (metadata(value[0]),)
        return tuple([metadata(item) for item in value[:MAX_STRINGS]])
    if isinstance(value, str):
        return (metadata(value),)
    if isinstance(value, (bytes, bytearray, Mapping)) or value is None:
        return None
    try:
        items = itertools.islice(iter(value), MAX_STRINGS)  # type: ignore[call-overload] # may raise
        return tuple([metadata(item) for item in items])
    except Exception:  # noqa: BLE001 - foreign iterables may refuse
        return None


class _Walk:
    """One walk over a foreign structure with a budget that bounds its cost."""

    __slots__ = ("cut", "max_chars", "nodes", "seen")

    def __init__(self, max_chars: int | None) -> None:
        self.max_chars = max_chars
        self.nodes = MAX_NODES
        self.seen: set[int] = set()
        self.cut = 0

    def text(self, value: str) -> str:
        limit = self.max_chars
        size = len(value)
        if limit is not None and size > limit:
            self.cut = max(self.cut, size)
            return f"{clean(value[:limit])}…[{size} chars]"
        return clean(value)

    def visit(self, value: object, depth: int) -> JSON:
        self.nodes -= 1
        if self.nodes < 0:
            return "<omitted: too many values>"
        try:
            return self._visit(value, depth)
        except Exception:  # noqa: BLE001 - any object may refuse anything
            return f"<{type_name(type(value))}>"

    def _visit(self, value: object, depth: int) -> JSON:  # noqa: C901 - one branch per kind
        if value is None or value is True or value is False:
            return value
        if isinstance(value, enum.Enum):
            return self.visit(value.value, depth + 1)
        if isinstance(value, str):
            return self.text(str.__str__(value))
        if isinstance(value, int):
            number = as_int(value)
            return as_text(value) if number is None else number
        if isinstance(value, float):
            real = float.__float__(value)
            if math.isfinite(real):
                return real
            return "NaN" if math.isnan(real) else f"{real}".replace("inf", "Infinity")
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._binary(bytes(value))
        if isinstance(value, (dt.date, dt.time)):
            return clean(value.isoformat())
        if depth >= MAX_DEPTH:
            return f"<{type_name(type(value))}: too deep>"
        if id(value) in self.seen:
            return f"<{type_name(type(value))}: cycle>"
        self.seen.add(id(value))
        try:
            return self._container(value, depth)
        finally:
            self.seen.discard(id(value))

    def _binary(self, value: bytes) -> str:
        limit = self.max_chars
        if limit is not None and len(value) * 4 // 3 > limit:
            self.cut = max(self.cut, len(value))
            value = value[: limit // 4 * 3]
        return base64.b64encode(value).decode("ascii")

    def _container(self, value: object, depth: int) -> JSON:
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, (list, tuple)):
            return self._items(value, len(value), depth)
        if isinstance(value, AbstractSet):
            items = self._items(value, len(value), depth)
            return sorted(items, key=dumps)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return self.visit(fields, depth)
        return self._foreign(value, depth)

    def _mapping(self, value: Mapping[object, object], depth: int) -> dict[str, JSON]:
        found: dict[str, JSON] = {}
        for count, (key, item) in enumerate(value.items()):
            if count >= MAX_ITEMS:
                found["<omitted>"] = len(value) - count
                break
            name = clean(as_text(key)[:MAX_KEY_CHARS])
            found[name] = self.visit(item, depth + 1)
        return found

    def _items(self, value: Iterable[object], size: int, depth: int) -> list[JSON]:
        found: list[JSON] = []
        for count, item in enumerate(value):
            if count >= MAX_ITEMS:
                found.append(f"<omitted: {size - count} items>")
                break
            found.append(self.visit(item, depth + 1))
        return found

    def _foreign(self, value: object, depth: int) -> JSON:
        number = _foreign_number(value)
        if number is not None:
            return self.visit(number, depth + 1)
        shape = getattr(value, "shape", None)
        if shape is not None and callable(getattr(value, "tolist", None)):
            size = math.prod(int(side) for side in shape)
            if size > MAX_ITEMS:
                return f"<{type_name(type(value))} of shape {tuple(shape)}>"
            return self.visit(value.tolist(), depth + 1)  # type: ignore[attr-defined] # guarded above
        dump = getattr(type(value), "model_dump", None)
        if callable(dump):
            return self.visit(dump(value), depth + 1)
        return self.text(as_text(value))


def _foreign_number(value: object) -> int | float | bool | None:
    if getattr(value, "shape", None) is None:
        return None
    truth = as_bool(value)
    if truth is not None:
        return truth
    found = _scalar(value)
    return found if isinstance(found, (int, float)) else None


def normalise(value: object, *, max_chars: int | None) -> JSON:
    """Return a JSON value for anything: bounded, acyclic, clean; never raises."""
    return _Walk(max_chars).visit(value, 0)


def normalise_part(
    value: Mapping[str, object], *, max_chars: int | None
) -> dict[str, JSON]:
    """Return a JSON object for a message part; says so where text was cut."""
    walk = _Walk(max_chars)
    found = walk.visit(value, 0)
    if not isinstance(found, dict):
        found = {"type": "unreadable", "content": found}
    if walk.cut:
        found["truncated"] = walk.cut
    return found


def dumps(value: JSON) -> str:
    """Return compact JSON text of an already normalised value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

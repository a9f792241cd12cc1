"""Read-only copies of JSON data, and plain ones of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lazycore.experiments._canonical import canonical, reduced

__all__ = ["freeze", "thaw"]


def freeze(value: object) -> Any:  # JSON in, the same JSON in read-only types out
    """Return a detached, recursively read-only copy of JSON-able data.

    Mappings become read-only mappings, lists become tuples; enums give their
    value, dataclasses their fields, paths their POSIX text. Freezing a frozen
    value gives an equal one.

    Raises:
        TypeError: A key is not a string, or a value is no JSON (sets, bytes, ...).
        CanonicalError: A number has no JSON form.

    Examples:
        >>> freeze({"a": [1, 2]})
        mappingproxy({'a': (1, 2)})
    """
    if value is None or (
        isinstance(value, bool | str) and not isinstance(value, enum.Enum)
    ):
        return value
    if isinstance(value, int | float) and not isinstance(value, enum.Enum):
        canonical(value)  # refuses what has no JSON form
        return value
    plain = reduced(value)
    if isinstance(plain, Mapping):
        for key in plain:
            if not isinstance(key, str):
                raise TypeError(f"a key is a {type(key).__name__}, want str")
        return MappingProxyType({key: freeze(item) for key, item in plain.items()})
    if isinstance(plain, list | tuple):
        return tuple(freeze(item) for item in plain)
    if plain is value:
        raise TypeError(f"a {type(value).__name__} is no JSON value")
    return freeze(plain)


def thaw(value: object) -> Any:  # the same JSON in plain types
    """Return plain dicts and lists with the content of a frozen value.

    Examples:
        >>> thaw(freeze({"a": [1]}))
        {'a': [1]}
    """
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value

"""A document's table whose keys are taken one by one: the rest is an error."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from lazycore.experiments._errors import CanonicalError, StudyError
from lazycore.experiments._frozen import freeze

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["StrictTable"]

_T = TypeVar("_T")
_REQUIRED: Any = object()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WORDS = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "an array",
    dict: "a table",
}


class StrictTable:
    """A table whose keys are taken one by one; what is left over is an error."""

    def __init__(self, value: object, path: Path | None, key: str) -> None:
        self._path = path
        self._key = key
        if not isinstance(value, Mapping):
            raise StudyError(path, key, f"want a table, found {_found(value)}")
        self._left = dict(value)
        self._taken: list[str] = []

    def error(self, key: str, problem: str) -> StudyError:
        where = f"{self._key}.{key}" if self._key and key else self._key or key
        return StudyError(self._path, where, problem)

    def take(self, key: str, kind: type[_T], default: Any = _REQUIRED) -> _T:
        self._taken.append(key)
        if key not in self._left:
            if default is _REQUIRED:
                close = difflib.get_close_matches(key, self._left, 1)
                hint = f"; is {close[0]!r} meant for it?" if close else ""
                raise self.error(key, f"missing; add {_WORDS[kind]}{hint}")
            return default  # type: ignore[no-any-return]  # the caller's default
        value = self._left.pop(key)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise self.error(key, f"want {_WORDS[kind]}, found {_found(value)}")
        return value

    def one_of(
        self,
        key: str,
        kind: type[_T],
        allowed: tuple[_T, ...],
        default: Any = _REQUIRED,
    ) -> _T:
        value = self.take(key, kind, default)
        if value not in allowed:
            names = ", ".join(map(repr, allowed))
            raise self.error(key, f"found {value!r}; want one of {names}")
        return value

    def number(
        self,
        key: str,
        kind: type[_T],
        default: Any,
        *,
        above: float,
        below: float = 2**53,
    ) -> _T:
        value: Any = self.take(key, kind, default)
        if value is not None and not above < value < below:
            raise self.error(
                key, f"found {value}; want more than {above}, below {below}"
            )
        return value  # type: ignore[no-any-return]  # `take` has compared its type

    def name(self, key: str) -> str:
        value = self.take(key, str)
        self.check_name(key, value)
        return value

    def check_name(self, key: str, value: str) -> None:
        if not _NAME.fullmatch(value):
            raise self.error(
                key, f"{value[:80]!r}: want 1 to 64 of letters, digits, '.', '_', '-'"
            )

    def array(self, key: str, kind: type[_T], default: Any = _REQUIRED) -> list[_T]:
        items = list(self.take(key, list, default))
        for index, item in enumerate(items):
            if type(item) is not kind:
                raise self.error(
                    f"{key}[{index}]", f"want {_WORDS[kind]}, found {_found(item)}"
                )
        return items

    def table(self, key: str, default: Any = _REQUIRED) -> StrictTable:
        value = self.take(key, dict, default)
        return StrictTable(
            value, self._path, f"{self._key}.{key}" if self._key else key
        )

    def tables(self, key: str, default: Any = _REQUIRED) -> list[StrictTable]:
        items = self.take(key, list, default)
        return [
            StrictTable(item, self._path, f"{key}[{index}]")
            for index, item in enumerate(items)
        ]

    def named_tables(self, key: str, order_key: str) -> list[tuple[str, StrictTable]]:
        """Return the named tables of a table in the file's order.

        A lock holds the same document as canonical JSON, whose objects have no
        order, so it carries the order beside them.
        """
        value = self.take(key, dict)
        order = self.array(order_key, str, list(value))
        if sorted(order) != sorted(value):
            raise self.error(order_key, f"does not list the names of [{key}]")
        for name in order:
            self.check_name(f"{key}.{name}", name)
        return [
            (name, StrictTable(value[name], self._path, f"{key}.{name}"))
            for name in order
        ]

    def relative(self, key: str, default: Any = _REQUIRED) -> str:
        value = self.take(key, str, default)
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or "\\" in value or "\0" in value:
            raise self.error(key, f"{value!r}: want a relative path with '/', no '..'")
        return path.as_posix() if value else ""

    def parameters(self, key: str) -> Mapping[str, Any]:
        value = self.take(key, dict, {})
        try:
            frozen: Mapping[str, Any] = freeze(value)
        except (TypeError, CanonicalError) as error:
            raise self.error(
                key, f"no JSON: {error}; write dates as strings"
            ) from error
        return frozen

    def done(self) -> None:
        for key in self._left:
            close = difflib.get_close_matches(str(key), self._taken, 1)
            hint = f"did you mean {close[0]!r}?" if close else "remove it"
            known = ", ".join(sorted(set(self._taken)))
            raise self.error(str(key)[:80], f"unknown key; {hint} (known: {known})")


def _found(value: object) -> str:
    return _WORDS.get(type(value), f"a {type(value).__name__}")

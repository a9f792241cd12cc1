"""Read JSON as strictly as it is written (RFC 8785, RFC 7493).

What those documents leave to chance is refused: duplicate keys, NaN, huge numbers,
deep nesting, other encodings than UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from lazycore.experiments._canonical import MAX_DEPTH, MAX_INTEGER, number_text
from lazycore.experiments._errors import CanonicalError

__all__ = ["parse"]

# A string that no quote ends reaches to the end: it is read once, not from each of its
# quotes anew.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_OTHERS = re.compile(r"[^\[\]{}]+")


def parse(data: bytes, *, limit_bytes: int = 64 * 2**20) -> Any:  # JSON: any value
    """Decode strict JSON.

    Args:
        data: UTF-8 text of one JSON value.
        limit_bytes: Longer input is refused unread.

    Returns:
        None, bool, int, float, str, list and dict. ``-0.0`` becomes ``0``.

    Raises:
        CanonicalError: Not UTF-8, not JSON, a duplicate key, NaN or an infinity,
            an integer beyond 2**53 - 1 (unless it is the canonical text of a
            double, which is returned), nesting beyond 64, or too long.

    Examples:
        >>> parse(b'{"a": 1, "a": 2}')
        Traceback (most recent call last):
        ...
        lazycore.experiments._errors.CanonicalError: duplicate key 'a'
    """
    if len(data) > limit_bytes:
        raise CanonicalError(
            f"{len(data)} bytes of JSON, more than the {limit_bytes} allowed"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CanonicalError(f"not UTF-8: {error.reason} at {error.start}") from error
    if text.startswith("\ufeff"):
        raise CanonicalError("starts with a byte order mark")
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(text)
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_int=_integer,
            parse_float=_real,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        raise CanonicalError(f"not JSON: {error.msg} at {error.pos}") from error


def _check_depth(text: str) -> None:
    brackets = _OTHERS.sub("", _STRING.sub("", text))
    brackets = brackets.replace("{", "[").replace("}", "]")
    depth = 0
    while "[]" in brackets and depth <= MAX_DEPTH:
        brackets = brackets.replace("[]", "")
        depth += 1
    if depth + brackets.count("[") > MAX_DEPTH:
        raise CanonicalError(f"nested deeper than {MAX_DEPTH}")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise CanonicalError(f"duplicate key {key[:80]!r}")
            seen.add(key)
    return result


def _integer(text: str) -> float:
    # 17 characters hold every permitted integer with its sign.
    if len(text) <= 17 and -MAX_INTEGER <= (number := int(text)) <= MAX_INTEGER:
        return number
    # Canonical text of a double below 1e21 has no exponent: 22 characters at most.
    if len(text) <= 22 and number_text(real := float(text), "$") == text:
        return real
    raise CanonicalError(f"integer {text[:24]} is beyond 2**53 - 1")


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise CanonicalError(f"number {text[:24]} is beyond a double")
    return number + 0.0  # -0.0 + 0.0 is 0.0


def _constant(text: str) -> NoReturn:
    raise CanonicalError(f"{text} is not a JSON number")

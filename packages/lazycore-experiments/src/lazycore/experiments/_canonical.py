"""Strict canonical JSON (RFC 8785), its SHA-256, and frozen copies.

Two readers that disagree about one byte of a document disagree about what ran.
The rules are those of RFC 8785 (JSON Canonicalization Scheme) on I-JSON values
(RFC 7493): keys ordered by UTF-16 code units, no spaces, the shortest number text
of ECMAScript, integers only where a double holds them exactly, no lone surrogate.
`parse` refuses what those documents leave to chance: duplicate keys, NaN, huge
numbers, deep nesting, other encodings than UTF-8.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
import re
from collections.abc import Mapping
from json.encoder import encode_basestring
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from lazycore.experiments._errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "MAX_DEPTH",
    "MAX_INTEGER",
    "canonical",
    "digest",
    "freeze",
    "parse",
    "require_sha256",
    "sha256_hex",
    "thaw",
]

MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1  # RFC 7493 section 2.2: beyond it doubles skip integers
_SHA256 = re.compile(r"[0-9a-f]{64}")
_QUOTE: Callable[[str], str] = encode_basestring


def canonical(value: object) -> bytes:
    r"""Encode a value as canonical JSON.

    Args:
        value: None, bool, int, float, str, and lists, tuples and string-keyed
            mappings of them. Enums, dataclasses and paths are reduced as by
            `freeze`.

    Returns:
        UTF-8 bytes without a final newline.

    Raises:
        CanonicalError: A value has no canonical form; the message gives its path.

    Examples:
        >>> canonical({"b": 1.0, "a": [None, True, "\u20ac"]})
        b'{"a":[null,true,"\xe2\x82\xac"],"b":1}'
    """
    pieces: list[str] = []
    _encode(value, pieces.append, "$", 0)
    try:
        return "".join(pieces).encode()
    except UnicodeEncodeError as error:
        raise CanonicalError("a string holds a lone surrogate") from error


def digest(value: object) -> str:
    """Return the SHA-256 of a value's canonical JSON.

    Examples:
        >>> digest({})[:12]
        '44136fa355b3'
    """
    return hashlib.sha256(canonical(value)).hexdigest()


def sha256_hex(data: bytes) -> str:
    """Return the lowercase hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def require_sha256(text: object, label: str) -> str:
    """Return the text when it is 64 lowercase hex digits.

    Raises:
        CanonicalError: It is anything else.

    Examples:
        >>> require_sha256("0" * 64, "config digest") == "0" * 64
        True
    """
    if isinstance(text, str) and _SHA256.fullmatch(text):
        return text
    raise CanonicalError(f"{label}: want 64 lowercase hex digits of a SHA-256")


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
        _encode(value, _ignore, "$", 0)
        return value
    reduced = _reduce(value)
    if isinstance(reduced, Mapping):
        for key in reduced:
            if not isinstance(key, str):
                raise TypeError(f"a key is a {type(key).__name__}, want str")
        return MappingProxyType({key: freeze(item) for key, item in reduced.items()})
    if isinstance(reduced, list | tuple):
        return tuple(freeze(item) for item in reduced)
    if reduced is value:
        raise TypeError(f"a {type(value).__name__} is no JSON value")
    return freeze(reduced)


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


def _ignore(_piece: str) -> None:
    """Drop a piece: only the checks of the encoder are wanted."""


def _reduce(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, PurePath):
        return value.as_posix()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
        }
    return value


def _encode(  # noqa: C901, PLR0912 - one dispatch on the type, on the hot path
    value: Any, put: Callable[[str], None], path: str, depth: int
) -> None:
    kind = type(value)
    if kind is str:
        put(_QUOTE(value))
    elif value is None:
        put("null")
    elif value is True:
        put("true")
    elif value is False:
        put("false")
    elif kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise CanonicalError(f"{path}: an integer beyond 2**53 - 1")
        put(str(value))
    elif kind is float:
        put(_number(value, path))
    elif isinstance(value, Mapping):
        _encode_object(value, put, path, depth)
    elif kind is list or kind is tuple:
        if depth >= MAX_DEPTH:
            raise CanonicalError(f"{path}: nested deeper than {MAX_DEPTH}")
        put("[")
        for index, item in enumerate(value):
            if index:
                put(",")
            _encode(item, put, f"{path}[{index}]", depth + 1)
        put("]")
    else:
        _encode_other(value, put, path, depth)


def _encode_object(
    value: Mapping[Any, object], put: Callable[[str], None], path: str, depth: int
) -> None:
    if depth >= MAX_DEPTH:
        raise CanonicalError(f"{path}: nested deeper than {MAX_DEPTH}")
    for key in value:
        if type(key) is not str:
            raise CanonicalError(f"{path}: a key is a {type(key).__name__}, want str")
    try:
        # Code points order like UTF-16 code units unless a key leaves the BMP.
        ordered = (
            sorted(value)
            if all(map(str.isascii, value))
            else sorted(value, key=lambda key: key.encode("utf-16-be"))
        )
    except UnicodeEncodeError as error:
        raise CanonicalError(f"{path}: a key holds a lone surrogate") from error
    first = True
    put("{")
    for key in ordered:
        put((_QUOTE(key) if first else "," + _QUOTE(key)) + ":")
        first = False
        _encode(value[key], put, f"{path}.{key}", depth + 1)
    put("}")


def _encode_other(
    value: object, put: Callable[[str], None], path: str, depth: int
) -> None:
    reduced = _reduce(value)
    if reduced is not value:
        _encode(reduced, put, path, depth)
    elif isinstance(value, str):
        _encode(str(value), put, path, depth)
    elif isinstance(value, int):
        _encode(int(value), put, path, depth)
    elif isinstance(value, float):
        _encode(float(value), put, path, depth)
    elif isinstance(value, list | tuple):
        _encode(list(value), put, path, depth)
    else:
        raise CanonicalError(f"{path}: a {type(value).__name__} is no JSON value")


def _number(value: float, path: str) -> str:
    """Write a double as ECMAScript's Number::toString does (ECMA-262 6.1.6.1.20)."""
    if not math.isfinite(value):
        raise CanonicalError(f"{path}: {value} is not a JSON number")
    if value == 0:
        return "0"
    text = repr(value)  # the shortest digits that round-trip, as ECMAScript asks
    sign, text = ("-", text[1:]) if text[0] == "-" else ("", text)
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0)
    if whole == "0":
        point -= len(fraction) - len(fraction.lstrip("0")) + 1
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        body = digits + "0" * (point - count)
    elif 0 < point <= 21:
        body = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        body = "0." + "0" * -point + digits
    else:
        power = f"e{point - 1:+d}"
        body = (digits[0] + (f".{digits[1:]}" if count > 1 else "")) + power
    return sign + body


def _check_depth(text: str) -> None:
    depth = 0
    # Strings are skipped whole; an unterminated one is left to the JSON reader.
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text, re.DOTALL):
        piece = match.group()
        if piece in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise CanonicalError(f"nested deeper than {MAX_DEPTH}")
        elif piece in "]}":
            depth -= 1


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
    if len(text) <= 22 and _number(real := float(text), "$") == text:
        return real
    raise CanonicalError(f"integer {text[:24]} is beyond 2**53 - 1")


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise CanonicalError(f"number {text[:24]} is beyond a double")
    return number + 0.0  # -0.0 + 0.0 is 0.0


def _constant(text: str) -> NoReturn:
    raise CanonicalError(f"{text} is not a JSON number")

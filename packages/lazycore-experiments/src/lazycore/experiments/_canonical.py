"""Canonical JSON (RFC 8785) and its SHA-256.

Two readers that disagree about one byte of a document disagree about what ran.
The rules are those of RFC 8785 (JSON Canonicalization Scheme) on I-JSON values
(RFC 7493): keys ordered by UTF-16 code units, no spaces, the shortest number text
of ECMAScript, integers only where a double holds them exactly, no lone surrogate.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import math
import re
from collections.abc import Mapping
from json.encoder import encode_basestring
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lazycore.experiments._errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "MAX_DEPTH",
    "MAX_INTEGER",
    "canonical",
    "digest",
    "number_text",
    "reduced",
    "require_sha256",
    "sha256_hex",
]

MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1  # RFC 7493 section 2.2: beyond it doubles skip integers
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STRINGS = {str}
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
    try:
        return _text(value, 0).encode()
    except (_NotPlainError, UnicodeEncodeError):
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


def reduced(value: object) -> object:
    """Return what an enum, a path or a dataclass stands for, else the value."""
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


class _NotPlainError(Exception):
    """A value that only the encoder that knows paths can reduce, or refuse."""


def _text(value: Any, depth: int) -> str:
    """Encode what consists of the exact JSON types, or of what `freeze` makes of them.

    Raises:
        _NotPlainError: It holds anything else.
    """
    kind = type(value)
    if kind is str:
        return _QUOTE(value)
    if kind is dict or kind is MappingProxyType:
        plain = {*map(type, value)} <= _STRINGS and "".join(value).isascii()
        if depth >= MAX_DEPTH or not plain:
            raise _NotPlainError
        deeper = depth + 1
        parts = [f"{_QUOTE(key)}:{_text(value[key], deeper)}" for key in sorted(value)]
        return f"{{{','.join(parts)}}}"
    if value is None:
        return "null"
    if kind is float and math.isfinite(value):
        return number_text(value, "$")
    if kind is int and -MAX_INTEGER <= value <= MAX_INTEGER:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if (kind is list or kind is tuple) and depth < MAX_DEPTH:
        deeper = depth + 1
        return f"[{','.join([_text(item, deeper) for item in value])}]"
    raise _NotPlainError


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
        put(number_text(value, path))
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
    plain = reduced(value)
    if plain is not value:
        _encode(plain, put, path, depth)
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


def number_text(value: float, path: str) -> str:
    """Write a double as ECMAScript's Number::toString does (ECMA-262 6.1.6.1.20)."""
    if not math.isfinite(value):
        raise CanonicalError(f"{path}: {value} is not a JSON number")
    if value == 0:
        return "0"
    text = repr(value)  # the shortest digits that round-trip, as ECMAScript asks
    if "e" not in text:  # from 1e-4 to 1e16 both write all digits
        return text.removesuffix(".0")
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

"""Canonical JSON follows RFC 8785, and its reader leaves nothing to chance."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import PurePosixPath

import pytest

from lazycore.experiments import CanonicalError, canonical, digest, freeze
from lazycore.experiments._canonical import require_sha256
from lazycore.experiments._frozen import thaw
from lazycore.experiments._strict_json import parse


# RFC 8785 appendix B, and the values where Python's own text differs.
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0xFFEFFFFFFFFFFFFF, "-1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xC340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x44B52D02C7E14AF6, "1e+23"),
        (0x44B52D02C7E14AF7, "1.0000000000000001e+23"),
        (0x444B1AE4D6E2EF4E, "999999999999999700000"),
        (0x444B1AE4D6E2EF4F, "999999999999999900000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x41B3DE4355555553, "333333333.3333332"),
        (0x41B3DE4355555557, "333333333.33333343"),
        (0xBECBF647612F3696, "-0.0000033333333333333333"),
        (0x43143FF3C1CB0959, "1424953923781206.2"),
    ],
)
def test_numbers_are_written_as_the_rfc_lists_them(bits: int, text: str) -> None:
    import struct

    (value,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    assert canonical(value).decode() == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (1e-07, "1e-7"),
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ({"\U0001f600": 1, "\ufb33": 2}, '{"\U0001f600":1,"\ufb33":2}'),
        ("\x07\n\x7f\u20ac/", '"\\u0007\\n\x7f\u20ac/"'),
        ((1, [None, True]), "[1,[null,true]]"),
        (PurePosixPath("a/b"), '"a/b"'),
    ],
)
def test_a_value_has_one_text(value: object, text: str) -> None:
    assert canonical(value).decode() == text


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**53,
        -(2**53),
        {1: 2},
        {"a": {2}},
        b"bytes",
        "\ud800",
        {"\ud800": 1},
        object(),
    ],
    ids=repr,
)
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(CanonicalError):
        canonical(value)


def test_an_error_names_the_path_of_the_value() -> None:
    with pytest.raises(CanonicalError, match=r"\$\.a\[1\]\.b: nan is not"):
        canonical({"a": [0, {"b": float("nan")}]})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"a":1,"a":2}', "duplicate key 'a'"),
        (b'[{"a":{"b":1,"b":1}}]', "duplicate key 'b'"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "Infinity"),
        (b"1e999", "beyond a double"),
        (b"9007199254740993", "beyond"),
        (b"1180591620717411303424", "beyond"),
        (b"-1152921504606846976", "beyond"),
        (b"1" * 5000, "beyond"),
        (b"[" * 65 + b"]" * 65, "nested deeper"),
        (b"[" * 100_000, "nested deeper"),
        (b"{[" * 33 + b"]}" * 33, "nested deeper"),
        # Read from each quote anew it would take days.
        (b"[" * 65 + b'"' + b'\\"' * 1_000_000, "nested deeper"),
        (b"[]" * 65 + b'"' + b'\\"' * 1_000_000 + b"\\", "not JSON"),
        (b"\xff", "UTF-8"),
        (b"\xef\xbb\xbf1", "byte order mark"),
        (b"", "not JSON"),
        (b"1 2", "not JSON"),
        (b"{'a': 1}", "not JSON"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_json_leaves_to_chance_is_refused(text: bytes, problem: str) -> None:
    with pytest.raises(CanonicalError, match=problem):
        parse(text)


def test_long_input_is_refused_before_it_is_read() -> None:
    with pytest.raises(CanonicalError, match="11 bytes of JSON, more than the 10"):
        parse(b'"123456789"', limit_bytes=10)


def test_a_large_double_survives_its_own_canonical_text() -> None:
    for value in (2.0**53, 1e17, -1e20, 123456789012345680000.0):
        assert parse(canonical(value)) == value
        assert isinstance(parse(canonical(value)), float)


def test_brackets_inside_strings_are_not_depth() -> None:
    assert parse(b'["' + b"[" * 500 + b'"]') == ["[" * 500]


def test_minus_zero_is_zero() -> None:
    assert canonical(parse(b"[-0.0, -0]")) == b"[0,0]"


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    at: PurePosixPath


def test_freeze_detaches_and_reduces() -> None:
    inner = [1, 2]
    frozen = freeze({"a": inner, "c": Colour.RED, "p": Point(3, PurePosixPath("q"))})
    inner.append(3)
    assert frozen["a"] == (1, 2)
    assert frozen["c"] == "red"
    assert thaw(frozen["p"]) == {"x": 3, "at": "q"}
    with pytest.raises(TypeError):
        frozen["a"] = 1
    assert freeze(frozen) == frozen


@pytest.mark.parametrize("value", [{1}, b"x", {1: 2}, object()], ids=repr)
def test_freeze_refuses_what_is_no_json(value: object) -> None:
    with pytest.raises(TypeError):
        freeze({"a": value} if not isinstance(value, dict) else value)


def test_digest_does_not_depend_on_key_order() -> None:
    assert digest({"a": 1, "b": 2.0}) == digest({"b": 2, "a": 1})


@pytest.mark.parametrize("text", ["", "0" * 63, "A" * 64, "0" * 65, 7, None], ids=repr)
def test_a_sha256_is_64_lowercase_hex_digits(text: object) -> None:
    with pytest.raises(CanonicalError, match="config digest"):
        require_sha256(text, "config digest")

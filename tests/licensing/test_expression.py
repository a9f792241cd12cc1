"""Reading SPDX expressions."""

from __future__ import annotations

import pytest

from lazycore.licensing import ExpressionError, License, normalize, parse

CANONICAL = [
    ("MIT", "MIT"),
    ("mit", "MIT"),
    ("  MIT  ", "MIT"),
    ("(MIT)", "MIT"),
    ("((MIT))", "MIT"),
    ("MIT OR Apache-2.0", "MIT OR Apache-2.0"),
    ("MIT or apache-2.0", "MIT OR Apache-2.0"),
    ("MIT AND Apache-2.0 OR BSD-3-Clause", "(MIT AND Apache-2.0) OR BSD-3-Clause"),
    ("MIT AND (Apache-2.0 OR BSD-3-Clause)", "MIT AND (Apache-2.0 OR BSD-3-Clause)"),
    ("MIT OR (Apache-2.0 OR ISC)", "MIT OR Apache-2.0 OR ISC"),
    ("MIT AND (Apache-2.0 AND ISC)", "MIT AND Apache-2.0 AND ISC"),
    ("(MIT AND ISC) AND (0BSD AND Zlib)", "MIT AND ISC AND 0BSD AND Zlib"),
    ("GPL-2.0", "GPL-2.0-only"),
    ("GPL-2.0+", "GPL-2.0-or-later"),
    ("gpl-3.0-or-later", "GPL-3.0-or-later"),
    ("LGPL-2.1+", "LGPL-2.1-or-later"),
    ("AGPL-3.0", "AGPL-3.0-only"),
    ("GFDL-1.3", "GFDL-1.3-only"),
    ("Apache-2.0+", "Apache-2.0+"),
    (
        "GPL-2.0-with-classpath-exception",
        "GPL-2.0-only WITH Classpath-exception-2.0",
    ),
    (
        "gpl-2.0+ with classpath-exception-2.0",
        "GPL-2.0-or-later WITH Classpath-exception-2.0",
    ),
    ("LicenseRef-Acme", "LicenseRef-Acme"),
    ("licenseref-Acme", "LicenseRef-Acme"),
    ("DocumentRef-a:LicenseRef-b", "DocumentRef-a:LicenseRef-b"),
    ("MIT WITH AdditionRef-x", "MIT WITH AdditionRef-x"),
    ("NOASSERTION", "NOASSERTION"),
    ("NONE", "NONE"),
]


@pytest.mark.parametrize(
    ("text", "canonical"), CANONICAL, ids=[text for text, _ in CANONICAL]
)
def test_equal_licences_have_equal_texts(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


MALFORMED = [
    ("", 0, "ends where a licence must stand"),
    ("   ", 0, "ends where a licence must stand"),
    ("MIT AND", 7, "ends where a licence must stand"),
    ("AND MIT", 0, "a licence must stand before 'AND'"),
    ("MIT MIT", 4, "AND, OR or WITH must stand before 'MIT'"),
    ("MIT And ISC", 4, "AND, OR or WITH must stand before 'And'"),
    ("(MIT", 0, "never closed"),
    ("MIT)", 3, "closes nothing"),
    ("()", 1, "a licence must stand before ')'"),
    ("MIT, ISC", 3, "',' can't stand in an expression"),
    ("MIT/ISC", 3, "'/' can't stand in an expression"),
    ("Apache", 0, "did you mean 'Apache-1.0', 'Apache-1.1' or 'Apache-2.0'?"),
    ("MIT AND Mitt", 8, "'Mitt' is not an SPDX id"),
    ("BSD License", 0, "'BSD' is not an SPDX id"),
    ("GPL-2.0-only WITH Nonsense", 18, "'Nonsense' is not an SPDX exception"),
    ("GPL-2.0-only WITH", 17, "an exception must follow WITH"),
    ("(MIT OR ISC) WITH LLVM-exception", 13, "not a group"),
    ("(MIT) WITH LLVM-exception", 6, "not a group"),
    ("MIT WITH LLVM-exception WITH LLVM-exception", 29, "has an exception already"),
    ("GPL-2.0-only+", 0, "takes no '+'"),
    ("LicenseRef-A+", 12, "takes no '+'"),
    ("NONE WITH LLVM-exception", 10, "takes no exception"),
    ("MIT\x00", 3, "can't stand"),
    ("MIT \u00e9", 4, "can't stand"),
]


@pytest.mark.parametrize(
    ("text", "position", "words"), MALFORMED, ids=[repr(row[0]) for row in MALFORMED]
)
def test_a_malformed_text_is_refused_with_its_place(
    text: str, position: int, words: str
) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.position == position
    assert words in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert normalize(text) is None


def test_an_endless_text_is_refused_unread() -> None:
    with pytest.raises(ExpressionError, match="more than the 4194304"):
        parse("MIT OR " * 1_000_000 + "MIT")


def test_an_error_shows_little_of_a_long_text() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("MIT OR " * 10_000 + "Nonsense")
    assert len(str(caught.value)) < 500


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        parse(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000 + "MIT" + ")" * 20_000,
        "(" * 20_000 + "MIT" + " AND ISC)" * 20_000,
        "MIT AND (" * 20_000 + "ISC" + ")" * 20_000,
        "MIT AND (ISC OR (" * 10_000 + "MIT" + "))" * 10_000,
        "(" * 20_000,
        ")" * 20_000,
        "MIT OR " * 20_000 + "MIT",
    ],
    ids=["parens", "left", "right", "alternating", "open", "close", "flat"],
)
def test_depth_and_length_exhaust_nothing(text: str) -> None:
    expression = normalize(text)
    if expression is not None:
        assert hash(expression) == hash(parse(str(expression)))


def test_licences_come_in_source_order() -> None:
    found = list(
        parse("MIT AND (ISC OR GPL-2.0-only WITH GCC-exception-2.0)").licenses()
    )
    assert found == [
        License(id="MIT"),
        License(id="ISC"),
        License(id="GPL-2.0-only", exception="GCC-exception-2.0"),
    ]

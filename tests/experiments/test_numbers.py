from __future__ import annotations

import pytest

from lazycore.experiments._numbers import (
    MINUS,
    amount,
    bytes_text,
    clipped,
    count_text,
    duration,
    joined,
    level_text,
    money,
    p_text,
    plural,
    span,
)


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (0.0519, "binary", "+5.2 pp"),
        (-0.0519, "binary", f"{MINUS}5.2 pp"),
        (-0.0001, "binary", "0.0 pp"),
        (0.0, "real", "0"),
        (12.345, "real", "+12.3"),
        (12345.6, "real", "+12346"),
        (-0.000123, "real", f"{MINUS}0.000123"),
        (1.5e-9, "real", f"+1.50e{MINUS}09"),
    ],
)
def test_differences_carry_their_sign_and_unit(
    value: float, kind: str, shown: str
) -> None:
    assert amount(value, kind=kind) == shown


def test_an_interval_names_its_unit_once() -> None:
    assert span((-0.01, 0.025), kind="binary") == f"{MINUS}1.0 to +2.5 pp"


def test_levels_have_no_plus() -> None:
    assert level_text(0.9472, kind="binary") == "94.7 %"
    assert level_text(3.14159, kind="real") == "3.14"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "p unknown"),
        (0.0004, "p < 0.001"),
        (0.0344, "p = 0.034"),
        (1, "p = 1.000"),
    ],
)
def test_p_values_are_never_zero(value: float | None, shown: str) -> None:
    assert p_text(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.00337, "3.37 ms"),
        (0.9, "900 ms"),
        (1.0, "1.0 s"),
        (89.94, "89.9 s"),
        (90.0, "1 min 30 s"),
        (5399.0, "89 min 59 s"),
        (5400.0, "1 h 30 min"),
    ],
)
def test_durations_use_the_unit_that_fits(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0.0 B"),
        (512, "512 B"),
        (1536, "1.5 KiB"),
        (2.0**34, "16 GiB"),
        (2.0**41, "2048 GiB"),
    ],
)
def test_bytes_use_binary_units(size: float, shown: str) -> None:
    assert bytes_text(size) == shown


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [
        (0, "$0.00"),
        (0.000123456, "$0.000123"),
        (0.5, "$0.500"),
        (0.996, "$1.00"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money_shows_what_small_amounts_are(dollars: float, shown: str) -> None:
    assert money(dollars) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (3.0, "3"), (3.25, "3.2"), (1234.5, "1,234")]
)
def test_a_mean_count_is_whole_where_it_is_large(value: float, shown: str) -> None:
    assert count_text(value) == shown


def test_counts_and_lists_read_as_sentences() -> None:
    assert plural(1, "unit") == "1 unit"
    assert plural(1797, "unit") == "1,797 units"
    assert joined([]) == ""
    assert joined(["a", "b"]) == "a and b"
    assert joined(["a", "b", "c"]) == "a, b and c"
    assert joined(list("abcdef")) == "a, b, c, d, e and f"
    assert joined(list("abcdefg")) == "a, b, c, d, e and 2 more"


@pytest.mark.parametrize(
    ("limit", "shown"), [(5, "abcde"), (4, "abc…"), (1, "…"), (0, "…")]
)
def test_a_long_text_is_cut_with_an_ellipsis(limit: int, shown: str) -> None:
    assert clipped("abcde", limit) == shown

"""For every JSON value: one text, read back as the same value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazycore.experiments import CanonicalError, canonical, freeze
from lazycore.experiments._canonical import MAX_INTEGER
from lazycore.experiments._frozen import thaw
from lazycore.experiments._strict_json import parse

text = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=8,
)


# The suite runs often, and on new values each time; the slow test draws many at once.
FEW = settings(max_examples=40, deadline=None)
MANY = settings(max_examples=2_000, deadline=None)


@FEW
@given(values)
def test_reading_a_canonical_text_gives_the_value_back(value: object) -> None:
    data = canonical(value)
    assert canonical(parse(data)) == data
    assert parse(data) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_every_bit(value: float) -> None:
    assert float(canonical(value)) == value


@FEW
@given(values)
def test_freezing_twice_changes_nothing(value: object) -> None:
    frozen = freeze(value)
    assert freeze(frozen) == frozen
    assert canonical(frozen) == canonical(value)
    assert thaw(frozen) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse(data)
    except CanonicalError:
        return
    json.loads(data)


@FEW
@given(values, text)
def test_a_duplicate_key_is_found_at_any_depth(value: object, name: str) -> None:
    key = json.dumps(name)
    inner = f"{{{key}:1,{key}:2}}"
    wrapped = f"[{json.dumps(value)},[{inner}]]"
    with pytest.raises(CanonicalError, match="duplicate key"):
        parse(wrapped.encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    [
        test_reading_a_canonical_text_gives_the_value_back,
        test_freezing_twice_changes_nothing,
    ],
)
def test_many_values_hold_too(check: Any) -> None:
    given(values)(MANY(check.hypothesis.inner_test))()


@pytest.mark.slow
def test_many_duplicate_keys_are_found_too() -> None:
    check: Any = test_a_duplicate_key_is_found_at_any_depth
    given(values, text)(MANY(check.hypothesis.inner_test))()

"""Whatever comes in, what goes out is valid, bounded and stable."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazycore.telemetry import ml_metric_attribute
from lazycore.telemetry._attributes import as_attribute
from lazycore.telemetry._fit import fit
from lazycore.telemetry._taxonomy import owasp_ids
from lazycore.telemetry._text import METADATA_CHARS, as_text, clean, metadata
from lazycore.telemetry._values import as_int, dumps, normalise

# Texts, JSON and numbers are the same on every Python.
pytestmark = pytest.mark.once

texts = st.text(st.characters(codec=None, min_codepoint=0, max_codepoint=0x10FFFF))
json_like: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.binary()
    | st.dates(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(texts | st.integers(), inner)
        | st.tuples(inner)
    ),
    max_leaves=20,
)


@given(texts)
def test_cleaning_makes_utf8_without_nul_and_is_stable(text: str) -> None:
    found = clean(text)
    found.encode()
    assert "\0" not in found
    assert clean(found) == found


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_cleaning_leaves_good_text_alone(text: str) -> None:
    assert clean(text) == text


@given(json_like)
def test_names_are_bounded_text(value: object) -> None:
    found = metadata(value)
    found.encode()
    assert len(found) <= METADATA_CHARS
    as_text(value).encode()


@given(json_like, st.integers(16, 100))
def test_normalised_values_are_json_that_reads_back(value: object, limit: int) -> None:
    found = normalise(value, max_chars=limit)
    assert json.loads(dumps(found)) == found


@given(json_like, st.integers(64, 2000))
def test_fitting_keeps_valid_json_within_the_bound(value: object, room: int) -> None:
    text = fit(normalise(value, max_chars=500), room)
    assert len(text.encode()) <= room
    json.loads(text)


@given(st.lists(st.text(max_size=2000), max_size=50), st.integers(256, 4000))
def test_fitting_messages_keeps_the_last_one(parts: list[str], room: int) -> None:
    messages = [{"role": "user", "parts": [p]} for p in parts]
    found = json.loads(fit(normalise(messages, max_chars=None), room))
    assert isinstance(found, list)
    if len(dumps(normalise(messages, max_chars=None)).encode()) <= room:
        assert found == normalise(messages, max_chars=None)


@given(json_like)
def test_attributes_hold_what_an_exporter_takes(value: object) -> None:
    found = as_attribute(value)
    items = found if isinstance(found, (tuple, list)) else [found]
    for item in items:
        assert item is None or isinstance(item, (str, bool, int, float))
        if isinstance(item, str):
            item.encode()
        elif isinstance(item, int):
            assert as_int(item) is not None or isinstance(item, bool)


@given(st.integers(1, 10), st.sampled_from(["LLM", "ASI"]), st.booleans())
def test_identifiers_are_stable_under_their_own_reading(
    number: int,
    family: str,
    dashed: bool,  # noqa: FBT001
) -> None:
    (found,) = owasp_ids(f"{family}{'-' if dashed else ''}{number}")
    assert owasp_ids(found) == (found,)


@given(st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,20}(\.[a-z0-9_]{1,5})?", fullmatch=True))
def test_metric_names_are_stable_under_their_own_reading(name: str) -> None:
    found = ml_metric_attribute(name)
    assert ml_metric_attribute(found.removeprefix("ml.metric.")) == found

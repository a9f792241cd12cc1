from __future__ import annotations

import html

from hypothesis import given, settings
from hypothesis import strategies as st

from lazycore.experiments._report._markup import element, join, text
from lazycore.experiments._report._scale import nice_scale
from lazycore.experiments._terminal import printable

words = st.text(st.characters(codec=None), max_size=40)
numbers = st.floats(-1e12, 1e12, allow_subnormal=False)


@given(words)
def test_escaped_text_has_no_markup_and_encodes(value: str) -> None:
    shown = text(value)
    assert not set("<>\"'") & set(shown)
    shown.encode("utf-8")


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=40))
def test_readable_text_survives_escaping(value: str) -> None:
    assert html.unescape(text(value)) == value


@given(st.lists(words, max_size=4), words)
def test_an_element_holds_its_children_in_order(children: list[str], name: str) -> None:
    found = element("p", *children, title=name)
    assert found == f'<p title="{text(name)}">{join(children)}</p>'
    assert found.count("<") == 2


@settings(max_examples=100)
@given(st.lists(numbers, min_size=1, max_size=8))
def test_a_scale_holds_all_its_values(values: list[float]) -> None:
    scale = nice_scale(values, start=0, end=100)
    assert all(0 <= scale(value) <= 100 for value in values)
    assert len(scale.ticks) <= 8
    assert list(scale.ticks) == sorted(set(scale.ticks))


@given(words)
def test_a_terminal_gets_printable_characters_only(value: str) -> None:
    assert printable(value).isprintable()

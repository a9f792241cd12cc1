"""Evaluation against an oracle that tries every choice by brute force."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazycore.licensing import (
    DECISIONS,
    LicenseClass,
    Usage,
    Verdict,
    assess,
    classify,
    normalize,
    parse,
)

IDS = [
    "MIT",
    "Apache-2.0",
    "MPL-2.0",
    "GPL-3.0-only",
    "AGPL-3.0-only",
    "BUSL-1.1",
    "CC-BY-NC-4.0",
    "LicenseRef-x",
]
SEVERITY = {Verdict.ALLOW: 0, Verdict.REVIEW: 1, Verdict.DENY: 2}

Tree = str | tuple[str, list["Tree"]]


def trees() -> st.SearchStrategy[Tree]:
    return st.recursive(
        st.sampled_from(IDS),
        lambda inner: st.tuples(
            st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3)
        ),
        max_leaves=8,
    )


def text_of(tree: Tree) -> str:
    if isinstance(tree, str):
        return tree
    word, operands = tree
    return "(" + f" {word} ".join(text_of(operand) for operand in operands) + ")"


def elections(tree: Tree) -> list[frozenset[str]]:
    """Return every set of licences that satisfies the tree."""
    if isinstance(tree, str):
        return [frozenset({tree})]
    word, operands = tree
    branches = [elections(operand) for operand in operands]
    if word == "OR":
        return [chosen for branch in branches for chosen in branch]
    return [frozenset().union(*parts) for parts in itertools.product(*branches)]


def cost(licenses: frozenset[str], usage: Usage) -> tuple[int, LicenseClass]:
    return max(
        (SEVERITY[DECISIONS[classify(one), usage].verdict], classify(one))
        for one in licenses
    )


@given(trees(), st.sampled_from(list(Usage)))
def test_verdict_is_the_mildest_of_all_elections(tree: Tree, usage: Usage) -> None:
    found = assess(text_of(tree), usage=usage)
    best = min(cost(election, usage) for election in elections(tree))
    assert (SEVERITY[found.verdict], found.license_class) == best
    assert frozenset(found.elected) in elections(tree)
    assert cost(frozenset(found.elected), usage) == best


@pytest.mark.slow
@settings(max_examples=2_000)
@given(trees(), st.sampled_from(list(Usage)))
def test_verdict_is_the_mildest_of_all_elections_at_length(
    tree: Tree, usage: Usage
) -> None:
    found = assess(text_of(tree), usage=usage)
    best = min(cost(election, usage) for election in elections(tree))
    assert (SEVERITY[found.verdict], found.license_class) == best


@given(trees())
def test_canonical_text_is_a_fixed_point(tree: Tree) -> None:
    once = str(parse(text_of(tree)))
    assert str(parse(once)) == once


@given(st.text(alphabet="MITOR AND()WHGPL-2.0+licenserf:x\t\n\0é", max_size=60))
def test_any_text_parses_or_is_refused_by_name(text: str) -> None:
    found = normalize(text)
    assert found is None or parse(str(found)) == found

"""Merging allowlists is commutative, associative and idempotent."""

from __future__ import annotations

import datetime as dt
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazycore.licensing import (
    Allowlist,
    ModelLicenseEntry,
    ModelTier,
    TierConflictError,
    Usage,
)

HASHES = ["0" * 64, "1" * 64]
entries = st.builds(
    ModelLicenseEntry,
    model_id=st.sampled_from(["org/a", "org/b", "ORG/a"]),
    license=st.sampled_from(["MIT", "ISC AND MIT", "MIT OR Zlib"]),
    tier=st.sampled_from(ModelTier),
    revision=st.sampled_from([None, "a" * 40]),
    terms_url=st.sampled_from([None, "https://a.example", "https://b.example"]),
    terms_sha256=st.sampled_from([None, *HASHES]),
    commercial=st.sampled_from(["yes", "no", "conditional", "unknown"]),
    conditions=st.lists(st.sampled_from("xyz"), max_size=2).map(tuple),
    base_models=st.lists(st.sampled_from(["o/p", "o/q"]), max_size=2).map(tuple),
    mirror_of=st.sampled_from([None, "o/p", "o/q"]),
    files=st.lists(
        st.tuples(st.sampled_from("fg"), st.sampled_from(HASHES)), max_size=2
    ).map(tuple),
    usages=st.lists(st.sampled_from(list(Usage)[:3]), max_size=2, unique=True).map(
        tuple
    ),
    deny=st.booleans(),
    reviewed_on=st.sampled_from([None, dt.date(2026, 1, 1), dt.date(2026, 2, 1)]),
    expires=st.sampled_from([None, dt.date(2027, 1, 1), dt.date(2027, 2, 1)]),
    provenance=st.sampled_from(["", "a.toml:1", "b.toml:2"]),
)
lists = entries.map(lambda entry: Allowlist([entry]))


def merged(*parts: Allowlist) -> Allowlist:
    return Allowlist.merge(*parts, on_conflict="restrict")


@given(lists, lists, lists)
@settings(max_examples=150, deadline=None)
def test_restricting_merge_obeys_the_laws(
    a: Allowlist, b: Allowlist, c: Allowlist
) -> None:
    whole = merged(a, b, c)
    for order in permutations((a, b, c)):
        assert merged(*order) == whole
    assert merged(merged(a, b), c) == whole
    assert merged(a, merged(b, c)) == whole
    assert merged(whole, whole) == whole
    assert merged(whole, a) == whole


@given(lists, lists)
@settings(max_examples=100, deadline=None)
def test_a_merge_admits_no_more_than_its_parts(a: Allowlist, b: Allowlist) -> None:
    both = merged(a, b)
    for part in (a, b):
        for entry in part:
            found = both.find(entry.model_id, entry.revision)
            assert found is not None
            assert found.deny or (
                not entry.deny
                and found.tier >= entry.tier
                and set(found.files) >= set(entry.files)
            )


@given(lists, lists)
@settings(max_examples=100, deadline=None)
def test_a_conflict_raises_in_either_order(a: Allowlist, b: Allowlist) -> None:
    outcomes: list[Allowlist | None] = []
    for first, second in ((a, b), (b, a)):
        try:
            outcomes.append(Allowlist.merge(first, second))
        except TierConflictError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]


def test_merging_nothing_gives_an_empty_list() -> None:
    assert Allowlist.merge() == Allowlist()


def test_two_tiers_raise_by_default() -> None:
    one = Allowlist(
        [ModelLicenseEntry(model_id="o/n", license="MIT", tier=ModelTier.PERMISSIVE)]
    )
    two = Allowlist(
        [ModelLicenseEntry(model_id="o/n", license="MIT", tier=ModelTier.RESTRICTED)]
    )
    with pytest.raises(TierConflictError, match="tier is"):
        Allowlist.merge(one, two)

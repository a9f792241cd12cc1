"""Allowlists of model checkpoints and the gate in front of Tier 2."""

from __future__ import annotations

import threading

import pytest

from lazycore.licensing import (
    Allowlist,
    AllowlistFormatError,
    ModelLicenseEntry,
    ModelNotAllowedError,
    ModelTier,
    RestrictedLicenseNotAcceptedError,
    RevisionMismatchError,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def models() -> Allowlist:
    return Allowlist(
        [
            ModelLicenseEntry(
                model_id="org/free", license="Apache-2.0", tier=ModelTier(1)
            ),
            ModelLicenseEntry(
                model_id="org/pinned",
                license="MIT",
                tier=ModelTier.PERMISSIVE,
                revision=COMMIT,
            ),
            ModelLicenseEntry(
                model_id="org/gated",
                license="LicenseRef-llama3.3",
                tier=ModelTier.RESTRICTED,
                conditions=("fewer than 700 million monthly users", "naming duty"),
                terms_url="https://example.org/terms",
            ),
        ]
    )


def test_an_allowlist_starts_empty_and_admits_nothing() -> None:
    empty = Allowlist()
    assert len(empty) == 0
    with pytest.raises(
        ModelNotAllowedError, match="org/any is not in the allowlist of 0"
    ):
        empty.check("org/any")
    with pytest.raises(LookupError):
        empty.check("org/any")


def test_tier_one_is_usable_at_once(models: Allowlist) -> None:
    assert models.check("org/free").license == "Apache-2.0"
    assert models.check("ORG/Free@main").model_id == "hf:org/free"
    assert "hf:org/FREE" in models
    assert "" not in models


def test_tier_two_is_refused_with_licence_conditions_and_the_call(
    models: Allowlist,
) -> None:
    with pytest.raises(RestrictedLicenseNotAcceptedError) as caught:
        models.check("org/gated")
    message = str(caught.value)
    for words in (
        "LicenseRef-llama3.3",
        "700 million",
        "naming duty",
        "https://example.org/terms",
        "accept_restricted_licenses=True",
    ):
        assert words in message
    assert not isinstance(caught.value, OSError)


def test_tier_two_is_admitted_by_the_explicit_word(models: Allowlist) -> None:
    entry = models.check("org/gated", accept_restricted_licenses=True)
    assert entry.tier is ModelTier.RESTRICTED


@pytest.mark.parametrize("almost", [1, "true", "false", object(), [True]])
def test_only_true_itself_accepts(models: Allowlist, almost: object) -> None:
    with pytest.raises(RestrictedLicenseNotAcceptedError):
        models.check("org/gated", accept_restricted_licenses=almost)  # type: ignore[arg-type]


def test_a_pinned_checkpoint_needs_its_commit(models: Allowlist) -> None:
    assert models.check("org/pinned", COMMIT).revision == COMMIT
    assert models.check(f"org/pinned@{COMMIT}").revision == COMMIT
    for model_id, revision in [
        ("org/pinned", None),
        ("org/pinned", "main"),
        ("org/pinned@main", None),
        (f"org/pinned@{COMMIT}", "main"),
        ("org/pinned", COMMIT.upper()),
    ]:
        with pytest.raises(RevisionMismatchError):
            models.check(model_id, revision)


MALFORMED: list[tuple[dict[str, object], str]] = [
    ({"model_id": ""}, "malformed"),
    ({"model_id": "org/a b"}, "malformed"),
    ({"model_id": "org/a@"}, "malformed"),
    ({"model_id": "nowhere:org/a"}, "registry 'nowhere'"),
    ({"model_id": f"org/a@{COMMIT}"}, "holds a revision"),
    ({"license": "Apache"}, "is not an SPDX id"),
    ({"tier": 3}, "tier must be 1 or 2"),
    ({"revision": "main"}, "can move"),
    ({"conditions": "one sentence"}, "list of sentences"),
    ({"license": "CC-BY-NC-4.0", "tier": 1}, "tier 1 does not admit"),
    ({"license": "LicenseRef-Acme", "tier": 1}, "tier 1 does not admit"),
    ({"license": "MIT AND CC-BY-NC-4.0", "tier": 1}, "tier 1 does not admit"),
]


@pytest.mark.parametrize(
    ("change", "words"), MALFORMED, ids=[str(row[0]) for row in MALFORMED]
)
def test_a_malformed_entry_is_refused(change: dict[str, object], words: str) -> None:
    fields: dict[str, object] = {"model_id": "org/a", "license": "MIT", "tier": 2}
    with pytest.raises(AllowlistFormatError, match=words):
        ModelLicenseEntry(**(fields | change))  # type: ignore[arg-type]


def test_one_checkpoint_has_one_entry(models: Allowlist) -> None:
    twin = ModelLicenseEntry(model_id="ORG/free", license="MIT", tier=ModelTier(2))
    with pytest.raises(AllowlistFormatError, match="listed already as hf:org/free"):
        models.add(twin)
    assert models.check("org/free").license == "Apache-2.0"


def test_what_is_no_entry_is_refused(models: Allowlist) -> None:
    with pytest.raises(TypeError, match="str"):
        models.add("org/any")  # type: ignore[arg-type]


def test_threads_add_without_losing_entries() -> None:
    models = Allowlist()

    def add(start: int) -> None:
        for number in range(start, start + 50):
            models.add(
                ModelLicenseEntry(
                    model_id=f"org/m{number}", license="MIT", tier=ModelTier(1)
                )
            )

    threads = [threading.Thread(target=add, args=(n * 50,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(models) == 400

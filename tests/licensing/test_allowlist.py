"""An allowlist admits what it lists, as it lists it, and nothing else."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.licensing import (
    Allowlist,
    AllowlistFormatError,
    HashMismatchError,
    LicensingError,
    ModelLicenseEntry,
    ModelNotAllowedError,
    ModelTier,
    RestrictedLicenseNotAcceptedError,
    RevisionMismatchError,
    TermsChangedError,
    Usage,
)

if TYPE_CHECKING:
    from pathlib import Path

PIN = "0123456789abcdef0123456789abcdef01234567"
TERMS = hashlib.sha256(b"terms").hexdigest()


def entry(name: str = "org/name", tier: int = 1, **fields: Any) -> ModelLicenseEntry:
    fields.setdefault("license", "MIT" if tier == 1 else "CC-BY-NC-4.0")
    return ModelLicenseEntry(model_id=name, tier=ModelTier(tier), **fields)


def test_an_empty_allowlist_admits_nothing() -> None:
    assert len(Allowlist()) == 0
    with pytest.raises(ModelNotAllowedError, match="not in the allowlist"):
        Allowlist().check("org/name")


def test_tier_1_is_usable_at_once() -> None:
    assert Allowlist([entry()]).check("org/name").license == "MIT"


def test_tier_2_needs_an_explicit_acceptance() -> None:
    listed = entry(
        tier=2, conditions=("research only",), terms_url="https://example.org/t"
    )
    allowed = Allowlist([listed])
    with pytest.raises(RestrictedLicenseNotAcceptedError) as caught:
        allowed.check("org/name")
    for part in ("CC-BY-NC-4.0", "research only", "https://example.org/t"):
        assert part in str(caught.value)
    assert "accept_restricted_licenses=True" in str(caught.value)
    assert not isinstance(caught.value, OSError)
    assert allowed.check("org/name", accept_restricted_licenses=True) is listed


@pytest.mark.parametrize("value", [0, None, [], frozenset()], ids=repr)
def test_nothing_falsy_counts_as_acceptance(value: Any) -> None:
    with pytest.raises(RestrictedLicenseNotAcceptedError):
        Allowlist([entry(tier=2)]).check("org/name", accept_restricted_licenses=value)


@pytest.mark.parametrize("value", ["1", "all", "true", TERMS])
def test_a_text_is_no_acceptance(value: str) -> None:
    allowed = Allowlist([entry(tier=2, terms_sha256=TERMS)])
    with pytest.raises(RestrictedLicenseNotAcceptedError):
        allowed.check("org/name", accept_restricted_licenses=value)


def test_the_stricter_form_accepts_terms_by_hash() -> None:
    allowed = Allowlist([entry(tier=2, terms_sha256=TERMS)])
    allowed.check("org/name", accept_restricted_licenses={TERMS})
    with pytest.raises(TermsChangedError):
        allowed.check("org/name", accept_restricted_licenses={"0" * 64})


def test_terms_without_a_hash_are_not_accepted_by_hash() -> None:
    with pytest.raises(TermsChangedError):
        Allowlist([entry(tier=2)]).check(
            "org/name", accept_restricted_licenses={"0" * 64}
        )


@pytest.mark.parametrize("spelling", ["org/name", "hf:org/name", "HF:Org/NAME"])
def test_ids_compare_without_regard_to_case(spelling: str) -> None:
    allowed = Allowlist([entry("hf:Org/Name")])
    assert allowed.check(spelling).model_id == "hf:Org/Name"


def test_ids_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(AllowlistFormatError, match="only in case"):
        Allowlist([entry("org/a"), entry("Org/A", revision=PIN)])


def test_unicode_forms_are_one_id() -> None:
    assert "org/caf\u00e9" in Allowlist([entry("org/cafe\u0301")])


@pytest.mark.parametrize("name", ["", "a b", "org/x@", "x:", "a\nb", "org/\x1b[0m"])
def test_malformed_ids_are_refused(name: str) -> None:
    with pytest.raises(AllowlistFormatError):
        entry(name)


def test_a_pin_admits_only_its_revision() -> None:
    allowed = Allowlist([entry(revision=PIN)])
    allowed.check("org/name", PIN)
    allowed.check(f"org/name@{PIN}")
    for other in ("f" * 40, "main"):
        with pytest.raises(RevisionMismatchError):
            allowed.check("org/name", other)
    with pytest.raises(RevisionMismatchError, match="pass it as revision"):
        allowed.check("org/name")


def test_two_revisions_in_one_call_must_agree() -> None:
    with pytest.raises(RevisionMismatchError):
        Allowlist([entry()]).check(f"org/name@{PIN}", "main")


def test_strict_refuses_what_moves() -> None:
    moving = Allowlist([entry()])
    moving.check("org/name", "main")
    with pytest.raises(RevisionMismatchError, match="can move"):
        moving.check("org/name", "main", strict=True)
    with pytest.raises(RevisionMismatchError, match="pins no revision"):
        moving.check("org/name", PIN, strict=True)
    Allowlist([entry(revision=PIN)]).check("org/name", PIN, strict=True)


def test_strict_refuses_an_unlisted_base() -> None:
    allowed = Allowlist([entry(revision=PIN, base_models=("org/base",))])
    assert allowed.unknown_bases(next(iter(allowed))) == ("org/base",)
    with pytest.raises(ModelNotAllowedError, match="base model org/base"):
        allowed.check("org/name", PIN, strict=True)


def test_the_effective_tier_is_the_worst_of_all_bases() -> None:
    chain = [
        entry("org/tuned", base_models=("org/mid",)),
        entry("org/mid", base_models=("org/root", "org/tuned")),  # a cycle
        entry("org/root", tier=2),
    ]
    with pytest.raises(RestrictedLicenseNotAcceptedError):
        Allowlist(chain).check("org/tuned")


def test_a_mirror_inherits_its_origin() -> None:
    allowed = Allowlist([entry("x/copy", mirror_of="org/root"), entry("org/root", 2)])
    with pytest.raises(RestrictedLicenseNotAcceptedError):
        allowed.check("x/copy")


def test_the_same_bytes_under_another_id_inherit_the_stricter_entry() -> None:
    weights = hashlib.sha256(b"w").hexdigest()
    pinned = (("model.bin", f"sha256:{weights}"),)
    allowed = Allowlist([entry("org/a", 2, files=pinned), entry("x/b", files=pinned)])
    with pytest.raises(RestrictedLicenseNotAcceptedError):
        allowed.check("x/b")
    plain = Allowlist([entry("org/a", 2, files=pinned), entry("x/c")])
    plain.check("x/c")
    with pytest.raises(RestrictedLicenseNotAcceptedError):
        plain.check("x/c", files={"model.bin": weights})


def test_pinned_files_are_hashed(tmp_path: Path) -> None:
    good = hashlib.sha256(b"weights").hexdigest()
    allowed = Allowlist([entry(files=(("m.bin", f"sha256:{good}"),))])
    with pytest.raises(HashMismatchError, match="can't be read"):
        allowed.check("org/name", path=tmp_path)
    (tmp_path / "m.bin").write_bytes(b"weights")
    allowed.check("org/name", path=tmp_path)
    (tmp_path / "m.bin").write_bytes(b"other")
    with pytest.raises(HashMismatchError, match="other bytes"):
        allowed.check("org/name", path=tmp_path)
    with pytest.raises(HashMismatchError):
        allowed.check("org/name", files={"m.bin": "0" * 64})


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
def test_pins_stay_inside_the_model_folder(path: str) -> None:
    with pytest.raises(AllowlistFormatError, match="leaves"):
        entry(files=((path, "sha256:" + "0" * 64),))


def test_wildcards_are_tier_1_namespaces() -> None:
    allowed = Allowlist([entry("org/*"), entry("org/big", 2)])
    allowed.check("org/anything")
    with pytest.raises(RestrictedLicenseNotAcceptedError):
        allowed.check("org/big")
    with pytest.raises(ModelNotAllowedError):
        allowed.check("organ/x")
    for bad in ({"tier": 2}, {"revision": PIN}, {"terms_sha256": TERMS}):
        with pytest.raises(AllowlistFormatError):
            entry("org/*", **bad)
    for name in ("hf:*", "*", "or*/x", "org/na*"):
        with pytest.raises(AllowlistFormatError):
            entry(name)


def test_a_denial_beats_every_other_entry() -> None:
    allowed = Allowlist([entry("org/*", deny=True), entry("org/name", revision=PIN)])
    with pytest.raises(ModelNotAllowedError, match="denied"):
        allowed.check("org/name", PIN, accept_restricted_licenses=True)


def test_expiry_counts_from_its_day() -> None:
    allowed = Allowlist([entry(expires=dt.date(2030, 1, 2))])
    allowed.check("org/name", today=dt.date(2030, 1, 1))
    with pytest.raises(ModelNotAllowedError, match="expired on 2030-01-02"):
        allowed.check("org/name", today=dt.date(2030, 1, 2))


def test_usages_limit_an_entry() -> None:
    allowed = Allowlist([entry(usages=(Usage.WEIGHTS_RESEARCH,))])
    allowed.check("org/name", usage="weights-research")
    with pytest.raises(ModelNotAllowedError, match="not for weights-commercial"):
        allowed.check("org/name", usage="weights-commercial")


def test_one_key_holds_one_entry() -> None:
    with pytest.raises(AllowlistFormatError, match="listed already"):
        Allowlist([entry(), entry(tier=2)])


def test_a_wildcard_does_not_admit_another_revision_of_a_pinned_id() -> None:
    allowed = Allowlist([entry("org/*"), entry(revision=PIN)])
    allowed.check("org/name", PIN)
    allowed.check("org/other")
    with pytest.raises(RevisionMismatchError):
        allowed.check("org/name", "f" * 40)


def test_bytes_of_a_denied_checkpoint_are_refused_under_any_name() -> None:
    weights = hashlib.sha256(b"w").hexdigest()
    denied = entry("org/bad", deny=True, files=(("w.bin", weights),))
    allowed = Allowlist([denied, entry("x/copy")])
    with pytest.raises(ModelNotAllowedError, match="bytes of a denied"):
        allowed.check("x/copy", files={"w.bin": weights})


@pytest.mark.parametrize(
    "fields",
    [
        {"license": "Nonsense"},
        {"tier": 3},
        {"revision": "main"},
        {"commercial": "maybe"},
        {"terms_sha256": "00"},
        {"files": (("a", "sha256:00"),)},
        {"base_models": ("a b",)},
        {"mirror_of": "a b"},
    ],
    ids=str,
)
def test_broken_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises((AllowlistFormatError, ValueError)) as caught:
        ModelLicenseEntry(
            **{"model_id": "org/n", "license": "MIT", "tier": 1, **fields}
        )
    assert isinstance(caught.value, LicensingError)

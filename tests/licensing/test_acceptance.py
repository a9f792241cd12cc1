"""Terms are accepted by name and hash, never all at once, and files by their bytes."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from lazycore.licensing import (
    Allowlist,
    AllowlistFormatError,
    HashCache,
    HashMismatchError,
    ModelLicenseEntry,
    ModelTier,
    ReaderError,
    RestrictedLicenseNotAcceptedError,
    TermsChangedError,
    _hashes,
    accepted_terms,
)

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TERMS = "ab" * 32
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def gated(**fields: object) -> Allowlist:
    entry = {"model_id": "org/big", "license": "CC-BY-NC-4.0", "tier": 2}
    return Allowlist(
        [ModelLicenseEntry(**{**entry, "terms_sha256": TERMS, **fields})]  # type: ignore[arg-type]
    )


def pinned(**files: str) -> Allowlist:
    return Allowlist(
        [
            ModelLicenseEntry(
                model_id="org/free",
                license="MIT",
                tier=ModelTier.PERMISSIVE,
                revision=COMMIT,
                files=tuple(
                    (name.replace("__", "."), sha) for name, sha in files.items()
                ),
            )
        ]
    )


def test_the_environment_accepts_terms_by_id_and_prefix() -> None:
    text = f"org/Big={TERMS[:12]}, hf:org/other={'c' * 64}"
    accepted = accepted_terms({"LAZYCORE_ACCEPTED_MODEL_TERMS": text})
    assert accepted == {"hf:org/big": TERMS[:12], "hf:org/other": "c" * 64}
    gated().check("org/big", accept_restricted_licenses=accepted)
    with pytest.raises(RestrictedLicenseNotAcceptedError, match="tier 2"):
        gated().check("org/big", accept_restricted_licenses={"org/other": TERMS[:12]})
    with pytest.raises(TermsChangedError):
        gated().check("org/big", accept_restricted_licenses={"org/big": "0" * 12})
    with pytest.raises(TermsChangedError):
        gated(terms_sha256=None).check("org/big", accept_restricted_licenses=accepted)


@pytest.mark.parametrize(
    "text",
    ["1", "all", "true", "org/big", "org/big=", "org/big=abc", "=" + TERMS, "*=1"],
)
def test_nothing_in_the_environment_accepts_everything(text: str) -> None:
    with pytest.raises(AllowlistFormatError, match="no pair id=prefix"):
        accepted_terms({"LAZYCORE_ACCEPTED_MODEL_TERMS": text})


def test_a_check_reads_no_variable_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYCORE_ACCEPTED_MODEL_TERMS", f"org/big={TERMS}")
    with pytest.raises(RestrictedLicenseNotAcceptedError):
        gated().check("org/big")
    gated().check("org/big", accept_restricted_licenses=accepted_terms())


@pytest.mark.parametrize(
    "accepted",
    [{}, {"org/big": ""}, {"org/big": "a"}, {"org/big": True}, {1: TERMS}, "x", b"x"],
)
def test_what_names_no_terms_accepts_nothing(accepted: object) -> None:
    with pytest.raises(RestrictedLicenseNotAcceptedError):
        gated().check("org/big", accept_restricted_licenses=accepted)  # type: ignore[arg-type]


def test_strict_wants_every_pin_compared(tmp_path: Path) -> None:
    models = pinned(a__safetensors=EMPTY, config__json=EMPTY)
    models.check("org/free", COMMIT)
    with pytest.raises(HashMismatchError, match=r"nobody compared .*a\.safetensors"):
        models.check("org/free", COMMIT, strict=True)
    with pytest.raises(HashMismatchError, match=r"nobody compared .*config\.json"):
        models.check("org/free", COMMIT, files={"a.safetensors": EMPTY})
    both = {"a.safetensors": EMPTY, "config.json": EMPTY.upper()}
    models.check("org/free", COMMIT, files=both, strict=True)
    for name in both:
        (tmp_path / name).touch()
    models.check("org/free", COMMIT, path=tmp_path, strict=True)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "deep/other.SAFETENSORS"])
def test_strict_refuses_weights_that_nobody_pinned(tmp_path: Path, name: str) -> None:
    models = pinned(a__safetensors=EMPTY)
    (tmp_path / "a.safetensors").touch()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    models.check("org/free", COMMIT, path=tmp_path)
    with pytest.raises(HashMismatchError, match=f"{name} holds weights and has no pin"):
        models.check("org/free", COMMIT, path=tmp_path, strict=True)


def old(path: Path) -> Path:
    moment = time.time() - 100
    os.utime(path, (moment, moment))
    return path


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The change time can't be set back; let a file settle at once instead.
    monkeypatch.setattr(_hashes, "SETTLED_S", -1.0)
    path = tmp_path / "weights"
    path.write_bytes(b"")
    return path


def test_a_file_is_hashed_once_until_it_changes(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "hashes.json"
    assert HashCache(place).sha256(weights) == EMPTY
    assert place.stat().st_mode & 0o777 == 0o600
    assert (
        list(tmp_path.iterdir()) == [place, weights]
        or len(list(tmp_path.iterdir())) == 2
    )
    with monkeypatch.context() as patch:
        patch.setattr(_hashes, "sha256_of", None)  # hashing again would fail
        assert HashCache(place).sha256(weights) == EMPTY
    # Other bytes of the same size, with the old time put back.
    state = weights.stat()
    weights.write_bytes(b"x")
    os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert HashCache(place).sha256(weights) != EMPTY
    weights.write_bytes(b"y")
    os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert HashCache(place).sha256(weights) == _hashes.sha256_of(weights)


def test_a_file_of_this_moment_is_not_remembered(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.touch()
    assert HashCache(tmp_path / "hashes.json").sha256(path) == EMPTY
    assert not (tmp_path / "hashes.json").exists()


def test_a_cache_that_others_may_write_is_refused(
    tmp_path: Path, weights: Path
) -> None:
    place = tmp_path / "hashes.json"
    HashCache(place).sha256(weights)
    place.chmod(0o620)
    with pytest.raises(ReaderError, match="chmod 600"):
        HashCache(place)


@pytest.mark.parametrize("raw", [b"", b"[]", b"[" * 100_000, b'{"a": "zz"}', b"\xff"])
def test_a_damaged_cache_holds_nothing(
    tmp_path: Path, weights: Path, raw: bytes
) -> None:
    place = tmp_path / "hashes.json"
    place.write_bytes(raw)
    place.chmod(0o600)
    assert HashCache(place).sha256(weights) == EMPTY


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, weights: Path
) -> None:
    cache = HashCache(tmp_path / "absent" / "hashes.json")
    assert cache.sha256(weights) == cache.sha256(weights) == EMPTY


def test_a_check_uses_the_cache(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = pinned(weights=EMPTY)
    place = tmp_path / "hashes.json"
    models.check("org/free", COMMIT, path=tmp_path, hash_cache=HashCache(place))
    monkeypatch.setattr(_hashes, "sha256_of", None)
    models.check("org/free", COMMIT, path=tmp_path, hash_cache=HashCache(place))
    assert weights.exists()

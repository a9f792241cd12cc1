"""Allowlist files are read strictly and written so that they read back equal."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lazycore.licensing import (
    Allowlist,
    AllowlistFormatError,
    ModelLicenseEntry,
    ModelTier,
    Usage,
)

if TYPE_CHECKING:
    from pathlib import Path

PIN = "0123456789abcdef0123456789abcdef01234567"
HASH = "ab" * 32

FULL = ModelLicenseEntry(
    model_id="hf:Org/Näme",
    license="LicenseRef-Llama",
    tier=ModelTier.RESTRICTED,
    revision=PIN,
    conditions=('700 M "users"', "back\\slash", "line\nbreak\x7f"),
    terms_url="https://example.org",
    terms_sha256=HASH,
    commercial="conditional",
    base_models=(f"org/base@{PIN}",),
    mirror_of="org/origin",
    files=(("a b/model.safetensors", HASH),),
    usages=(Usage.WEIGHTS_RESEARCH,),
    reviewed_by="ada",
    reviewed_on=dt.date(2026, 11, 30),
    expires=dt.date(2027, 11, 30),
)


def test_a_list_reads_back_equal(tmp_path: Path) -> None:
    tiny = ModelLicenseEntry(model_id="org/tiny", license="MIT", tier=ModelTier(1))
    path = tmp_path / "models.toml"
    path.write_text(Allowlist([FULL, tiny]).to_toml(), encoding="utf-8")
    found = [replace(entry, provenance="") for entry in Allowlist.load(path)]
    assert found == [FULL, tiny]


def test_entries_remember_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text(
        'schema = 1\n\n[[model]]\nid = "a/b"\nlicense = "MIT"\ntier = 1\n'
        '\n[[model]]\nid = "a/c"\nlicense = "MIT"\ntier = 1\n'
    )
    lines = [entry.provenance.rpartition(":")[2] for entry in Allowlist.load(path)]
    assert lines == ["3", "8"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "schema = 1"),
        ("schema = 2", 1, "schema = 1"),
        ("schema = 1\nmodels = []", 2, "unknown key 'models'"),
        ("schema = 1\n[model]\n", 1, "[[model]]"),
        ("schema = 1\n[[model]]\n", 2, "needs id"),
        (
            'schema = 1\n[[model]]\nid="a/b"\nlicense="MIT"\ntier=1\nteir=1',
            6,
            "unknown key 'teir'",
        ),
        (
            'schema = 1\n[[model]]\nid="a/b"\nlicense="MIT"\ntier=true',
            5,
            "tier has the wrong type",
        ),
        (
            'schema = 1\n[[model]]\nid="a/b"\nlicense="MIT"\ntier="1"',
            5,
            "tier has the wrong type",
        ),
        (
            'schema = 1\n[[model]]\nid="a/b"\nlicense="MIT"\ntier=1\nconditions=[1]',
            6,
            "conditions has the wrong type",
        ),
        (
            (
                'schema = 1\n[[model]]\nid="a/b"\nlicense="MIT"\ntier=1\n'
                "expires=2027-01-01T00:00:00Z"
            ),
            6,
            "expires has the wrong type",
        ),
        (
            'schema = 1\n[[model]]\nid="a/b"\nlicense="Nope"\ntier=1',
            2,
            "not an SPDX id",
        ),
        (
            'schema = 1\n[[model]]\nid="a/b"\nlicense="MIT"\ntier=1\nusages=["x"]',
            2,
            "'x' is not a valid Usage",
        ),
    ],
)
def test_a_fault_names_file_and_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(AllowlistFormatError) as caught:
        Allowlist.load(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("raw", [b"\xff", b"schema =", b"[" * 5000], ids=repr)
def test_what_is_no_toml_is_refused_by_name(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "models.toml"
    path.write_bytes(raw)
    with pytest.raises(AllowlistFormatError, match=r"models\.toml"):
        Allowlist.load(path)

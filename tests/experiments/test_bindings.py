"""What a manifest asks of the host is bound to digests: no value, no path is kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.experiments import ArtifactError, DiscoveryManifest, ValidationError
from lazycore.experiments._bindings import BindingReceipt, bind
from lazycore.experiments._canonical import sha256_hex

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST: dict[str, Any] = {
    "schema_version": 1,
    "study_id": "s",
    "stage": "discovery",
    "estimand": "mean paired difference",
    "method_id": "m",
    "candidate_release_id": "m-1",
    "benchmarks": [{"cell_id": "b", "split": "test", "unit_ids": ["u"]}],
    "arms": [
        {
            "arm_id": arm,
            "release_id": "r",
            "family": "f",
            "profile_kind": "p",
            "arm_kind": arm,
            "parameters": {},
        }
        for arm in ("no_op", "candidate")
    ],
    "driver": "lazycore.experiments:factory",
}


def manifest(**prerequisites: list[str]) -> DiscoveryManifest:
    return DiscoveryManifest.from_document({**MANIFEST, "prerequisites": prerequisites})


@pytest.fixture
def host(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_bytes(b"a")
    (tmp_path / "tool").write_bytes(b"#!/bin/sh\n")
    return {
        "TOKEN": "a secret value",
        "FILE": str(tmp_path / "file"),
        "FOLDER": str(tmp_path / "folder"),
        "TOOL": str(tmp_path / "tool"),
    }


def test_each_kind_has_an_identity_and_entries_are_sorted(
    host: dict[str, str], tmp_path: Path
) -> None:
    asked = manifest(
        env=["TOKEN"],
        file_env=["FILE"],
        directory_env=["FOLDER"],
        executable=[host["TOOL"]],
    )
    receipt = bind(asked, host)
    keys = [(entry["kind"], entry["name"]) for entry in receipt.entries]
    assert keys == sorted(keys)
    assert receipt.binding("TOKEN", "env") == {
        "kind": "env",
        "name": "TOKEN",
        "sha256": sha256_hex(b"a secret value"),
        "length": 14,
    }
    file = receipt.binding("FILE", "file_env")
    assert (file["sha256"], file["size"]) == (sha256_hex(b"content"), 7)
    assert receipt.binding(host["TOOL"], "executable")["size"] == 10
    assert len(receipt.binding("FOLDER", "directory_env")["content_sha256"]) == 64
    values = [entry for entry in receipt.entries if entry["kind"] != "executable"]
    assert "secret value" not in json.dumps(values)
    assert str(tmp_path) not in json.dumps(values)
    with pytest.raises(ValidationError, match="no env prerequisite is named 'FILE'"):
        receipt.binding("FILE", "env")


@pytest.mark.parametrize("name", ["TOKEN", "FILE", "FOLDER"])
def test_a_changed_value_or_content_is_another_receipt(
    host: dict[str, str], tmp_path: Path, name: str
) -> None:
    asked = manifest(env=["TOKEN"], file_env=["FILE"], directory_env=["FOLDER"])
    before = bind(asked, host).sha256
    assert bind(asked, host).sha256 == before
    if name == "TOKEN":
        host["TOKEN"] = "another"
    elif name == "FILE":
        (tmp_path / "file").write_bytes(b"contend")
    else:
        (tmp_path / "folder" / "b").touch()
    assert bind(asked, host).sha256 != before


def test_the_receipt_is_of_one_manifest(host: dict[str, str]) -> None:
    one, two = bind(manifest(env=["TOKEN"]), host), bind(manifest(env=["FILE"]), host)
    assert one.sha256 != two.sha256
    other = BindingReceipt("0" * 64, one.entries)
    assert other.sha256 != one.sha256


def test_what_is_unset_absent_or_a_link_is_refused(
    host: dict[str, str], tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    host |= {"LINK": str(link), "GONE": str(tmp_path / "gone"), "EMPTY": ""}
    for kind, name, text in (
        ("env", "EMPTY", "is not set"),
        ("env", "UNSET", "is not set"),
        ("file_env", "GONE", "names no file"),
        ("file_env", "LINK", "symbolic link"),
        ("file_env", "FOLDER", "names no file"),
        ("directory_env", "FILE", "names no directory"),
        ("executable", str(tmp_path / "gone"), "names no file"),
    ):
        with pytest.raises(ArtifactError, match=text) as caught:
            bind(manifest(**{kind: [name]}), host)
        assert str(tmp_path / "gone") not in str(caught.value)


def test_a_prerequisite_declared_twice_is_refused(host: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="declared twice"):
        bind(manifest(env=["TOKEN", "TOKEN"]), host)

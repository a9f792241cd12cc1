"""Manifests of Ollama: licence layers count by their bytes."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING

import pytest

from lazycore.licensing import ReaderError, read_model_folder
from lazycore.licensing._cli import main

if TYPE_CHECKING:
    from pathlib import Path


class Store:
    """A ``models`` folder as Ollama lays it out."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "blobs").mkdir(parents=True)
        self.layers: list[dict[str, object]] = []

    def layer(self, kind: str, raw: bytes, **more: object) -> str:
        digest = hashlib.sha256(raw).hexdigest()
        (self.root / "blobs" / f"sha256-{digest}").write_bytes(raw)
        media = f"application/vnd.ollama.image.{kind}"
        row = {"mediaType": media, "digest": f"sha256:{digest}", "size": len(raw)}
        self.layers.append({**row, **more})
        return digest

    def manifest(self, name: str = "registry.ollama.ai/library/tiny/latest") -> Path:
        path = self.root / "manifests" / name
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"schemaVersion": 2, "layers": self.layers}))
        return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


def gguf(key: str, value: str) -> bytes:
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    out += struct.pack("<Q", len(key)) + key.encode()
    return out + struct.pack("<IQ", 8, len(value)) + value.encode()


def test_the_licence_layer_names_licence_and_terms(store: Store, mit_text: str) -> None:
    store.layer("model", b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    terms = store.layer("license", mit_text.encode())
    store.layer("params", b"{}")
    found = read_model_folder(store.manifest())
    assert found.model_id == "ollama:library/tiny"
    assert found.license == "MIT"
    assert found.terms_sha256 == terms
    assert found.license_tag == "MIT License"
    assert found.problems == ()


def test_a_text_outside_the_list_is_matched_by_its_hash_alone(store: Store) -> None:
    terms = store.layer("license", b"LLAMA 3.3 COMMUNITY LICENSE AGREEMENT\n" * 40)
    found = read_model_folder(store.manifest("example.org/team/tuned/8b"))
    assert (found.license, found.terms_sha256) == (None, terms)
    assert found.model_id == "ollama:example.org/team/tuned"
    assert found.license_tag == "LLAMA 3.3 COMMUNITY LICENSE AGREEMENT"


def test_bytes_that_are_not_their_hash_are_no_terms(
    store: Store, mit_text: str
) -> None:
    digest = store.layer("license", mit_text.encode())
    (store.root / "blobs" / f"sha256-{digest}").write_text(mit_text + "\n\n")
    found = read_model_folder(store.manifest())
    assert (found.license, found.terms_sha256) == (None, None)
    assert "another hash" in found.problems[0]


def test_weights_that_disagree_with_the_layer_are_said(
    store: Store, mit_text: str
) -> None:
    store.layer("license", mit_text.encode())
    store.layer("model", gguf("general.license", "cc-by-nc-4.0"), **{"from": "base"})
    found = read_model_folder(store.manifest())
    assert found.license is None
    assert "disagree" in found.problems[0]
    assert found.base_models == ("base",)


def test_weights_alone_state_their_licence(store: Store) -> None:
    store.layer("model", gguf("general.license", "apache-2.0"))
    assert read_model_folder(store.manifest()).license == "Apache-2.0"


def test_a_missing_or_nameless_layer_is_a_problem(store: Store) -> None:
    digest = store.layer("license", b"x")
    (store.root / "blobs" / f"sha256-{digest}").unlink()
    store.layers.append(
        {
            "mediaType": "application/vnd.ollama.image.license",
            "digest": "sha256:../../etc/passwd",
        }
    )
    found = read_model_folder(store.manifest())
    assert len(found.problems) == 2
    assert found.license is None


@pytest.mark.parametrize(
    "raw",
    [
        "[]",
        "{}",
        '{"layers": 3}',
        "[" * 99_999,
        "\x00",
        '{"layers": [' + "1," * 1_001 + "1]}",
    ],
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, raw: str) -> None:
    path = tmp_path / "latest"
    path.write_text(raw)
    with pytest.raises(ReaderError, match="latest"):
        read_model_folder(path)


def test_scan_reads_a_manifest(
    store: Store, mit_text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = store.layer("license", mit_text.encode())
    assert main(["models", "scan", str(store.manifest())]) == 0
    assert f"terms     sha256:{terms}" in capsys.readouterr().out

"""Model files are read within limits; broken and hostile ones give a named error."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.licensing import (
    ReaderError,
    SourceError,
    _readers,
    read_card,
    read_gguf,
    read_model_folder,
    read_safetensors,
)
from lazycore.licensing._cli import main

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def safetensors(metadata: dict[str, str]) -> bytes:
    header = json.dumps({"__metadata__": metadata}).encode()
    return struct.pack("<Q", len(header)) + header


def gguf(values: dict[str, Any], version: int = 3) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    out = b"GGUF" + struct.pack("<IQQ", version, 0, len(values))
    for key, value in values.items():
        out += text(key)
        if isinstance(value, str):
            out += struct.pack("<I", 8) + text(value)
        elif isinstance(value, list):
            out += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        else:
            out += struct.pack("<II", 4, value)
    return out


def test_card_keys_are_read_from_scalars_and_lists(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    card.write_text(
        "---\nlicense: other  # see below\nlicense_name: 'llama3'\n"
        'base_model:\n- org/a\n  - org/b\ntags: [x]\ndatasets: [d1, "d2"]\n'
        "model-index:\n- name: license\n---\nlicense: mit\n"
    )
    assert read_card(card) == {
        "license": ["other"],
        "license_name": ["llama3"],
        "base_model": ["org/a", "org/b"],
        "datasets": ["d1", "d2"],
    }
    card.write_text("# no front matter\n")
    assert read_card(card) == {}
    card.write_text("---\nlicense: mit\n")
    with pytest.raises(ReaderError, match="never closed"):
        read_card(card)


def test_weights_state_their_licence(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(safetensors({"license": "apache-2.0", "format": "pt"}))
    assert read_safetensors(path)["license"] == "apache-2.0"
    path.write_bytes(
        gguf({"a.list": ["x", "y"], "general.license": "mit", "general.version": 7})
    )
    assert read_gguf(path) == {"general.license": "mit"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0" * 7,
        struct.pack("<Q", 2**63),
        struct.pack("<Q", 99_999_999) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{x",
        struct.pack("<Q", 4) + b"null",
        struct.pack("<Q", 20) + b'{"__metadata__": []} ',
        struct.pack("<Q", 100_000) + b"[" * 100_000,
    ],
    ids=range(9),
)
def test_broken_safetensors_are_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(raw)
    with pytest.raises(ReaderError, match=r"m\.safetensors"):
        read_safetensors(path)


GOOD = gguf({"general.license": "mit", "l": ["a"] * 3, "n": 1})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"GGML" + GOOD[4:],
        gguf({}, version=1),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**62),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 99),
        b"GGUF"
        + struct.pack("<IQQQ", 3, 0, 1, 1)
        + b"k"
        + struct.pack("<IIQ", 9, 9, 3),
        b"GGUF"
        + struct.pack("<IQQQ", 3, 0, 1, 1)
        + b"k"
        + struct.pack("<IIQ", 9, 10, 2**60),
        b"GGUF"
        + struct.pack("<IQQQ", 3, 0, 1, 1)
        + b"k"
        + struct.pack("<IIQQ", 9, 8, 9, 2**62),
    ],
    ids=range(9),
)
def test_broken_gguf_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(raw)
    with pytest.raises(ReaderError, match=r"m\.gguf"):
        read_gguf(path)


def test_every_truncation_is_refused_or_read(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for length in range(len(GOOD)):
        path.write_bytes(GOOD[:length])
        with pytest.raises(ReaderError):
            read_gguf(path)
    path.write_bytes(GOOD)
    assert read_gguf(path)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "models--org--name" / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("---\nlicense: llama3.3\nbase_model: o/b\n---\n")
    (folder / "model.safetensors").write_bytes(safetensors({}))
    return folder


def test_a_hub_cache_gives_id_commit_and_licence(model: Path) -> None:
    facts = read_model_folder(model.parent.parent)
    assert facts.model_id == "hf:org/name"
    assert facts.revision == COMMIT
    assert facts.license == "LicenseRef-scancode-llama-3.3-license-2024"
    assert facts.base_models == ("o/b",)
    assert not facts.remote_code
    assert not facts.pickle_only
    assert facts.problems == ()


def test_remote_code_adapters_and_pickles_are_found(model: Path) -> None:
    (model / "config.json").write_text('{"auto_map": {"AutoModel": "m.M"}}')
    (model / "adapter_config.json").write_text('{"base_model_name_or_path": "a/b"}')
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    facts = read_model_folder(model)
    assert facts.remote_code
    assert facts.pickle_only
    assert facts.base_models == ("o/b", "a/b")
    assert main(["models", "scan", str(model)]) == 3


def test_statements_that_disagree_leave_no_licence(model: Path, mit_text: str) -> None:
    (model / "LICENSE").write_text(mit_text)
    facts = read_model_folder(model)
    assert facts.license is None
    assert "disagree" in facts.problems[0]


def test_other_points_to_the_file(model: Path, mit_text: str) -> None:
    (model / "README.md").write_text("---\nlicense: other\n---\n")
    assert read_model_folder(model).license is None
    (model / "LICENSE").write_text(mit_text)
    assert read_model_folder(model).license == "MIT"


@pytest.mark.parametrize("name", ["config.json", "adapter_config.json", "x.gguf"])
@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b"[" * 100_000], ids=range(4))
def test_a_broken_file_is_a_problem_not_a_crash(
    model: Path, name: str, raw: bytes
) -> None:
    (model / name).write_bytes(raw)
    assert any(name in problem for problem in read_model_folder(model).problems)


def _header(body: bytes) -> bytes:
    return struct.pack("<Q", len(body)) + body


def _gguf(count: int, raw: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, count) + raw


def _text(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


HOSTILE = {
    "a million lists": (read_safetensors, _header(b'{"a":[' + b"[]," * 10**6 + b"1]}")),
    "nested tables": (read_safetensors, _header(b'{"a":' * 10**5)),
    "many tensors": (read_safetensors, _header(b'{"a":1' + b',"a":1' * 3_000 + b"}")),
    "a header that claims more": (read_safetensors, struct.pack("<Q", 2**63) + b"{}"),
    "blanks in a card": (
        read_card,
        b"---\nlicense: a" + b" " * 500_000 + b"b\n" + b"x" * 9**6,
    ),
    "texts to keep": (
        read_gguf,
        _gguf(
            12,
            b"".join(
                _text(b"general.%02d" % number)
                + struct.pack("<I", 8)
                + _text(b"x" * 900_000)
                for number in range(12)
            ),
        ),
    ),
    "texts to skip": (
        read_gguf,
        _gguf(1, _text(b"k") + struct.pack("<IIQ", 9, 8, 5_000_000)),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_without_its_claims_being_built(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_readers, "MAX_TENSORS", 2_000)
    reader, raw = HOSTILE[name]
    path = tmp_path / "file"
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with pytest.raises(ReaderError, match="file"):
            reader(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A header is held once as bytes and once as text; a card, a slice of it.
    assert peak < 3 * len(raw) + 2_000_000 or peak < 12_000_000


def test_a_header_keeps_its_metadata_wherever_it_stands(tmp_path: Path) -> None:
    tensor = {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
    path = tmp_path / "m"
    for rows in (
        {"a": tensor, "__metadata__": {"license": "mit"}, "b": tensor},
        {"__metadata__": {"license": "mit", "long": "x" * 100_000, "n": 3}},
        {"a": {**tensor, "shape": [1] * 500}, "__metadata__": {"license": "mit"}},
    ):
        body = json.dumps(rows, indent=1).encode()
        path.write_bytes(_header(body + b"   "))
        assert read_safetensors(path)["license"] == "mit"
    path.write_bytes(_header(b" { } "))
    assert read_safetensors(path) == {}


def test_a_pipe_in_a_model_folder_blocks_nobody(model: Path) -> None:
    for name in ("w.safetensors", "config.json", "LICENSE", "x.gguf"):
        (model / name).unlink(missing_ok=True)
        os.mkfifo(model / name)
    (model / "loop").symlink_to(model, target_is_directory=True)
    assert read_model_folder(model).pickle_only in {True, False}


@pytest.mark.parametrize(
    ("name", "text", "runs"),
    [
        ("preprocessor_config.json", '{"auto_map": {}}', True),
        ("config.json", '{"text_config": {"auto_map": {"AutoModel": "m.M"}}}', True),
        ("config.json", '{"architectures": ["M"]}', False),
        ("modules.json", '[{"type": "custom_st.Transformer"}]', True),
        ("modules.json", '[{"type": "sentence_transformers.models.Pooling"}]', False),
        ("model_index.json", '{"_class_name": ["pipeline", "Own"]}', True),
        ("model_index.json", '{"_class_name": "StableDiffusionPipeline"}', False),
    ],
)
def test_settings_that_import_python_are_remote_code(
    tmp_path: Path, name: str, text: str, *, runs: bool
) -> None:
    (tmp_path / name).write_text(text)
    assert read_model_folder(tmp_path).remote_code == runs


def test_one_licence_file_gives_the_hash_of_the_terms(
    tmp_path: Path, mit_text: str
) -> None:
    (tmp_path / "LICENSE").write_text(mit_text)
    digest = hashlib.sha256(mit_text.encode()).hexdigest()
    assert read_model_folder(tmp_path).terms_sha256 == digest
    (tmp_path / "LICENSE-2").write_text(mit_text)
    assert read_model_folder(tmp_path).terms_sha256 is None


def test_an_absent_or_ambiguous_folder_is_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(SourceError, match="no such folder"):
        read_model_folder(tmp_path / "nowhere")
    (model.parent / ("f" * 40)).mkdir()
    with pytest.raises(SourceError, match="2 snapshots"):
        read_model_folder(model.parent.parent)


def test_models_are_accepted_once_then_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed, receipts = tmp_path / "models.toml", tmp_path / "receipts.jsonl"
    listed.write_text(
        'schema = 1\n[[model]]\nid = "org/big"\nlicense = "CC-BY-NC-4.0"\ntier = 2\n'
    )
    words = ["org/big", "--allowlist", str(listed), "--receipts", str(receipts)]
    assert main(["models", "check", *words]) == 1
    assert main(["models", "accept", *words, "--by", "ada"]) == 0
    assert main(["models", "check", *words]) == 0
    assert main(["models", "check", *words, "--usage", "weights-commercial"]) == 1
    assert main(["models", "check", *words, "--strict"]) == 1
    assert "ALLOW  hf:org/big: CC-BY-NC-4.0" in capsys.readouterr().out
    assert main(["models", "accept", "o/x", *words[1:], "--by", "ada"]) == 1

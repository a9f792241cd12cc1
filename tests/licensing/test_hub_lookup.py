"""Looking a model up asks one address once, and proposes; it admits nothing."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.licensing import (
    Allowlist,
    MissingExtraError,
    ModelTier,
    SourceError,
    look_up_model,
    propose_entry,
)
from lazycore.licensing._cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA = "ab" * 32
ANSWERS: dict[str, dict[str, Any]] = {
    "org/big": {
        "cardData": {
            "license": "other",
            "license_name": "llama3.3",
            "license_link": "https://example.org/terms",
            "base_model": ["org/base"],
        },
        "gated": "manual",
        "tags": ["custom_code"],
        "siblings": [
            {
                "rfilename": "pytorch_model.bin",
                "size": 5,
                "lfs": {"size": 5, "sha256": SHA, "pointerSize": 1},
            },
            {"rfilename": "config.json", "size": 2},
        ],
    },
    "org/free": {"cardData": {"license": "apache-2.0"}, "gated": False, "tags": []},
    "org/bare": {"tags": []},
    "org/torn": {"cardData": {"license": ["mit", "gpl-3.0"]}, "tags": []},
}


class _Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.removeprefix("/api/models/").partition("?")[0]
        name = name.partition("/revision/")[0]
        found = ANSWERS.get(name)
        self.server.asked.append((self.path, self.headers.get("authorization")))  # type: ignore[attr-defined]
        body = json.dumps(
            {"id": name, "sha": COMMIT, **found} if found else {"error": "no"}
        ).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def hub() -> Iterator[http.server.ThreadingHTTPServer]:
    pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        server.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def address(hub: http.server.ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{hub.server_port}"


def test_facts_name_commit_licence_bases_and_hashes(
    hub: http.server.ThreadingHTTPServer,
) -> None:
    found = look_up_model("org/big@main", endpoint=address(hub))
    path, token = hub.asked[-1]  # type: ignore[attr-defined]
    assert path.startswith("/api/models/org/big/revision/main")
    assert token is None
    assert (found.model_id, found.revision) == ("hf:org/big", COMMIT)
    assert found.license_tag == "llama3.3"
    assert found.base_models == ("org/base",)
    assert (found.remote_code, found.pickle_only) == (True, True)
    assert found.files == (("pytorch_model.bin", SHA),)
    assert "gated (manual)" in found.problems[0]


def test_a_proposal_is_as_strict_as_the_table(
    hub: http.server.ThreadingHTTPServer,
) -> None:
    big = propose_entry(look_up_model("org/big", endpoint=address(hub)))
    assert (big.tier, big.revision) == (ModelTier.RESTRICTED, COMMIT)
    assert any("gated" in text for text in big.conditions)
    free = propose_entry(look_up_model("org/free", endpoint=address(hub)))
    assert (free.tier, free.license) == (ModelTier.PERMISSIVE, "Apache-2.0")
    for name in ("org/bare", "org/torn"):
        entry = propose_entry(look_up_model(name, endpoint=address(hub)))
        assert entry.tier is ModelTier.RESTRICTED


def test_a_proposal_is_printed_as_an_allowlist(
    hub: http.server.ThreadingHTTPServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["models", "look-up", "org/big", "--endpoint", address(hub)]
    assert main(words) == 3
    path = tmp_path / "models.toml"
    path.write_text(capsys.readouterr().out)
    (entry,) = Allowlist.load(path)
    assert entry.files == (("pytorch_model.bin", SHA),)
    words[2] = "org/free"
    assert main(words) == 0


def test_no_answer_is_said_in_one_line(hub: http.server.ThreadingHTTPServer) -> None:
    with pytest.raises(SourceError, match=r"hf:org/none: the hub gave no answer"):
        look_up_model("org/none", endpoint=address(hub))
    with pytest.raises(SourceError, match="gave no answer"):
        look_up_model("org/big", endpoint="http://127.0.0.1:9")
    with pytest.raises(SourceError, match="only models of the Hugging Face hub"):
        look_up_model("ollama:library/tiny")


def test_the_library_is_named_when_it_is_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"lazycore-licensing\[hub\]"):
        look_up_model("org/big")

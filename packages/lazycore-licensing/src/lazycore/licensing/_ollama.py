"""Read what a manifest of Ollama says: licence layers, weights, and their hashes.

Layout, from a local installation: ``models/manifests/<registry>/<namespace>/<name>/
<tag>`` is JSON that lists layers by media type and SHA-256; each layer lies in
``models/blobs/sha256-<hex>``.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

from lazycore.licensing import _readers
from lazycore.licensing._errors import ReaderError
from lazycore.licensing._expression import normalize
from lazycore.licensing._hub import hub_licenses
from lazycore.licensing._model_folder import ModelFacts
from lazycore.licensing._texts import identify

if TYPE_CHECKING:
    from pathlib import Path

_MEDIA: Final = "application/vnd.ollama.image."
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
_DEFAULT: Final = "registry.ollama.ai"
MAX_LAYERS: Final = 1_000
MAX_TERMS_BYTES: Final = 1_000_000


def read_manifest(path: Path) -> ModelFacts:
    """Read one manifest and the licence layers that it names.

    The hash of a licence text is that of its layer, so it is compared with the
    bytes before it counts as the hash of the terms.

    Raises:
        ReaderError: The file is no manifest.
    """
    found = _readers.read_json(path)
    layers = found.get("layers") if isinstance(found, dict) else None
    if not isinstance(layers, list) or len(layers) > MAX_LAYERS:
        raise ReaderError(f"{path}: no manifest of Ollama: it lists no layers")
    reader = _Manifest(path)
    for row in layers:
        if isinstance(row, dict):
            reader.layer(row)
    return reader.facts()


class _Manifest:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.blobs, self.model_id = _place(path)
        self.terms: list[str] = []
        self.stated: list[tuple[str, str | None]] = []
        self.tags: list[tuple[str, str]] = []
        self.bases: list[str] = []
        self.problems: list[str] = []

    def layer(self, row: dict[str, Any]) -> None:
        kind = str(row.get("mediaType", "")).removeprefix(_MEDIA).partition(";")[0]
        digest = str(row.get("digest", ""))
        if kind not in {"license", "model", "adapter"}:
            return
        if not _DIGEST.match(digest):
            self.problems.append(f"{self.path}: a {kind} layer has no SHA-256")
            return
        source = row.get("from")
        if isinstance(source, str) and source:
            self.bases.append(source)
        place = self.blobs / digest.replace(":", "-")
        try:
            if kind == "license":
                self._license(place, digest.removeprefix("sha256:"))
            elif kind == "model":
                self._weights(place)
        except (OSError, ReaderError) as error:
            self.problems.append(f"{kind} layer {digest[:19]}: {error}")

    def _license(self, place: Path, digest: str) -> None:
        if place.stat().st_size > MAX_TERMS_BYTES:
            raise ReaderError(f"{place}: more than {MAX_TERMS_BYTES} bytes")
        raw = place.read_bytes()
        if hashlib.sha256(raw).hexdigest() != digest:
            raise ReaderError(f"{place}: its bytes have another hash than its name")
        self.terms.append(digest)
        text = raw.decode("utf-8", "replace")
        ids = [match.id for match in identify(text).matches]
        head = next((line.strip() for line in text.splitlines() if line.strip()), "")
        self.stated.append((head[:100], ids[0] if len(ids) == 1 else None))

    def _weights(self, place: Path) -> None:
        with place.open("rb") as stream:
            if stream.read(4) != b"GGUF":
                return
        metadata = _readers.read_gguf(place)
        if tag := metadata.get("general.license"):
            self.tags.append((place.name[:19], tag))
        self.bases += [
            value
            for key, value in metadata.items()
            if key.startswith("general.base_model.") and key.endswith(".repo_url")
        ]

    def facts(self) -> ModelFacts:
        return ModelFacts(
            model_id=self.model_id,
            revision=None,  # a tag moves; the pin is the hash of each layer
            license=self._agreed(),
            license_tag=self.stated[0][0] if self.stated else None,
            license_link=None,
            base_models=tuple(dict.fromkeys(self.bases)),
            remote_code=False,
            pickle_only=False,
            statements=(
                *(("license layer", head) for head, _ in self.stated),
                *self.tags,
            ),
            problems=tuple(self.problems),
            terms_sha256=self.terms[0] if len(self.terms) == 1 else None,
        )

    def _agreed(self) -> str | None:
        """Join the licence layers; all of them hold. Weights that differ are said."""
        if any(text is None for _, text in self.stated):
            return None
        texts = list(dict.fromkeys(text for _, text in self.stated if text))
        for where, tag in self.tags:
            known = hub_licenses().get(tag.lower())
            expression = normalize(known.expression if known else tag)
            if texts and str(expression) not in texts:
                said = f"the licences disagree: layers say {' AND '.join(texts)}"
                self.problems.append(f"{said}, {where} says {tag[:80]}")
                return None
            if not texts and expression is not None:
                return str(expression)
        return " AND ".join(texts) or None


def _place(path: Path) -> tuple[Path, str | None]:
    """Return the folder of blobs and the model's id, from where a manifest lies."""
    parents = list(path.absolute().parents)
    for number, folder in enumerate(parents):
        if folder.name == "manifests":
            parts = path.absolute().relative_to(folder).parts[:-1]
            names = [part for part in parts if part != _DEFAULT]
            named = number >= 1 and len(names) >= 1
            return (
                folder.parent / "blobs",
                f"ollama:{'/'.join(names)}" if named else None,
            )
    return path.parent / "blobs", None

"""Collect what a model's own files say: licence, bases, remote code, pickles."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lazycore.licensing import _readers
from lazycore.licensing._errors import ReaderError, SourceError
from lazycore.licensing._expression import normalize
from lazycore.licensing._hub import hub_licenses
from lazycore.licensing._model_ids import is_commit
from lazycore.licensing._texts import identify
from lazycore.licensing._weights import MAX_FILES, PICKLES, SAFE, model_files

if TYPE_CHECKING:
    import os

# Settings that may name Python of the repository.
_SETTINGS: Final = (
    *("config.json", "tokenizer_config.json", "processor_config.json"),
    *("preprocessor_config.json", "video_preprocessor_config.json"),
    *("generation_config.json", "modules.json", "model_index.json"),
)
_MAX_TERMS_BYTES: Final = 400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What the files of one checkpoint state.

    Attributes:
        model_id: ``hf:org/name`` when the folder lies in a hub cache.
        revision: The commit, when the folder is a snapshot of a hub cache.
        license: SPDX text of the stated licence; None when unknown or ambiguous.
        license_tag: The tag or name as it was written.
        license_link: Where the card says that the terms are.
        base_models: What it says it was made from.
        remote_code: Whether loading it would run Python from the repository.
        pickle_only: Whether its weights exist only in formats that run code.
        statements: (file, what it states) pairs.
        problems: Sentences: files that disagree or can't be read.
        terms_sha256: Hash of its licence file, when there is exactly one.
        files: (path, SHA-256) pairs, where they are known without hashing.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Path(folder, "weights.bin").touch()
        ...     facts = read_model_folder(folder)
        >>> facts.pickle_only, facts.license
        (True, None)
    """

    model_id: str | None
    revision: str | None
    license: str | None
    license_tag: str | None
    license_link: str | None
    base_models: tuple[str, ...]
    remote_code: bool
    pickle_only: bool
    statements: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]
    terms_sha256: str | None = None
    files: tuple[tuple[str, str], ...] = ()


def read_model_folder(path: str | os.PathLike[str]) -> ModelFacts:
    r"""Read a model folder: card, weights' metadata, adapter and code settings.

    No weight is loaded and nothing is executed.

    Args:
        path: A model folder, a ``models--org--name`` folder of a hub cache with one
            snapshot, or a manifest of Ollama (a file below ``models/manifests``).

    Raises:
        SourceError: The folder is absent or its cache holds several snapshots.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "README.md").write_text("---\nlicense: mit\n---\n")
        ...     read_model_folder(folder).license
        'MIT'
    """
    folder = Path(path)
    if folder.is_file():
        from lazycore.licensing._ollama import read_manifest

        return read_manifest(folder)
    if not folder.is_dir():
        raise SourceError(f"{folder}: no such folder")
    snapshots = folder / "snapshots"
    if snapshots.is_dir():
        found = sorted(entry for entry in snapshots.iterdir() if entry.is_dir())
        if len(found) != 1:
            raise SourceError(
                f"{folder}: {len(found)} snapshots; give one of them by its folder"
            )
        folder = found[0]
    return _Scan(folder).facts()


class _Scan:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tags: list[tuple[str, str]] = []
        self.names: list[str] = []
        self.links: list[str] = []
        self.bases: list[str] = []
        self.problems: list[str] = []
        self.remote_code = False
        self.suffixes: set[str] = set()
        self.terms: list[str] = []

    def facts(self) -> ModelFacts:
        self._card()
        self._settings()
        self._weights()
        stated = self._license()
        model_id, revision = self._cache()
        return ModelFacts(
            model_id=model_id,
            revision=revision,
            license=stated,
            license_tag=self.tags[0][1] if self.tags else None,
            license_link=self.links[0] if self.links else None,
            base_models=tuple(dict.fromkeys(self.bases)),
            remote_code=self.remote_code,
            pickle_only=bool(self.suffixes & PICKLES) and not self.suffixes & SAFE,
            statements=tuple(self.tags),
            problems=tuple(self.problems),
            terms_sha256=self.terms[0] if len(self.terms) == 1 else None,
        )

    def _cache(self) -> tuple[str | None, str | None]:
        """Read id and commit from ``models--org--name/snapshots/<commit>``."""
        if self.folder.parent.name != "snapshots":
            return None, None
        repository = self.folder.parent.parent.name
        kind, _, rest = repository.partition("--")
        name = rest.replace("--", "/") if kind == "models" and rest else None
        revision = self.folder.name if is_commit(self.folder.name) else None
        return (f"hf:{name}" if name else None), revision

    def _card(self) -> None:
        card = self.folder / "README.md"
        if not card.is_file():
            return
        try:
            found = _readers.read_card(card)
        except (ReaderError, OSError) as error:
            self.problems.append(str(error))
            return
        self.tags += [("README.md", tag) for tag in found.get("license", [])]
        self.names += found.get("license_name", [])
        self.links += found.get("license_link", [])
        self.bases += found.get("base_model", [])

    def _settings(self) -> None:
        for name in _SETTINGS:
            self.remote_code |= _runs_code(name, self._json(name))
        adapter = self._json("adapter_config.json").get("base_model_name_or_path")
        if isinstance(adapter, str) and adapter:
            self.bases.append(adapter)

    def _json(self, name: str) -> dict[str, Any]:
        place = self.folder / name
        if not place.is_file():
            return {}
        try:
            found = _readers.read_json(place)
        except (ReaderError, OSError) as error:
            self.problems.append(str(error))
            return {}
        if isinstance(found, dict):
            return found
        if name != "modules.json":
            self.problems.append(f"{place}: not a JSON object")
        return {"": found}

    def _weights(self) -> None:
        places = model_files(self.folder)
        if len(places) > MAX_FILES:
            self.problems.append(f"more than {MAX_FILES} files; the rest is unread")
        for place in places[:MAX_FILES]:
            suffix = place.suffix.lower()
            if suffix in PICKLES | SAFE:
                self.suffixes.add(suffix)
            try:
                if suffix == ".safetensors":
                    self._stated(place, _readers.read_safetensors(place), "license")
                elif suffix == ".gguf":
                    self._gguf(place)
            except (ReaderError, OSError) as error:
                self.problems.append(str(error))

    def _stated(self, place: Path, metadata: dict[str, str], key: str) -> None:
        if key in metadata:
            self.tags.append((place.name, metadata[key]))

    def _gguf(self, place: Path) -> None:
        metadata = _readers.read_gguf(place)
        self._stated(place, metadata, "general.license")
        if name := metadata.get("general.license.name"):
            self.names.append(name)
        if link := metadata.get("general.license.link"):
            self.links.append(link)
        self.bases += [
            value
            for key, value in metadata.items()
            if key.startswith("general.base_model.") and key.endswith(".repo_url")
        ]

    def _license(self) -> str | None:
        """Return the licence that all statements agree on."""
        found = {}
        for where, tag in [*self.tags, *(("license_name", n) for n in self.names)]:
            known = hub_licenses().get(tag.lower())
            expression = normalize(known.expression if known else tag)
            if tag.lower() in {"other", "unknown"}:
                continue  # the name, the link or the file says more
            found[where] = str(expression) if expression else f"unknown: {tag:.60}"
        for place in sorted(self.folder.glob("LICENSE*")):
            if place.is_file():
                raw = place.read_bytes() if _is_short(place) else b""
                self.terms.append(hashlib.sha256(raw).hexdigest())
                ids = [
                    match.id for match in identify(raw.decode(errors="replace")).matches
                ]
                if len(ids) == 1:
                    found[place.name] = ids[0]
        values = sorted(set(found.values()))
        if len(values) > 1:
            said = "; ".join(f"{where} says {what}" for where, what in found.items())
            self.problems.append(f"the licences disagree: {said}")
            return None
        return values[0] if values and not values[0].startswith("unknown:") else None


def _is_short(place: Path) -> bool:
    return place.stat().st_size <= _MAX_TERMS_BYTES


def _runs_code(name: str, found: dict[str, Any]) -> bool:
    """Tell whether settings make a library import Python of the repository."""
    if name == "modules.json":  # sentence-transformers: a list of modules
        rows = found.get("", [])
        kinds = [row.get("type") for row in rows if isinstance(row, dict)]
        return any(not str(kind).startswith("sentence_transformers.") for kind in kinds)
    if name == "model_index.json":  # diffusers: [module, class] or a custom pipeline
        pipeline = found.get("_class_name")
        return isinstance(pipeline, list)
    return _mentions(found, "auto_map")


def _mentions(found: dict[str, Any], key: str) -> bool:
    """Look for a key at every depth: parts of a model have settings of their own."""
    work: list[Any] = [found]
    while work:
        item = work.pop()
        if isinstance(item, dict):
            if key in item:
                return True
            work += item.values()
        elif isinstance(item, list):
            work += item
    return False

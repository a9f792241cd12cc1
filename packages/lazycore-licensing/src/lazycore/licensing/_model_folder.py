"""Collect what a model's own files say: licence, bases, remote code, pickles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lazycore.licensing import _readers
from lazycore.licensing._errors import ReaderError, SourceError
from lazycore.licensing._expression import normalize
from lazycore.licensing._hub import hub_licenses
from lazycore.licensing._model_ids import is_commit
from lazycore.licensing._texts import identify

if TYPE_CHECKING:
    import os

MAX_FILES: Final = 20_000
# Formats that run code while they load (Python's pickle underneath).
PICKLES: Final = frozenset(
    (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy")
)
SAFE: Final = frozenset((".safetensors", ".gguf", ".onnx"))


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


def read_model_folder(path: str | os.PathLike[str]) -> ModelFacts:
    """Read a model folder: card, weights' metadata, adapter and code settings.

    No weight is loaded and nothing is executed.

    Args:
        path: A model folder, or a ``models--org--name`` folder of a hub cache with
            one snapshot.

    Raises:
        SourceError: The folder is absent or its cache holds several snapshots.
    """
    folder = Path(path)
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
        for name in ("config.json", "tokenizer_config.json", "processor_config.json"):
            self.remote_code |= "auto_map" in self._json(name)
        adapter = self._json("adapter_config.json").get("base_model_name_or_path")
        if isinstance(adapter, str) and adapter:
            self.bases.append(adapter)

    def _json(self, name: str) -> dict[str, object]:
        place = self.folder / name
        if not place.is_file():
            return {}
        try:
            return _readers.read_json(place)
        except (ReaderError, OSError) as error:
            self.problems.append(str(error))
            return {}

    def _weights(self) -> None:
        for number, place in enumerate(sorted(self.folder.rglob("*"))):
            if number >= MAX_FILES:
                self.problems.append(f"more than {MAX_FILES} files; the rest is unread")
                break
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
                with place.open("rb") as stream:
                    text = stream.read(400_000).decode("utf-8", "replace")
                ids = [match.id for match in identify(text).matches]
                if len(ids) == 1:
                    found[place.name] = ids[0]
        values = sorted(set(found.values()))
        if len(values) > 1:
            said = "; ".join(f"{where} says {what}" for where, what in found.items())
            self.problems.append(f"the licences disagree: {said}")
            return None
        return values[0] if values and not values[0].startswith("unknown:") else None

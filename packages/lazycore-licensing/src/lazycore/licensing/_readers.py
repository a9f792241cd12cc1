"""Read licences and risks out of model files, within fixed limits."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from lazycore.licensing._errors import ReaderError

if TYPE_CHECKING:
    import os

MAX_HEADER_BYTES: Final = 100_000_000  # safetensors' own limit
MAX_CARD_BYTES: Final = 1_000_000
MAX_JSON_BYTES: Final = 16_000_000
MAX_GGUF_KEYS: Final = 100_000
MAX_GGUF_STRING: Final = 1_000_000
MAX_GGUF_ARRAY: Final = 10_000_000
_KEYS: Final = frozenset(
    (
        *("license", "license_name", "license_link", "base_model"),
        *("base_model_relation", "datasets", "extra_gated_prompt"),
    )
)


def read_card(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read the licence keys of a model card's front matter.

    Only the subset of YAML that these keys use is understood: a scalar, a flow list
    or a block list. Anything else under a key reads as no value.

    Raises:
        ReaderError: The front matter is never closed.
        OSError: The file can't be read.
    """
    with Path(path).open("rb") as stream:
        text = stream.read(MAX_CARD_BYTES).decode("utf-8", "replace")
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    end = next((n for n, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
    if not end:
        raise ReaderError(f"{path}: the front matter is never closed by ---")
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines[1:end]:
        top = re.match(r"([A-Za-z_][\w-]*)\s*:\s*(.*)$", line)
        if top is not None:
            current = found.setdefault(top[1], []) if top[1] in _KEYS else None
            if current is not None:
                current += _scalars(top[2])
            continue
        item = re.match(r"\s*-\s+(.*)$", line)
        if item is not None and current is not None:
            current += _scalars(item[1])
    return {key: values for key, values in found.items() if values}


def _scalars(text: str) -> list[str]:
    text = re.sub(r"\s+#.*$", "", text).strip()
    if text in {"", "|", ">", "|-", ">-", "null", "~"}:
        return []
    if text.startswith("[") and text.endswith("]"):
        return [part for one in text[1:-1].split(",") for part in _scalars(one)]
    if text[:1] in {'"', "'"} and text[-1:] == text[:1] and len(text) > 1:
        text = text[1:-1]
    return [text]


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a small JSON object.

    Raises:
        ReaderError: It is too large, no JSON, or no object.
    """
    place = Path(path)
    if place.stat().st_size > MAX_JSON_BYTES:
        raise ReaderError(f"{path}: more than {MAX_JSON_BYTES} bytes")
    try:
        found = json.loads(place.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ReaderError(f"{path}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ReaderError(f"{path}: not a JSON object")
    return found


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the ``__metadata__`` of a safetensors file; tensors are not touched.

    The file begins with the length of a JSON header, eight bytes little-endian
    (format description of the safetensors project).

    Raises:
        ReaderError: The header is cut off, too long for its file, or no JSON.
    """
    place = Path(path)
    size = place.stat().st_size
    with place.open("rb") as stream:
        raw = stream.read(8)
        if len(raw) < 8:
            raise ReaderError(f"{path}: too short for a safetensors file")
        (length,) = struct.unpack("<Q", raw)
        # Checked against the file before anything is allocated.
        if length > min(MAX_HEADER_BYTES, size - 8):
            raise ReaderError(f"{path}: a header of {length} bytes does not fit")
        body = stream.read(length)
    try:
        header = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ReaderError(f"{path}: the header is no JSON: {error}") from error
    metadata = header.get("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict):
        raise ReaderError(f"{path}: the header has no table of metadata")
    return {str(k): v for k, v in metadata.items() if isinstance(v, str)}


# GGUF value types (ggml, docs/gguf.md): bytes per value of the fixed ones.
_GGUF_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1} | dict.fromkeys(
    (10, 11, 12), 8
)
_GGUF_STRING, _GGUF_ARRAY = 8, 9


def read_gguf(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the ``general.*`` texts of a GGUF file; tensors are not touched.

    Versions 2 and 3 are read (version 1 had 32-bit lengths).

    Raises:
        ReaderError: It is no GGUF file, cut off, or claims absurd counts.
    """
    place = Path(path)
    with place.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise ReaderError(f"{path}: no GGUF file")
        reader = _Gguf(stream, place.stat().st_size, str(path))
        version = reader.number("<I")
        if version not in {2, 3}:
            raise ReaderError(
                f"{path}: GGUF version {version} is not read, only 2 and 3"
            )
        reader.number("<Q")  # tensors
        count = reader.number("<Q")
        if count > MAX_GGUF_KEYS:
            raise ReaderError(f"{path}: claims {count} keys")
        found = {}
        for _ in range(count):
            key = reader.text()
            value = reader.value(reader.number("<I"))
            if value is not None and key.startswith("general."):
                found[key] = value
    return found


class _Gguf:
    """A cursor that checks every length against the file before it reads."""

    def __init__(self, stream: BinaryIO, size: int, path: str) -> None:
        self.stream = stream
        self.size = size
        self.path = path

    def take(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) != count:
            raise ReaderError(f"{self.path}: cut off")
        return data

    def skip(self, count: int) -> None:
        if self.stream.tell() + count > self.size:
            raise ReaderError(f"{self.path}: cut off")
        self.stream.seek(count, 1)

    def number(self, kind: str) -> int:
        (value,) = struct.unpack(kind, self.take(struct.calcsize(kind)))
        return int(value)

    def text(self) -> str:
        length = self.number("<Q")
        if length > MAX_GGUF_STRING:
            raise ReaderError(f"{self.path}: claims a text of {length} bytes")
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int) -> str | None:
        if kind == _GGUF_STRING:
            return self.text()
        if kind in _GGUF_SIZES:
            self.skip(_GGUF_SIZES[kind])
            return None
        if kind != _GGUF_ARRAY:
            raise ReaderError(f"{self.path}: value type {kind} is unknown")
        inner, count = self.number("<I"), self.number("<Q")
        if count > MAX_GGUF_ARRAY:
            raise ReaderError(f"{self.path}: claims {count} values")
        if inner in _GGUF_SIZES:
            self.skip(_GGUF_SIZES[inner] * count)
        elif inner == _GGUF_STRING:
            for _ in range(count):
                self.skip(self.number("<Q"))
        else:
            raise ReaderError(f"{self.path}: arrays of type {inner} are not read")
        return None

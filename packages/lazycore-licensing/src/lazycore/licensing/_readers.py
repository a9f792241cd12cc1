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

# safetensors itself stops at 100 MB; headers of real shards are below 2 MB.
MAX_HEADER_BYTES: Final = 32_000_000
MAX_TENSORS: Final = 200_000
MAX_TENSOR_CHARACTERS: Final = 65_536
MAX_METADATA_CHARACTERS: Final = 4_000_000
MAX_CARD_BYTES: Final = 1_000_000
MAX_JSON_BYTES: Final = 8_000_000
MAX_LINE_CHARACTERS: Final = 2_000
MAX_GGUF_KEYS: Final = 100_000
MAX_GGUF_STRING: Final = 1_000_000
MAX_GGUF_ARRAY: Final = 10_000_000
MAX_GGUF_TEXTS: Final = 4_000_000  # strings in all arrays together
MAX_GGUF_KEPT: Final = 8_000_000  # characters of all values together
_KEYS: Final = frozenset(
    (
        *("license", "license_name", "license_link", "base_model"),
        *("base_model_relation", "datasets", "extra_gated_prompt"),
    )
)


def read_card(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    r"""Read the licence keys of a model card's front matter.

    Only the subset of YAML that these keys use is understood: a scalar, a flow list
    or a block list. Anything else under a key reads as no value.

    Raises:
        ReaderError: The front matter is never closed.
        OSError: The file can't be read.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     card = Path(folder, "README.md")
        ...     _ = card.write_text("---\nlicense: mit\ntags: [a]\n---\n")
        ...     read_card(card)
        {'license': ['mit']}
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
    for whole in lines[1:end]:
        # The patterns below are quadratic in blanks; no licence is that long.
        line = whole[:MAX_LINE_CHARACTERS]
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
    text = re.sub(r"(?<!\s)\s++#.*$", "", text).strip()
    if text in {"", "|", ">", "|-", ">-", "null", "~"}:
        return []
    if text.startswith("[") and text.endswith("]"):
        return [part for one in text[1:-1].split(",") for part in _scalars(one)]
    if text[:1] in {'"', "'"} and text[-1:] == text[:1] and len(text) > 1:
        text = text[1:-1]
    return [text]


def read_json(path: str | os.PathLike[str]) -> dict[str, Any] | list[Any]:
    """Read a small JSON object or list.

    Raises:
        ReaderError: It is too large, no JSON, or neither.
    """
    place = Path(path)
    if place.stat().st_size > MAX_JSON_BYTES:
        raise ReaderError(f"{path}: more than {MAX_JSON_BYTES} bytes")
    try:
        found = json.loads(place.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ReaderError(f"{path}: not JSON: {error}") from error
    if not isinstance(found, dict | list):
        raise ReaderError(f"{path}: neither a JSON object nor a list")
    return found


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the ``__metadata__`` of a safetensors file; tensors are not touched.

    The file begins with the length of a JSON header, eight bytes little-endian
    (format description of the safetensors project).

    Raises:
        ReaderError: The header is cut off, too long for its file, or no JSON.

    Examples:
        >>> import tempfile
        >>> header = b'{"__metadata__": {"license": "mit"}}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     weights = Path(folder, "model.safetensors")
        ...     _ = weights.write_bytes(struct.pack("<Q", len(header)) + header)
        ...     read_safetensors(weights)
        {'license': 'mit'}
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
        metadata = _metadata(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ReaderError(f"{path}: the header is no JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise ReaderError(f"{path}: the header has no table of metadata")
    return {str(k): v for k, v in metadata.items() if isinstance(v, str)}


_BLANK: Final = re.compile(r"[ \t\r\n]*")


def _metadata(text: str) -> object:
    """Return ``__metadata__`` of a header without building the rest of it.

    Millions of empty lists in a header would cost twenty times its bytes, so each
    member is decoded alone, from a slice, and dropped.
    """
    decoder = json.JSONDecoder()

    def after(position: int, wanted: str) -> tuple[str, int]:
        place = _BLANK.match(text, position).end()  # type: ignore[union-attr]
        found = text[place : place + 1]
        if not found or found not in wanted:
            message = f"expected {wanted!r} at character {place}"
            raise ValueError(message)
        return found, place + 1

    _, position = after(0, "{")
    if _BLANK.sub("", text[position : position + 64])[:1] == "}":
        return {}
    for _ in range(MAX_TENSORS):
        _, position = after(position, '"')
        key, length = _decoded(decoder, text, position - 1, MAX_TENSOR_CHARACTERS)
        _, position = after(length, ":")
        own = key == "__metadata__"
        limit = MAX_METADATA_CHARACTERS if own else MAX_TENSOR_CHARACTERS
        value, position = _decoded(decoder, text, position, limit)
        if own:
            return value
        sign, position = after(position, ",}")
        if sign == "}":
            return {}
    message = f"more than {MAX_TENSORS} tensors"
    raise ValueError(message)


def _decoded(
    decoder: json.JSONDecoder, text: str, position: int, limit: int
) -> tuple[Any, int]:
    """Decode one value at a position; most are short, so a short slice comes first."""
    start = _BLANK.match(text, position).end()  # type: ignore[union-attr]
    for size in (512, limit):
        try:
            value, end = decoder.raw_decode(text[start : start + size])
        except ValueError:
            if size == limit:
                raise
            continue
        # A number at the end of a slice may go on behind it.
        if end < size or start + end == len(text):
            return value, start + end
    message = f"a value at character {start} is longer than {limit}"
    raise ValueError(message)


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

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     weights = Path(folder, "model.gguf")
        ...     _ = weights.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
        ...     read_gguf(weights)
        {}
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
                reader.keep(key, value)
                found[key] = value
    return found


class _Gguf:
    """A cursor that checks every length against the file before it reads."""

    def __init__(self, stream: BinaryIO, size: int, path: str) -> None:
        self.stream = stream
        self.size = size
        self.path = path
        self.kept = 0
        self.texts = 0

    def keep(self, *texts: str) -> None:
        self.kept += sum(map(len, texts))
        if self.kept > MAX_GGUF_KEPT:
            raise ReaderError(f"{self.path}: its texts exceed {MAX_GGUF_KEPT}")

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
            self.texts += count
            if self.texts > MAX_GGUF_TEXTS:
                raise ReaderError(f"{self.path}: claims {self.texts} texts")
            for _ in range(count):
                self.skip(self.number("<Q"))
        else:
            raise ReaderError(f"{self.path}: arrays of type {inner} are not read")
        return None

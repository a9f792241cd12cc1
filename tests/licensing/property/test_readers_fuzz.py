"""Arbitrary bytes never crash a reader and never make it allocate what they claim."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lazycore.licensing import (
    ReaderError,
    identify,
    normalize,
    read_card,
    read_gguf,
    read_safetensors,
)
from lazycore.licensing._metadata import read_metadata
from lazycore.licensing._names import from_names

READERS = [read_card, read_gguf, read_safetensors]
PREFIXES = [b"", b"GGUF\x03\0\0\0", b"\x10\0\0\0\0\0\0\0{", b"---\nlicense: "]


@given(st.sampled_from(PREFIXES), st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_refused(prefix: bytes, tail: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(prefix + tail)
        for reader in READERS:
            try:
                found = reader(path)
            except ReaderError as error:
                assert str(path) in str(error)  # noqa: PT017 - either outcome is fine
            else:
                assert isinstance(found, dict)


@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_metadata_and_any_name_is_total(text: str) -> None:
    metadata = read_metadata(text)
    assert isinstance(metadata.description, str)
    identify(text)
    named = from_names(text)
    assert named is None or normalize(named) is not None

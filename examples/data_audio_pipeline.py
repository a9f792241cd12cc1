"""Decode FLAC files on threads into batches; the decoder is soundfile if installed."""

from __future__ import annotations

import io
import sys
from typing import Any

from lazycore.data import Batch, DenseMediaPipeline, item_random

try:
    import numpy as np
    import soundfile
except ImportError as error:
    print(f"nothing shown: {error.name} is not installed")
    sys.exit()


class Clips(DenseMediaPipeline[Any]):
    """Decodes a clip, takes a random second of it and hands it over."""

    def decode(self, raw: bytes) -> Any:
        """Return the samples as float32."""
        return soundfile.read(io.BytesIO(raw), dtype="float32")[0]

    def augment(self, decoded: Any) -> Any:
        """Return 8,000 samples from a random place."""
        start = item_random().randrange(len(decoded) - 8000)
        return decoded[start : start + 8000]

    def to_dense_tensor(self, augmented: Any) -> Any:
        """Return the samples in memory of their own."""
        return np.ascontiguousarray(augmented)


def clip(seed: int) -> bytes:
    """Return two seconds of noise as a FLAC file."""
    samples = np.random.default_rng(seed).normal(0, 0.1, 16_000)
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, 8000, format="FLAC")
    return buffer.getvalue()


files = [clip(seed) for seed in range(32)]
for batch in Clips().run_many(files, batch=8, workers=2):
    assert isinstance(batch, Batch)
    print(f"items {batch.indices[0]} to {batch.indices[-1]}: {batch.value.shape}")

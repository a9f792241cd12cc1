"""Decode JPEG files on threads into batches; the decoder is simplejpeg if installed."""

from __future__ import annotations

import sys
from typing import Any

from lazycore.data import Batch, DenseMediaPipeline, item_random
from lazycore.data.testing import check_media_pipeline

try:
    import numpy as np
    import simplejpeg
except ImportError as error:
    print(f"nothing shown: {error.name} is not installed")
    sys.exit()


class Pictures(DenseMediaPipeline[Any]):
    """Decodes a picture, crops it at random and hands it over."""

    def decode(self, raw: bytes) -> Any:
        """Return the picture; simplejpeg raises on damaged files."""
        return simplejpeg.decode_jpeg(raw)

    def augment(self, decoded: Any) -> Any:
        """Return a random crop of 64 by 64."""
        rng = item_random()
        top, left = rng.randrange(32), rng.randrange(32)
        return decoded[top : top + 64, left : left + 64]

    def to_dense_tensor(self, augmented: Any) -> Any:
        """Return the crop in memory of its own."""
        return np.ascontiguousarray(augmented)


rng = np.random.default_rng(0)
files = [
    simplejpeg.encode_jpeg(rng.integers(0, 255, (96, 96, 3), dtype=np.uint8))
    for _ in range(64)
]
for batch in Pictures().run_many(files, batch=16, workers=2):
    assert isinstance(batch, Batch)
    print(f"items {batch.indices[0]} to {batch.indices[-1]}: {batch.value.shape}")
print(f"{len(check_media_pipeline(Pictures(), files[:1]))} checks passed")

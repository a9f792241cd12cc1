"""The media kit passes a sound pipeline and names what is wrong with the others."""

from __future__ import annotations

import itertools
import random
import threading
import zlib
from typing import Any

import pytest

from lazycore.data import ConformanceError, DenseMediaPipeline, item_random
from lazycore.data.testing import check_media_pipeline

np: Any = pytest.importorskip("numpy", reason="numpy is not installed")
SAMPLE = zlib.compress(bytes(range(240)))


class Sound(DenseMediaPipeline[Any]):
    def decode(self, raw: bytes) -> Any:
        return np.frombuffer(zlib.decompress(raw), "u1").reshape(8, 10, 3)

    def augment(self, decoded: Any) -> Any:
        return decoded + np.uint8(item_random().randrange(9))

    def to_dense_tensor(self, augmented: Any) -> Any:
        return augmented


class HalfGrey(Sound):
    def decode(self, raw: bytes) -> Any:
        pixels = np.full(240, 128, "u1")
        try:
            found = zlib.decompressobj().decompress(raw)
        except zlib.error:
            found = b""
        pixels[: len(found)] = np.frombuffer(found, "u1")
        return pixels.reshape(8, 10, 3)


class TakesNothing(Sound):
    def decode(self, raw: bytes) -> Any:
        return super().decode(raw) if raw else np.zeros((8, 10, 3), "u1")


class Flips(Sound):
    def augment(self, decoded: Any) -> Any:
        return super().augment(decoded)[:, ::-1]


class ReadOnly(Sound):
    def augment(self, decoded: Any) -> Any:
        return decoded


class Objects(Sound):
    def to_dense_tensor(self, augmented: Any) -> Any:
        return augmented.astype(object)


class Lists(Sound):
    def to_dense_tensor(self, augmented: Any) -> Any:
        return augmented.tolist()


class Refuses(Sound):
    def decode(self, raw: bytes) -> Any:
        raise OSError(f"{len(raw)} bytes are too few")


class ReturnsNone(Sound):
    def decode(self, raw: bytes) -> Any:
        del raw


class OwnRandomness(Sound):
    def augment(self, decoded: Any) -> Any:
        return decoded + np.uint8(random.randrange(200))


class Counts(Sound):
    counter = itertools.count()

    def augment(self, decoded: Any) -> Any:
        return decoded + np.uint8(next(self.counter) % 200)


class OneBuffer(Sound):
    """Reuses one array for every item, so earlier items change."""

    buffer = np.zeros((8, 10, 3), "u1")
    lock = threading.Lock()

    def to_dense_tensor(self, augmented: Any) -> Any:
        with self.lock:
            self.buffer[:] = augmented
        return self.buffer


def test_a_sound_pipeline_passes_every_check() -> None:
    assert len(check_media_pipeline(Sound(), [SAMPLE, SAMPLE])) == 8


@pytest.mark.parametrize(
    ("wrong", "finding"),
    [
        (HalfGrey, "cut at half.* came out as a tensor"),
        (HalfGrey, "cut at 99 %.* came out as a tensor"),
        (HalfGrey, "noise.* came out as a tensor"),
        (TakesNothing, "empty.* came out as a tensor"),
        (Flips, "negative stride"),
        (ReadOnly, "read-only"),
        (Objects, "dtype object"),
        (Lists, "no __dlpack__"),
        (Refuses, "too few"),
        (ReturnsNone, "None"),
        (OwnRandomness, "same tensors under any number of workers"),
        (Counts, "same tensors under any number of workers"),
        (OneBuffer, "memory of another item"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_kit_names_what_a_wrong_pipeline_breaks(wrong: Any, finding: str) -> None:
    with pytest.raises(ConformanceError, match=finding):
        check_media_pipeline(wrong(), [SAMPLE])


def test_the_kit_wants_a_sound_sample() -> None:
    with pytest.raises(ConformanceError, match="at least one"):
        check_media_pipeline(Sound(), [])

"""A thousand damaged JPEGs through real decoders: no crash, none lost."""

from __future__ import annotations

import io
import random
import zlib
from typing import Any

import pytest

from lazycore.data import ConformanceError, DenseMediaPipeline, Failure, Item
from lazycore.data.testing import check_media_pipeline

np: Any = pytest.importorskip("numpy", reason="numpy is not installed")
image: Any = pytest.importorskip("PIL.Image", reason="pillow is not installed")
MODES = ("cut", "one bit", "20 bits", "200 bits", "zeros", "hole")


class Pillow(DenseMediaPipeline[Any]):
    def decode(self, raw: bytes) -> Any:
        with image.open(io.BytesIO(raw)) as picture:
            return np.array(picture.convert("RGB"))

    def augment(self, decoded: Any) -> Any:
        return decoded

    def to_dense_tensor(self, augmented: Any) -> Any:
        return augmented


class SimpleJpeg(Pillow):
    def decode(self, raw: bytes) -> Any:
        decoder = pytest.importorskip(
            "simplejpeg", reason="simplejpeg is not installed"
        )
        return decoder.decode_jpeg(raw)


class Checked(Pillow):
    """Checks a sum in front of each file, since a JPEG carries none."""

    def decode(self, raw: bytes) -> Any:
        if zlib.crc32(raw[4:]).to_bytes(4, "big") != raw[:4]:
            raise ValueError("the sum differs: the file is damaged")
        return super().decode(raw[4:])


def photo() -> bytes:
    rng = np.random.default_rng(0)
    ramp = np.add.outer(np.arange(96), np.arange(96))[..., None]
    pixels = np.clip(ramp + rng.integers(0, 60, (96, 96, 3)), 0, 255)
    buffer = io.BytesIO()
    image.fromarray(pixels.astype("u1")).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def damage(raw: bytes, mode: str, rng: random.Random) -> bytes:
    broken = bytearray(raw)
    if mode == "cut":
        return raw[: rng.randrange(1, len(raw) - 2)]
    at = rng.randrange(len(raw) - 100)
    if mode == "zeros":
        broken[at : at + 100] = bytes(100)
    elif mode == "hole":
        del broken[at : at + 100]
    else:
        count = {"one bit": 1, "20 bits": 20, "200 bits": 200}[mode]
        for _ in range(count):
            broken[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(broken)


def thousand(raw: bytes) -> list[bytes]:
    rng = random.Random(7)
    return [damage(raw, MODES[k % len(MODES)], rng) for k in range(1000)]


@pytest.mark.filterwarnings("ignore")  # Pillow's own words about damaged files
@pytest.mark.parametrize("decoder", [Pillow, SimpleJpeg])
def test_every_damaged_file_is_a_record_or_a_whole_array(decoder: type[Pillow]) -> None:
    raws = thousand(photo())
    if decoder is SimpleJpeg:
        pytest.importorskip("simplejpeg", reason="simplejpeg is not installed")
    found: list[Any] = list(decoder().run_many(raws, workers=4, on_error="yield"))
    assert [entry.index for entry in found] == list(range(1000))
    for index in range(0, 1000, len(MODES)):
        assert isinstance(found[index], Failure), f"a cut file {index} came out"
    pictures = [entry for entry in found if isinstance(entry, Item)]
    assert all(entry.value.dtype == np.uint8 for entry in pictures)
    failures = [entry for entry in found if isinstance(entry, Failure)]
    assert {failure.stage for failure in failures} == {"decode"}


@pytest.mark.filterwarnings("ignore")  # as above
def test_a_sum_beside_each_file_lets_no_damaged_picture_through() -> None:
    good = photo()
    summed = zlib.crc32(good).to_bytes(4, "big") + good
    wanted = Pillow().run(good)
    found = list(Checked().run_many(thousand(summed), workers=4, on_error="yield"))
    wrong = [
        entry
        for entry in found
        if isinstance(entry, Item) and not np.array_equal(entry.value, wanted)
    ]
    assert (len(found), wrong) == (1000, [])


@pytest.mark.filterwarnings("ignore")  # as above
def test_the_kit_names_a_decoder_of_half_grey_pictures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_media_pipeline(Pillow(), [photo()])
    # As many scripts set Pillow up: what is missing stays grey.
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(ConformanceError, match=r"cut at half.* came out as a tensor"):
        check_media_pipeline(Pillow(), [photo()])

"""A JPEG pipeline: share of the decode limit beside loaders that install.

    python benchmarks/media.py [--images 256] [--rounds 4] [--json]

The limit is what independent processes decode, one per worker, nothing else done. On
a busy machine compare processor times: they say what a loader adds to decoding.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    import numpy as np
    import simplejpeg
except ImportError as error:
    print(f"nothing measured: {error.name} is not installed")
    sys.exit()

from lazycore.data import DenseMediaPipeline, run_many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH, WORKERS = 32, 2


class Pictures(DenseMediaPipeline[Any]):
    """Decodes and crops, as every loader here does."""

    def decode(self, raw: bytes) -> Any:
        """Return the picture."""
        return simplejpeg.decode_jpeg(raw)

    def augment(self, decoded: Any) -> Any:
        """Return its corner."""
        return decoded[:224, :224]

    def to_dense_tensor(self, augmented: Any) -> Any:
        """Return the view; the batch copies it once."""
        return augmented


class Nothing(DenseMediaPipeline[Any]):
    """Costs nothing: what remains is the machinery."""

    value = np.zeros(1)

    def decode(self, raw: bytes) -> Any:
        """Return the bytes."""
        return raw

    def augment(self, decoded: Any) -> Any:
        """Return the bytes."""
        return decoded

    def to_dense_tensor(self, augmented: Any) -> Any:
        """Return one array for all."""
        del augmented
        return self.value


def photos(count: int) -> list[bytes]:
    """Return synthetic pictures of 500 by 375, quality 90."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        picture = np.zeros((375, 500, 3))
        for step in (2, 8, 32, 125):
            coarse = rng.random((375 // step + 1, 500 // step + 1, 3))
            fine = coarse.repeat(step, 0).repeat(step, 1)[:375, :500]
            picture += fine * step**0.5
        picture = (picture - picture.min()) / np.ptp(picture) * 255
        found.append(simplejpeg.encode_jpeg(picture.astype(np.uint8), quality=90))
    return found


def decode_for(seconds: float, images: int) -> float:
    """Return pictures per second of this process alone."""
    raws = itertools.cycle(photos(images))
    pipeline = Pictures()
    stop, done = time.perf_counter() + seconds, 0
    began = time.perf_counter()
    while time.perf_counter() < stop:
        pipeline.run(next(raws))
        done += 1
    return done / (time.perf_counter() - began)


def limit(images: int) -> float:
    """Return what independent processes decode per second together."""
    command = [sys.executable, __file__, "--alone", "--images", str(images)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for _ in range(WORKERS)
    ]
    return sum(float(process.communicate()[0]) for process in running)


def processor_s() -> float:
    """Return the processor seconds of this process, its threads and ended children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def loaders(raws: list[bytes]) -> dict[str, Callable[[], Iterator[Any]]]:
    """Return ours and the loaders that are installed."""
    crop = Pictures().run

    def ours() -> Iterator[Any]:
        for batch in run_many(Pictures(), raws, batch=BATCH, workers=WORKERS):
            yield batch.value  # type: ignore[union-attr]

    def loop() -> Iterator[Any]:
        for start in range(0, len(raws), BATCH):
            yield np.stack([crop(raw) for raw in raws[start : start + BATCH]])

    found: dict[str, Callable[[], Iterator[Any]]] = {"ours": ours, "plain loop": loop}
    try:
        data = import_module("torch.utils.data")
        torch = import_module("torch")
        tensors = [torch.frombuffer(bytearray(raw), dtype=torch.uint8) for raw in raws]

        class Files(data.Dataset):  # type: ignore[misc, name-defined]
            def __len__(self) -> int:
                return len(raws)

            def __getitem__(self, index: int) -> Any:
                return np.ascontiguousarray(crop(raws[index]))

        del tensors
        found["torch DataLoader, 2 workers"] = lambda: iter(
            data.DataLoader(Files(), BATCH, num_workers=WORKERS)
        )
    except ImportError:
        pass
    try:
        grain = import_module("grain")

        def by_grain() -> Iterator[Any]:
            source = grain.MapDataset.source(raws).map(crop)
            reading = grain.ReadOptions(num_threads=WORKERS, prefetch_buffer_size=8)
            return iter(source.to_iter_dataset(reading).batch(BATCH))

        found["grain, 2 threads"] = by_grain
    except ImportError:
        pass
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.alone:
        print(decode_for(2.0, options.images))
        return
    raws = photos(options.images) * 4
    best_limit, rates = 0.0, dict.fromkeys(loaders(raws), 0.0)
    spent = dict.fromkeys(("decoding alone", *rates), float("inf"))
    for _ in range(options.rounds):
        best_limit = max(best_limit, limit(options.images))
        used = processor_s()
        for raw in raws:
            simplejpeg.decode_jpeg(raw)
        spent["decoding alone"] = min(spent["decoding alone"], processor_s() - used)
        for name, make in loaders(raws).items():
            began, used = time.perf_counter(), processor_s()
            count = sum(len(batch) for batch in make())
            assert count == len(raws), name
            rates[name] = max(rates[name], count / (time.perf_counter() - began))
            spent[name] = min(spent[name], processor_s() - used)
    empty = [b""] * 20_000
    machinery = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _item in run_many(Nothing(), empty, workers=WORKERS):
            pass
        machinery = min(machinery, (time.perf_counter() - began) / len(empty) * 1e6)
    if options.json:
        found = {"limit": best_limit, "rates": rates, "us": machinery}
        print(json.dumps({**found, "processor_s": spent, "pictures": len(raws)}))
        return
    print(f"limit of {WORKERS} processes: {best_limit:.0f} pictures a second")
    for name, rate in sorted(rates.items(), key=lambda item: -item[1]):
        print(f"  {rate / best_limit:6.1%} {rate:8.0f}/s  {name}")
    print("processor time of a picture, and the share of it that is decoding:")
    alone = spent["decoding alone"]
    for name, seconds in sorted(spent.items(), key=lambda item: item[1]):
        print(f"  {alone / seconds:6.1%} {seconds / len(raws) * 1e6:8.0f} us  {name}")
    print(f"machinery alone: {machinery:.1f} us an item")


if __name__ == "__main__":
    main()

"""Runs are bounded, ordered, reproducible; a failed item is a record, never lost."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.data import (
    DenseMediaPipeline,
    Failure,
    Item,
    MediaPipelineError,
    Progress,
    run_many,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

RAWS = [bytes([k % 200, 7]) for k in range(100)]


def values(results: Any) -> list[tuple[int, bytes]]:
    return [(r.index, r.value.values) for r in results if isinstance(r, Item)]


def test_pipeline_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        DenseMediaPipeline()  # type: ignore[abstract]


def test_run_composes_decode_augment_and_tensor() -> None:
    class Traced(DenseMediaPipeline[str]):
        def decode(self, raw: bytes) -> str:
            return raw.decode() + ">decode"

        def augment(self, decoded: str) -> str:
            return decoded + ">augment"

        def to_dense_tensor(self, augmented: str) -> Any:
            return augmented + ">tensor"

    found: Any = Traced().run(b"raw")
    assert found == "raw>decode>augment>tensor"


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("window", [None, 7])
def test_results_depend_on_seed_epoch_and_index_alone(
    shaken: Any, workers: int, window: int | None, *, ordered: bool
) -> None:
    reference = values(run_many(shaken, RAWS, workers=1, seed=3, epoch=2))
    found = values(
        run_many(
            shaken,
            RAWS,
            workers=workers,
            ordered=ordered,
            window=window,
            seed=3,
            epoch=2,
        )
    )
    assert (found if ordered else sorted(found)) == reference
    assert reference != values(run_many(shaken, RAWS, workers=1, seed=3, epoch=3))


def test_never_pulls_more_than_the_window_ahead_of_the_consumer(shaken: Any) -> None:
    pulled = 0

    def source() -> Iterator[bytes]:
        nonlocal pulled
        for raw in RAWS:
            pulled += 1
            yield raw

    run = run_many(shaken, source(), workers=2, window=9)
    assert pulled == 0
    for taken, _ in enumerate(run):
        assert pulled <= taken + 1 + 9


def test_first_error_is_raised_at_its_place_with_a_note(shaken: Any) -> None:
    raws = [*RAWS[:20], b"\xff", *RAWS[20:]]
    run = run_many(shaken, raws, workers=3)
    seen = [getattr(next(run), "index", None) for _ in range(20)]
    assert seen == list(range(20))
    with pytest.raises(ValueError, match="damaged") as caught:
        next(run)
    assert caught.value.__notes__ == ["item 20, stage decode"]


def test_skip_leaves_failures_out_and_yield_records_them(shaken: Any) -> None:
    raws = [b"\xff" if k % 10 == 3 else raw for k, raw in enumerate(RAWS)]
    skipped = list(run_many(shaken, raws, workers=2, on_error="skip"))
    assert len(skipped) == 90
    recorded = list(run_many(shaken, raws, workers=2, on_error="yield"))
    assert [r.index for r in recorded if isinstance(r, Failure)] == list(
        range(3, 100, 10)
    )
    assert [getattr(r, "index", None) for r in recorded] == list(range(100))


@pytest.mark.parametrize("limit", [4, 0.05], ids=["count", "share"])
def test_too_many_failures_end_the_run(shaken: Any, limit: float) -> None:
    raws = [b"\xff" if k % 10 == 3 else raw for k, raw in enumerate(RAWS)]
    with pytest.raises(MediaPipelineError, match="max_failures"):
        list(run_many(shaken, raws, on_error="skip", max_failures=limit))
    assert len(list(run_many(shaken, raws, on_error="skip", max_failures=0.2))) == 90


def test_a_decoder_that_returns_none_and_a_wrong_tensor_are_failures() -> None:
    class Wrong(DenseMediaPipeline[Any]):
        def decode(self, raw: bytes) -> Any:
            return None if raw == b"none" else raw

        def augment(self, decoded: Any) -> Any:
            return decoded

        def to_dense_tensor(self, augmented: Any) -> Any:
            return [augmented]

    found = list(run_many(Wrong(), [b"none", b"list"], on_error="yield"))
    assert [getattr(f, "stage", "") for f in found] == ["decode", "to_dense_tensor"]
    texts = [str(f.exception) for f in found if isinstance(f, Failure)]
    assert "returned None" in texts[0]
    assert "no __dlpack__" in texts[1]


def test_an_item_that_hangs_becomes_a_failure(tensor_type: Any) -> None:
    release = threading.Event()

    class Hanging(DenseMediaPipeline[bytes]):
        def decode(self, raw: bytes) -> bytes:
            if raw == b"hang":
                release.wait(30)
            return raw

        def augment(self, decoded: bytes) -> bytes:
            return decoded

        def to_dense_tensor(self, augmented: bytes) -> Any:
            return tensor_type(augmented)

    try:
        found = list(
            run_many(
                Hanging(),
                [b"hang", b"a", b"b", b"c"],
                workers=2,
                window=3,
                timeout_s=0.2,
                on_error="yield",
            )
        )
    finally:
        release.set()
    assert [type(r).__name__ for r in found] == ["Failure", "Item", "Item", "Item"]
    first = found[0]
    assert isinstance(first, Failure)
    assert first.stage == "timeout"
    assert isinstance(first.exception, TimeoutError)
    time.sleep(0.05)  # let the released thread leave before the test's checks


def test_closing_early_cancels_what_has_not_started(tensor_type: Any) -> None:
    ran = 0

    class Counted(DenseMediaPipeline[bytes]):
        def decode(self, raw: bytes) -> bytes:
            nonlocal ran
            ran += 1
            time.sleep(0.001)
            return raw

        def augment(self, decoded: bytes) -> bytes:
            return decoded

        def to_dense_tensor(self, augmented: bytes) -> Any:
            return tensor_type(augmented)

    run = run_many(Counted(), [b"x"] * 10_000, workers=2)
    next(run)
    before = threading.active_count()
    run.close()  # type: ignore[attr-defined]
    assert ran < 500
    assert threading.active_count() < before


def test_progress_and_statistics_add_up(shaken: Any) -> None:
    seen: list[Progress] = []
    raws = [*RAWS, b"\xff"]
    list(run_many(shaken, raws, on_error="skip", progress=seen.append))
    last = seen[-1]
    assert (last.done, last.failed, last.in_flight) == (100, 1, 0)
    assert last.stats.bytes_in == sum(map(len, raws))
    assert last.stats.stages["to_dense_tensor"].items == 100
    assert last.stats.stages["decode"].items == 100


def test_an_input_that_raises_ends_the_run_with_its_own_error(shaken: Any) -> None:
    def broken() -> Iterator[bytes]:
        yield from RAWS[:40]
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="the disk went away"):
        list(run_many(shaken, broken(), workers=2))


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 0},
        {"batch": 0},
        {"window": 0},
        {"window": 3, "batch": 4},
        {"on_error": "ignore"},
        {"max_failures": -1},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused_before_anything_starts(
    shaken: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"="):
        run_many(shaken, RAWS, **options)


def test_batches_hold_the_same_values_in_aligned_arrays() -> None:
    np = pytest.importorskip("numpy", reason="numpy is not installed")

    class Numbers(DenseMediaPipeline[Any]):
        def decode(self, raw: bytes) -> Any:
            if raw == b"!":
                raise ValueError("damaged")
            return np.frombuffer(raw, np.uint8)

        def augment(self, decoded: Any) -> Any:
            return decoded + np.uint8(1)

        def to_dense_tensor(self, augmented: Any) -> Any:
            return augmented

    batches: list[Any] = list(run_many(Numbers(), RAWS, batch=32, workers=2))
    assert [b.value.shape for b in batches] == [(32, 2)] * 3 + [(4, 2)]
    assert all(b.value.ctypes.data % 64 == 0 for b in batches)
    assert np.concatenate([b.value for b in batches])[:, 0].tolist() == [
        raw[0] + 1 for raw in RAWS
    ]
    odd = [RAWS[0], b"!", b"another shape", RAWS[1]]
    (batch,) = run_many(Numbers(), odd, batch=4, on_error="yield")
    assert batch.indices == (0, 3)  # type: ignore[union-attr]
    assert [f.stage for f in batch.failures] == ["decode", "collate"]  # type: ignore[union-attr]

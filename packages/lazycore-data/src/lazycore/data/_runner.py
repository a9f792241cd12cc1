"""Run a media pipeline over many items: bounded, ordered, reproducible, accountable.

Items travel to the workers in groups, one task a group, because a task costs more
than a small item. The work goes through `concurrent.futures.Executor`, so threads,
processes and a cluster's client run the same code.
"""

from __future__ import annotations

import time
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lazycore.data._errors import MediaPipelineError
from lazycore.data._progress import Batch, Progress
from lazycore.data._stages import Failure, GroupResult, Item, work
from lazycore.data._tasks import TaskWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from lazycore.data._media import DenseMediaPipeline

__all__ = ["run_many"]

_GROUP = 16
_ENOUGH = 100  # finished items before a share of failures says anything


def _check_options(on_error: str, window: int, group: int, limit: float | None) -> None:
    if on_error not in ("raise", "skip", "yield"):
        raise ValueError(f"on_error={on_error!r}: choose 'raise', 'skip' or 'yield'")
    if window < group:
        raise ValueError(f"window={window} is smaller than one batch of {group}")
    if limit is not None and limit < 0:
        raise ValueError(f"max_failures={limit}: give a count or a share of at least 0")


def _too_many(limit: float | None, failed: int, done: int, *, last: bool) -> bool:
    if limit is None or failed == 0:
        return False
    if isinstance(limit, int):
        return failed > limit
    total = failed + done
    return (last or total >= _ENOUGH) and failed > limit * total


def run_many(
    pipeline: DenseMediaPipeline[Any],
    raws: Iterable[bytes],
    *,
    workers: int | None = None,
    window: int | None = None,
    ordered: bool = True,
    batch: int | None = None,
    on_error: str = "raise",
    max_failures: float | None = None,
    timeout_s: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    executor: Executor | None = None,
    seed: int = 0,
    epoch: int = 0,
) -> Iterator[Item | Failure | Batch]:
    """Yield the tensors of many items, with bounded work in flight.

    Nothing starts before the first item is asked for. Randomness that is drawn from
    `item_random` depends on ``(seed, epoch, index)`` alone: results are the same for
    any number of workers, ordered or not, in threads or processes. Closing the
    iterator cancels what has not started.

    Args:
        pipeline: The pipeline; it must be picklable for executors of processes.
        raws: The encoded items; at most ``window`` are pulled ahead of the consumer.
        workers: Threads when no executor is given; by default the CPU count, at
            most 8. With an executor: how many tasks it runs at once.
        window: Items pulled and not yet yielded; by default three tasks a worker.
        ordered: Yield in input order; otherwise as groups finish.
        batch: Collate that many items into one array in the worker and yield
            `Batch`; by default yield single `Item` values.
        on_error: Raise the first error, skip failed items, or yield `Failure`.
        max_failures: Stop after more failures than this count (int) or share of
            finished items (float, judged from 100 items on and at the end).
        timeout_s: Seconds per item of a task before it counts as failed. A thread
            that hangs cannot be stopped: it holds its worker until it returns.
        progress: Called in the consumer's thread after every task.
        executor: A `concurrent.futures.Executor`; it is not shut down.
        seed: Seed of the run.
        epoch: Number of the pass over the data.

    Yields:
        `Item`, `Batch` or, under ``on_error="yield"``, `Failure`.

    Raises:
        MediaPipelineError: Too many items failed.
        ValueError: An option is out of range.
        Exception: Under ``on_error="raise"``, what the pipeline raised, with a note
            that names item and stage.

    Example:
        >>> class Raw(DenseMediaPipeline):
        ...     def decode(self, raw):
        ...         return memoryview(raw)
        ...     def augment(self, decoded):
        ...         return decoded
        ...     def to_dense_tensor(self, augmented):
        ...         import numpy as np
        ...         return np.array(augmented)
        >>> for item in run_many(Raw(), [b"ab", b"cd"], workers=2):
        ...     print(item.index, item.value.tolist())
        0 [97, 98]
        1 [99, 100]
    """
    import os

    count = workers if workers is not None else min(8, os.cpu_count() or 1)
    if count < 1 or (batch is not None and batch < 1):
        raise ValueError(f"workers={workers}, batch={batch}: give at least 1")
    if window is None:
        group = batch or _GROUP
        room = group * 3 * count
    else:
        group = batch or max(1, min(_GROUP, window // (count + 1)))
        room = window
    _check_options(on_error, room, group, max_failures)
    return _iterate(
        pipeline,
        raws,
        count=count,
        room=room,
        group=group,
        ordered=ordered,
        collated=batch is not None,
        on_error=on_error,
        max_failures=max_failures,
        timeout_s=timeout_s,
        progress=progress,
        executor=executor,
        seed=seed,
        epoch=epoch,
    )


def _iterate(
    pipeline: DenseMediaPipeline[Any],
    raws: Iterable[bytes],
    *,
    count: int,
    room: int,
    group: int,
    ordered: bool,
    collated: bool,
    on_error: str,
    max_failures: float | None,
    timeout_s: float | None,
    progress: Callable[[Progress], None] | None,
    executor: Executor | None,
    seed: int,
    epoch: int,
) -> Iterator[Item | Failure | Batch]:
    pool = executor if executor is not None else ThreadPoolExecutor(count)
    isolated = not isinstance(pool, ThreadPoolExecutor)

    def submit(first: int, items: list[bytes]) -> Future[GroupResult]:
        return pool.submit(
            work,
            pipeline,
            items,
            first=first,
            seed=seed,
            epoch=epoch,
            collated=collated,
            isolated=isolated,
            stop_early=on_error == "raise",
        )

    run = TaskWindow(
        submit, raws, group=group, window=room, ordered=ordered, timeout_s=timeout_s
    )
    began = time.perf_counter()
    done = failed = 0
    try:
        run.fill()
        while (result := run.take()) is not None:
            done += len(result.items) if not collated else len(result.indices)
            failed += len(result.failures)
            if on_error != "raise":
                run.fill()
            if progress is not None:
                progress(
                    Progress(
                        done=done,
                        failed=failed,
                        in_flight=run.in_flight,
                        elapsed_s=time.perf_counter() - began,
                        stats=run.stats,
                    )
                )
            yield from _outputs(result, collated=collated, on_error=on_error)
            if _too_many(max_failures, failed, done, last=not run.in_flight):
                message = (
                    f"{failed} of {failed + done} items failed, more than "
                    f"max_failures={max_failures}; the last: {result.failures[-1:]}"
                )
                raise MediaPipelineError(message)
            if on_error == "raise":
                run.fill()
    finally:
        run.cancel()
        if executor is None:
            pool.shutdown(wait=not run.hung, cancel_futures=True)


def _outputs(
    result: GroupResult, *, collated: bool, on_error: str
) -> Iterator[Item | Failure | Batch]:
    failures = result.failures if on_error == "yield" else ()
    if on_error == "raise" and result.failures:
        first = result.failures[0]
        if not collated:
            yield from (item for item in result.items if item.index < first.index)
        error = first.exception
        error.add_note(f"item {first.index}, stage {first.stage}")
        raise error
    if collated:
        if result.indices or failures:
            yield Batch(
                indices=result.indices, value=result.batch, failures=tuple(failures)
            )
        return
    if not failures:
        yield from result.items
        return
    mixed: list[Item | Failure] = [*result.items, *failures]
    yield from sorted(mixed, key=lambda entry: entry.index)

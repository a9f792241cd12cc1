"""Spread cells over slots of this process, a bounded number at a time."""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, Executor, ThreadPoolExecutor, wait
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from concurrent.futures import Future

__all__ = ["Slots", "run_bounded"]

_T = TypeVar("_T")
_R = TypeVar("_R")
_TICK_S = 0.2


class Slots(Generic[_T, _R]):
    """The default engine: one thread per slot, each waiting for its sandbox.

    Args:
        count: How many cells run at once; the host's cores when None.

    Examples:
        >>> engine = Slots(2)
        >>> sorted(x for x in engine.run([1, 2, 3], lambda x: x * x) if x is not None)
        [1, 4, 9]
    """

    name = "slots"

    def __init__(self, count: int | None = None) -> None:
        if count is not None and count < 1:
            raise ValueError(f"want at least one slot, got {count}")
        self.count = count or _cores()

    def run(
        self, items: Iterable[_T], work: Callable[[_T], _R]
    ) -> Generator[_R | None]:
        """Yield results as they come; None now and then while nothing comes.

        Closing the iterator starts no further item and waits for those that run.

        Args:
            items: What to work on, taken as slots come free.
            work: Called in a slot.
        """
        pool = ThreadPoolExecutor(self.count, thread_name_prefix="slot")
        try:
            yield from run_bounded(pool, items, work, window=2 * self.count)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def run_bounded(
    pool: Executor, items: Iterable[_T], work: Callable[[_T], _R], *, window: int
) -> Generator[_R | None]:
    """Yield results of any executor as they come, with a bounded number in flight.

    Args:
        pool: Where the work runs.
        items: Taken one by one: memory does not grow with their number.
        work: What to do with each.
        window: Most items in flight.
    """
    source = iter(items)
    running: set[Future[_R]] = set()
    while True:
        fresh = list(islice(source, window - len(running)))
        running |= {pool.submit(work, item) for item in fresh}
        if not running:
            return
        done, running = wait(running, timeout=_TICK_S, return_when=FIRST_COMPLETED)
        if not done:
            yield None
        for future in done:
            yield future.result()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""Where cells run: the seam for engines, and the default, slots of this process."""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, Executor, ThreadPoolExecutor, wait
from itertools import islice
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lazycore.experiments._attempt import Workers
from lazycore.experiments._launch import worker_policies

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from lazycore.experiments._attempt import CellOutcome
    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._plan import Cell
    from lazycore.sandbox import BaseSandboxExecutor

__all__ = ["Engine", "LocalEngine", "Slots", "run_bounded"]

_T = TypeVar("_T")
_R = TypeVar("_R")
_TICK_S = 0.2


class Engine(Protocol):
    """Runs cells somewhere and yields their outcomes to the coordinator.

    Attributes:
        name: What the journal calls it.
        count: How many cells run at once.
        backend: Name of the sandbox backend, known once it has started.
    """

    name: str
    count: int
    backend: str

    def start(
        self, lock: StudyLock, snapshot: Path, environment: Mapping[str, str]
    ) -> Callable[[Cell], CellOutcome]:
        """Make ready and return what is done with each cell."""

    def run(
        self, items: Iterable[Cell], work: Callable[[Cell], CellOutcome]
    ) -> Generator[CellOutcome | None]:
        """Yield outcomes as they come; None now and then while nothing comes."""

    def abandon(self) -> None:
        """Drop what is in flight at once."""

    def close(self) -> None:
        """Release everything that `start` made."""


class LocalEngine:
    """Slots of this process: threads that wait for their sandboxed workers.

    Args:
        count: How many cells run at once; the host's cores when None.

    Examples:
        >>> LocalEngine(2).count
        2
    """

    name = "slots"
    backend = ""

    def __init__(self, count: int | None = None) -> None:
        self._slots: Slots[Cell, CellOutcome] = Slots(count)
        self.count = self._slots.count
        self._executor: BaseSandboxExecutor | None = None
        self._workers: Workers | None = None

    def start(
        self, lock: StudyLock, snapshot: Path, environment: Mapping[str, str]
    ) -> Callable[[Cell], CellOutcome]:
        """Open the sandbox; see `Engine.start`."""
        from lazycore.sandbox import get_default_executor

        policies = worker_policies(lock, snapshot, environment)
        self._executor = get_default_executor(policies[0])
        self.backend = self._executor.name
        self._workers = Workers(lock, snapshot, self._executor, environment)
        return self._workers.run

    def run(
        self, items: Iterable[Cell], work: Callable[[Cell], CellOutcome]
    ) -> Generator[CellOutcome | None]:
        """Run cells in slots; see `Engine.run`."""
        yield from self._slots.run(items, work)

    def abandon(self) -> None:
        """Kill every worker; see `Engine.abandon`."""
        self.close()

    def close(self) -> None:
        """End warm servers and close the sandbox; may be called twice."""
        if self._workers is not None:
            self._workers.close()
        if self._executor is not None:
            self._executor.close()


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

"""Keep a bounded window of tasks between an input and its consumer."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lazycore.data._progress import RunStats
from lazycore.data._stages import Failure, GroupResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

__all__ = ["TaskWindow"]


@dataclass(slots=True)
class _Task:
    future: Future[GroupResult]
    first: int
    size: int


class TaskWindow:
    """The state of one run: its queue of tasks and its counts."""

    def __init__(
        self,
        submit: Callable[[int, list[bytes]], Future[GroupResult]],
        raws: Iterable[bytes],
        *,
        group: int,
        window: int,
        ordered: bool,
        timeout_s: float | None,
    ) -> None:
        self._submit = submit
        self._raws = iter(raws)
        self._group = group
        self._window = window
        self._ordered = ordered
        self._timeout_s = timeout_s
        self._tasks: deque[_Task] = deque()
        self._next = 0
        self.in_flight = 0
        self.hung = False
        self.stats = RunStats()

    def fill(self) -> None:
        """Pull from the input while there is room in the window."""
        while self.in_flight + self._group <= self._window:
            group = list(islice(self._raws, self._group))
            if not group:
                return
            future = self._submit(self._next, group)
            self._tasks.append(_Task(future, self._next, len(group)))
            self._next += len(group)
            self.in_flight += len(group)

    def take(self) -> GroupResult | None:
        """Wait for the next task and return its result; None when all are done."""
        if not self._tasks:
            return None
        began = time.perf_counter()
        if not self._ordered:
            limit = None
            if self._timeout_s is not None:
                limit = self._timeout_s * max(task.size for task in self._tasks)
            done, _ = wait(
                [task.future for task in self._tasks],
                timeout=limit,
                return_when=FIRST_COMPLETED,
            )
            ready = next((t for t in self._tasks if t.future in done), None)
            if ready is not None:
                self._tasks.remove(ready)
                self._tasks.appendleft(ready)
        task = self._tasks.popleft()
        limit = None if self._timeout_s is None else self._timeout_s * task.size
        try:
            if limit is not None and not self._ordered and not task.future.done():
                raise TimeoutError  # noqa: TRY301 - one place counts what hangs
            result = task.future.result(limit)
        except TimeoutError:
            if task.future.done() and not task.future.cancelled():
                raise  # the worker's own
            self.hung = True
            task.future.cancel()
            text = f"no result within {limit} s: the item hangs or waits for a worker"
            failures = tuple(
                Failure(index=index, stage="timeout", exception=TimeoutError(text))
                for index in range(task.first, task.first + task.size)
            )
            result = GroupResult(items=(), failures=tuple(failures))
        self.in_flight -= task.size
        self.stats.wait_s += time.perf_counter() - began
        self.stats.add(result)
        return result

    def cancel(self) -> None:
        """Drop what has not started."""
        for task in self._tasks:
            task.future.cancel()
        self._tasks.clear()

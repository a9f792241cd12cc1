"""Follow a run: one live line on a terminal with rich, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from lazycore.experiments._numbers import duration, plural
from lazycore.experiments._terminal import on_rich_terminal, safe

if TYPE_CHECKING:
    from typing import TextIO

    from lazycore.experiments._results import FailureRow, ResultRow
    from lazycore.experiments._runner import RunObserver
    from lazycore.experiments._study import Study

__all__ = ["progress"]

_EVERY_S = 5.0
_REFRESH_S = 0.1


def progress(stream: TextIO) -> RunObserver:
    """Return what follows a run on a stream.

    Args:
        stream: Usually stderr; results go elsewhere.
    """
    return _RichProgress(stream) if on_rich_terminal(stream) else _Lines(stream)


class _Pace:
    """How far a session is, how fast it goes, and what failed in it."""

    def __init__(self, *, planned: int, finished: int) -> None:
        self.planned = planned
        self.finished = self._at_start = finished
        self._began = time.monotonic()
        self.failures: Counter[str] = Counter()

    def add(self, finished: int, failures: tuple[FailureRow, ...]) -> None:
        self.finished = finished
        self.failures.update(str(row.failure_class) for row in failures)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def rate(self) -> float:
        """Cells per second of this session."""
        return (self.finished - self._at_start) / max(self.elapsed_s, 1e-9)

    def text(self) -> str:
        """Return rate, time left and failures."""
        parts = [f"{self.rate:.3g} cells/s"]
        left = self.planned - self.finished
        if left and self.rate:
            parts.append(f"{duration(left / self.rate)} left")
        if self.failures:
            counts = ", ".join(f"{k} {n:,}" for k, n in sorted(self.failures.items()))
            parts.append(f"failed attempts: {counts}")
        return ", ".join(parts)


class _Lines:
    """A line at the start, one every few seconds, one at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._pace: _Pace | None = None
        self._written_s = 0.0

    def started(self, *, study: Study, planned: int, finished: int, slots: int) -> None:
        self._pace = _Pace(planned=planned, finished=finished)
        done = f", {finished:,} finished before" if finished else ""
        self._write(
            f"{study.id}: {plural(planned, 'cell')} on {plural(slots, 'slot')}{done}"
        )

    def cell_finished(
        self,
        *,
        rows: tuple[ResultRow, ...],  # noqa: ARG002 - part of the protocol
        failures: tuple[FailureRow, ...],
        finished: int,
        planned: int,
    ) -> None:
        assert self._pace is not None  # a session starts before its first cell
        self._pace.add(finished, failures)
        if self._pace.elapsed_s - self._written_s >= _EVERY_S or finished == planned:
            self._written_s = self._pace.elapsed_s
            self._write(f"{finished:,} of {planned:,} cells, {self._pace.text()}")

    def closed(self) -> None:
        self._stream.flush()

    def _write(self, line: str) -> None:
        self._stream.write(safe(line, self._stream) + "\n")
        self._stream.flush()


class _RichProgress:
    """One live line: bar, count, rate, time left, failures by class.

    It refreshes from the coordinator's own calls: a refresh thread would be alive
    when the engine starts processes.
    """

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}", markup=False),
            console=Console(file=stream),
            auto_refresh=False,
            expand=True,
        )
        self._pace: _Pace | None = None
        self._drawn_s = 0.0

    def started(self, *, study: Study, planned: int, finished: int, slots: int) -> None:
        self._pace = _Pace(planned=planned, finished=finished)
        self._task = self._progress.add_task(
            f"{study.id}, {plural(slots, 'slot')}",
            total=planned,
            completed=finished,
            pace="",
        )
        self._progress.start()
        self._progress.refresh()

    def cell_finished(
        self,
        *,
        rows: tuple[ResultRow, ...],  # noqa: ARG002 - part of the protocol
        failures: tuple[FailureRow, ...],
        finished: int,
        planned: int,
    ) -> None:
        assert self._pace is not None  # a session starts before its first cell
        self._pace.add(finished, failures)
        last = finished == planned
        if last or self._pace.elapsed_s - self._drawn_s >= _REFRESH_S:
            self._drawn_s = self._pace.elapsed_s
            self._progress.update(
                self._task, completed=finished, pace=self._pace.text()
            )
            self._progress.refresh()

    def closed(self) -> None:
        self._progress.stop()

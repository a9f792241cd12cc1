"""What follows a run: a terminal, a notebook, or nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lazycore.experiments._results import FailureRow, ResultRow
    from lazycore.experiments._study import Study

__all__ = ["RunObserver", "SilentObserver"]


class RunObserver(Protocol):
    """What follows a run; called from the coordinator's thread only."""

    def started(self, *, study: Study, planned: int, finished: int, slots: int) -> None:
        """A session begins."""

    def cell_finished(
        self,
        *,
        rows: tuple[ResultRow, ...],
        failures: tuple[FailureRow, ...],
        finished: int,
        planned: int,
    ) -> None:
        """A cell is in the journal."""

    def closed(self) -> None:
        """The session is over, for whatever reason."""


class SilentObserver:
    """Follows nothing."""

    def started(
        self, *, study: Study, planned: int, finished: int, slots: int
    ) -> None: ...

    def cell_finished(
        self,
        *,
        rows: tuple[ResultRow, ...],
        failures: tuple[FailureRow, ...],
        finished: int,
        planned: int,
    ) -> None: ...

    def closed(self) -> None: ...

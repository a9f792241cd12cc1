"""Cells on the workers of a dask.distributed cluster, persisted here exactly once.

Dask may run a cell twice when a worker dies; only the coordinator writes, and only
the first outcome of a cell. The cluster's own retries are switched off: a worker
that dies three times under the same cell is an infrastructure failure of that cell.
Every worker process proves its host first: same snapshot, interpreter, packages and
SDK as the lock, or it is refused. Secrets never travel: a worker resolves passed
names in its own environment.
"""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

from lazycore.experiments._attempt import CellOutcome
from lazycore.experiments._dask_host import (
    Files,
    NotPreparedError,
    Remote,
    forget_host,
    prepare_host,
)
from lazycore.experiments._errors import (
    ArtifactError,
    ExternalDependencyError,
)
from lazycore.experiments._failures import FailureClass
from lazycore.experiments._outcome import ArmOutcome, Attempt, Resources
from lazycore.experiments._protocol import request_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from pathlib import Path

    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._plan import Cell

__all__ = ["DaskEngine"]

_TICK_S = 0.2
_DEATHS = 3
_HINT = "pip install 'lazycore-experiments[dask]'"


class DaskEngine:
    """Runs cells on a dask.distributed cluster.

    Args:
        address: Scheduler address such as ``tcp://host:8786``.
        timeout_s: How long to wait for the scheduler and for a first worker.

    Raises:
        ExternalDependencyError: dask.distributed is not installed.

    Examples:
        >>> run_study(lock, "run", engine=DaskEngine("tcp://host:8786"))
        ... # doctest: +SKIP
    """

    name = "dask"

    def __init__(self, address: str, *, timeout_s: float = 30.0) -> None:
        self._dask = _distributed()
        try:
            self._client = self._dask.Client(
                address, timeout=timeout_s, set_as_default=False
            )
            self._client.wait_for_workers(1, timeout=timeout_s)
        except (OSError, TimeoutError) as error:
            raise ArtifactError(f"{address}: no scheduler with a worker") from error
        self.count = max(1, sum(self._client.nthreads().values()))
        self.backend = ""
        self._setup: tuple[str, bytes, Files] | None = None
        self._lock: StudyLock | None = None

    def start(
        self, lock: StudyLock, snapshot: Path, environment: Mapping[str, str]
    ) -> Callable[[Cell], CellOutcome]:
        """Prepare every worker process; see `Engine.start`.

        Raises:
            ArtifactError: A worker's host differs from the lock; names it.
        """
        del environment  # each worker resolves the names on its own host
        files = [
            (
                file.path,
                int(file.mode, 8),
                str((snapshot / file.path).readlink()).encode()
                if file.mode == "120000"
                else (snapshot / file.path).read_bytes(),
            )
            for file in lock.tree().files
        ]
        self._lock = lock
        self._setup = (lock.digest, lock.data, files)
        # Retries are ours, where each attempt is recorded.
        self._client.run_on_scheduler(_forbid_retries)
        self._prepare(list(self._client.nthreads()))
        return Remote(lock.digest)

    def run(
        self, items: Iterable[Cell], work: Callable[[Cell], CellOutcome]
    ) -> Generator[CellOutcome | None]:
        """Run cells on the cluster; see `Engine.run`."""
        source = iter(items)
        running: dict[Any, Cell] = {}
        deaths: dict[str, int] = {}

        def submit(cell: Cell) -> None:
            # A key of its own: a repeated cell must not meet its dead result.
            key = f"cell-{cell.id[:16]}-{deaths.get(cell.id, 0)}-{time.monotonic_ns()}"
            running[self._client.submit(work, cell, key=key, pure=False)] = cell

        try:
            while True:
                while len(running) < 2 * self.count:
                    cell = next(source, None)
                    if cell is None:
                        break
                    submit(cell)
                if not running:
                    return
                try:
                    with self._client.as_current():
                        done = self._dask.wait(
                            list(running),
                            timeout=_TICK_S,
                            return_when="FIRST_COMPLETED",
                        ).done
                except TimeoutError:
                    yield None
                    continue
                for future in done:
                    cell = running.pop(future)
                    outcome = self._outcome(future, cell, deaths)
                    # Released at once: a lost worker can't make it run again.
                    future.release()
                    if outcome is None:
                        submit(cell)
                    else:
                        yield outcome
        finally:
            self._client.cancel(list(running), force=True)

    def abandon(self) -> None:
        """End the sandboxes on every worker; see `Engine.abandon`."""
        self._forget()

    def close(self) -> None:
        """Forget the study on every worker and disconnect."""
        self._forget()
        self._client.close()

    def _prepare(self, addresses: list[str]) -> None:
        assert self._setup is not None  # `start` has run
        found = self._client.run(
            prepare_host, *self._setup, workers=addresses, on_error="return"
        )
        for address, backend in found.items():
            if isinstance(backend, BaseException):
                raise ArtifactError(f"worker {address} is refused: {backend}")
            self.backend = backend

    def _outcome(
        self, future: Any, cell: Cell, deaths: dict[str, int]
    ) -> CellOutcome | None:
        """Return what a future came to, or None when the cell must run again."""
        error = future.exception()
        if error is None:
            outcome: CellOutcome = future.result()
            return outcome
        if isinstance(error, NotPreparedError):
            self._prepare([str(error)])
            return None
        if isinstance(error, self._dask.KilledWorker) or future.status == "lost":
            deaths[cell.id] = deaths.get(cell.id, 0) + 1
            if deaths[cell.id] < _DEATHS:
                return None
            assert self._lock is not None
            return _lost(self._lock, cell, f"{_DEATHS} dask workers died under it")
        raise ArtifactError(f"a dask worker failed: {error}") from error

    def _forget(self) -> None:
        if self._setup is not None and self._client.status == "running":
            self._client.run(forget_host, self._setup[0], on_error="ignore")


def _distributed() -> Any:  # an optional library without types
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise ExternalDependencyError(
            f"dask.distributed is not installed: {_HINT}"
        ) from error


def _forbid_retries(dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = 0


def _lost(lock: StudyLock, cell: Cell, message: str) -> CellOutcome:
    used = Resources(
        wall_s=None,
        cpu_s=None,
        max_rss_bytes=None,
        exit_reason="supervisor_error",
        exit_code=None,
        method="none",
    )
    arms = {
        arm: ArmOutcome(
            arm=arm,
            request=request_digest(lock.study, lock.digest, cell, arm),
            attempts=(
                Attempt(
                    number=cell.tried.get(arm, 0) + 1,
                    failure_class=FailureClass.INFRASTRUCTURE,
                    message=message,
                    resources=used,
                    response=None,
                ),
            ),
            started_ns=time.time_ns(),
            ended_ns=time.time_ns(),
        )
        for arm in cell.order
    }
    return CellOutcome(cell=cell, arms=arms)

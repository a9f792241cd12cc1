"""Read a run folder back: lock, rows, failures, provenance, outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments._blobs import read_output
from lazycore.experiments._digests import ResultsDigest
from lazycore.experiments._errors import ArtifactError
from lazycore.experiments._frozen import freeze
from lazycore.experiments._journal import read_journal
from lazycore.experiments._lock import StudyLock
from lazycore.experiments._outcome import failure_rows, leaf_digest, result_rows
from lazycore.experiments._strict_json import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._results import FailureRow, ResultRow
    from lazycore.experiments._study import Study

__all__ = ["RunRecord", "load_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as its journal tells it.

    Attributes:
        path: The run folder.
        study: The study as locked.
        lock: The whole lock.
        lock_digest: SHA-256 of the lock.
        rows: One per cell, unit, arm and metric, in the order of the plan.
        failures: Every attempt that failed, retried ones included.
        results_digest: SHA-256 over values and statuses of the finished cells.
        planned_cells: Cells of the plan.
        finished_cells: Cells in the journal.
        failed_cells: Cells in which an arm failed by a fault, not by its method.
        complete: Whether every planned cell is finished.
        wall_s: Seconds of all sessions together.
        reason: How the last session ended: ``complete``, ``interrupted``,
            ``max-failed``, or ``running`` when it has no end in the journal.
        sessions: How often the run was started or continued.
        provenance: Interpreter, host, sandbox, engine and versions of the last
            session.
        order_check: In mode ``session`` what came of asking a sample of cells again in
            the opposite order: ``checked`` (how many), ``differing`` and ``failed``
            (their ids). None in the other modes and before the run is complete.

    Examples:
        >>> from lazycore.experiments import load_run
        >>> load_run("no/such/folder")
        Traceback (most recent call last):
        ...
        lazycore.experiments._errors.ArtifactError: no/such/folder: no run folder
    """

    path: Path
    study: Study
    lock: Mapping[str, Any]
    lock_digest: str
    rows: tuple[ResultRow, ...]
    failures: tuple[FailureRow, ...]
    results_digest: str
    planned_cells: int
    finished_cells: int
    failed_cells: int
    complete: bool
    wall_s: float
    reason: str
    sessions: int
    provenance: Mapping[str, Any]
    order_check: Mapping[str, Any] | None = None
    _places: Mapping[str, tuple[int, int]] = field(repr=False)

    def output(self, cell: str, arm: str, unit: str) -> Any:  # JSON of the worker
        """Return what a worker kept for a unit, or None.

        Raises:
            LookupError: The run has no such cell, arm or unit.
            ArtifactError: The blob that holds the output is missing or was changed.
        """
        record = self._body(cell)["arms"][arm]
        row = record["units"].get(unit)
        return None if row is None else read_output(self.path, row)

    def order(self, cell: str) -> tuple[str, ...]:
        """Return the arms of a cell in the order they ran.

        Raises:
            LookupError: The run has no such cell.
        """
        return tuple(self._body(cell)["order"])

    def to_arrow(self) -> Any:  # pyarrow.Table; pyarrow is optional
        """Return the rows as a `pyarrow.Table`.

        Raises:
            ExternalDependencyError: pyarrow is not installed.
        """
        from lazycore.experiments._arrow import to_arrow

        return to_arrow(self.rows)

    def to_pandas(self) -> Any:  # pandas.DataFrame; pandas is optional
        """Return the rows as a pandas frame on the table's own Arrow buffers.

        Raises:
            ExternalDependencyError: pandas or pyarrow is not installed.
        """
        from lazycore.experiments._arrow import to_pandas

        return to_pandas(self.rows)

    def to_polars(self) -> Any:  # polars.DataFrame; polars is optional
        """Return the rows as a Polars frame on the table's own Arrow buffers.

        Raises:
            ExternalDependencyError: polars or pyarrow is not installed.
        """
        from lazycore.experiments._arrow import to_polars

        return to_polars(self.rows)

    def _body(self, cell: str) -> dict[str, Any]:
        offset, length = self._places[cell]
        with (self.path / "journal.jsonl").open("rb") as file:
            file.seek(offset)
            body: dict[str, Any] = parse(file.read(length))["body"]
        return body


def load_run(path: str | Path) -> RunRecord:
    """Read a run folder, finished or not.

    Args:
        path: A folder that `run_study` wrote; it may be written to meanwhile.

    Returns:
        The run so far.

    Raises:
        ArtifactError: No run folder, or its lock does not hold.
        JournalError: The journal's chain does not hold.

    Examples:
        >>> load_run("no/such/folder")
        Traceback (most recent call last):
        ...
        lazycore.experiments._errors.ArtifactError: no/such/folder: no run folder
    """
    folder = Path(path)
    journal = folder / "journal.jsonl"
    if not journal.is_file() or not (folder / "lock.json").is_file():
        raise ArtifactError(f"{folder}: no run folder")
    lock = StudyLock.read(folder / "lock.json")
    study = lock.study
    total = ResultsDigest()
    cells: list[tuple[int, tuple[ResultRow, ...]]] = []
    failures: list[FailureRow] = []
    places: dict[str, tuple[int, int]] = {}
    failed = sessions = 0
    reason = "running"
    wall_s = elapsed_s = 0.0
    provenance: dict[str, Any] = {}
    order_check: Mapping[str, Any] | None = None
    for record in read_journal(journal, torn_tail=True):
        body = record.body
        if record.type == "session":
            sessions += 1
            reason = "running"
            wall_s, elapsed_s = wall_s + elapsed_s, 0.0
            provenance = body
            if body["lock"] != lock.digest:
                raise ArtifactError(f"{folder}: lock.json is not the journal's lock")
            continue
        elapsed_s = max(elapsed_s, body.get("elapsed_s", 0.0))
        if record.type == "attempt":
            failures += failure_rows(study, body, final=False)
        elif record.type == "cell":
            total.add(body["cell"], leaf_digest(body))
            cells.append((body["index"], result_rows(study, body)))
            failures += failure_rows(study, body, final=True)
            failed += body["status"] == "failed"
            places[body["cell"]] = (record.offset, record.length)
        elif record.type == "order":
            order_check = freeze(body)
        elif record.type == "end":
            reason = body["reason"]
    cells.sort(key=lambda item: item[0])
    planned = int(lock.document["plan"]["cells"])
    return RunRecord(
        path=folder,
        study=study,
        lock=lock.document,
        lock_digest=lock.digest,
        rows=tuple(row for _, rows in cells for row in rows),
        failures=tuple(failures),
        results_digest=total.value(),
        planned_cells=planned,
        finished_cells=len(cells),
        failed_cells=failed,
        complete=len(cells) == planned,
        wall_s=wall_s + elapsed_s,
        reason=reason,
        sessions=sessions,
        provenance=freeze(provenance),
        order_check=order_check,
        _places=places,
    )

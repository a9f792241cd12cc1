"""Ask a few cells again in the opposite order: does an answer hang on earlier ones?

In mode session a process keeps what a request leaves. So once every cell is
finished a sample of them, drawn by their ids, runs again in new processes and from
the last to the first. An answer that differs then depends on the order, or on
chance; both make a comparison worth less, and the journal says so.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from lazycore.experiments._numbers import plural
from lazycore.experiments._outcome import cell_body, leaf_digest
from lazycore.experiments._plan import Cell, plan_cells

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from lazycore.experiments._attempt import CellOutcome
    from lazycore.experiments._digests import ResultsDigest
    from lazycore.experiments._engine import Engine
    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._reader import RunRecord

__all__ = ["SAMPLE", "check_order", "order_text"]

SAMPLE = 32


def check_order(
    lock: StudyLock,
    total: ResultsDigest,
    engine: Engine,
    work: Callable[[Cell], CellOutcome],
    interrupted: Event,
) -> dict[str, Any] | None:
    """Run a sample of the finished cells again, the last one first.

    Args:
        lock: The locked study.
        total: The leaves of every cell.
        engine: Where cells run; its earlier run is over.
        work: What it does with a cell.
        interrupted: Set when the run shall stop.

    Returns:
        The body of the ``order`` record: how many cells were asked again, which
        answered otherwise, which did not answer. None when interrupted.
    """
    plan = plan_cells(lock.study, lock.digest)
    sample = nsmallest(SAMPLE, plan, key=lambda cell: cell.id)
    sample.sort(key=lambda cell: cell.index, reverse=True)
    differing: list[str] = []
    failed: list[str] = []
    outcomes = engine.run(iter(sample), work)
    try:
        for outcome in outcomes:
            if interrupted.is_set():
                engine.abandon()
                return None
            if outcome is None:
                continue
            body = cell_body(outcome.cell, outcome.arms)
            if leaf_digest(body) == total.leaf(outcome.cell.id):
                continue
            found = failed if body["status"] == "failed" else differing
            found.append(outcome.cell.id)
    finally:
        outcomes.close()
    return {
        "checked": len(sample),
        "differing": sorted(differing),
        "failed": sorted(failed),
    }


def order_text(record: RunRecord) -> str:
    """Say in one sentence what came of the check; empty where none was made."""
    check = record.order_check
    if check is None:
        return ""
    asked = f"{plural(check['checked'], 'cell')} asked again in the opposite order"
    silent = f", {len(check['failed']):,} without an answer" if check["failed"] else ""
    if not check["differing"]:
        return f"{asked}: the answers are the same{silent}"
    return (
        f"{asked}: {len(check['differing']):,} answered otherwise{silent}; the results "
        "depend on the order of the cells or on chance"
    )

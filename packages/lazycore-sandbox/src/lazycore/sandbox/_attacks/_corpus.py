"""The corpus as one table, the residuals each backend is known for, and the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lazycore.sandbox._attacks import (
    _caller,
    _endings,
    _files,
    _inherited,
    _kernel,
    _limits,
    _links,
    _network,
    _processes,
    _programs,
    _siblings,
)
from lazycore.sandbox._attacks._attack import Attack, Outcome, Verdict
from lazycore.sandbox._attacks._stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._guarantees import Guarantee

CORPUS: Final[tuple[Attack, ...]] = tuple(
    sorted(
        (
            *_files.ROWS,
            *_links.ROWS,
            *_kernel.ROWS,
            *_processes.ROWS,
            *_inherited.ROWS,
            *_programs.ROWS,
            *_network.ROWS,
            *_limits.ROWS,
            *_endings.ROWS,
            *_caller.ROWS,
            *_siblings.ROWS,
        ),
        key=lambda attack: (int(attack.id[:2]), attack.id),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one attack ended against one backend, and whether that is accepted.

    Attributes:
        attack: The row.
        verdict: What happened.
        missing: Guarantees against it that the backend does not declare here.
    """

    attack: Attack
    verdict: Verdict
    missing: frozenset[Guarantee]

    @property
    def residual(self) -> str:
        """Why this row was let through knowingly; empty when it was not."""
        if self.verdict.outcome is not Outcome.THROUGH:
            return ""
        if self.attack.reason:
            return self.attack.reason
        if self.missing:
            names = ", ".join(sorted(self.missing))
            return f"this backend does not promise {names}"
        return ""

    @property
    def breach(self) -> bool:
        """Whether a promise was broken, or the row could not be tried at all."""
        if self.verdict.outcome is Outcome.BROKEN:
            return True
        return self.verdict.outcome is Outcome.THROUGH and not self.residual


def run_attack(attack: Attack, stage: Stage, engine: BaseSandboxExecutor) -> Finding:
    """Run one row; an attack that raises is broken, never held."""
    try:
        verdict = attack.run(stage, engine)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not a pass
        detail = f"{type(error).__name__}: {error}"[:300]
        verdict = Verdict(outcome=Outcome.BROKEN, detail=detail)
        stage.touched()
    missing = attack.needs - engine.probe().guarantees
    return Finding(attack=attack, verdict=verdict, missing=missing)


def run_corpus(
    engine: BaseSandboxExecutor,
    *,
    only: Collection[str] = (),
    progress: Callable[[int, int, Attack], None] | None = None,
) -> list[Finding]:
    """Run the corpus against a backend that was told to run whatever it is given.

    Args:
        engine: An executor with every guarantee in `allow_degraded`, so that rows
            it cannot hold are tried and told instead of refused.
        only: Ids of the rows to run; empty runs all.
        progress: Called before each row with its place, the count and the row.
    """
    rows = [attack for attack in CORPUS if not only or attack.id in only]
    findings: list[Finding] = []
    with Stage() as stage:
        for at, attack in enumerate(rows):
            if progress is not None:
                progress(at, len(rows), attack)
            findings.append(run_attack(attack, stage, engine))
    return findings

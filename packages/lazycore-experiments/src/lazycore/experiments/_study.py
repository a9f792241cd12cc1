"""What a study declares: arms, benchmarks, seeds, metrics, limits, analysis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lazycore.experiments._failures import FailureClass
from lazycore.experiments._frozen import freeze

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "MODES",
    "Analysis",
    "Arm",
    "Benchmark",
    "Limits",
    "Metric",
    "ModelSlot",
    "Retries",
    "Study",
]


MODES = ("fresh", "fork", "session")


def _empty() -> Mapping[str, Any]:
    empty: Mapping[str, Any] = freeze({})
    return empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way of treating the units: a worker entrypoint and its parameters.

    Attributes:
        name: The key under ``[arms]``.
        title: What people read.
        entrypoint: Worker file, relative to the study's tree.
        interpreter: Program that runs it, by name or absolute path; empty for the
            Python that locks the study.
        arguments: Command-line arguments of the worker.
        environment: Names of the variables that are passed to the worker.
        parameters: Request parameters of this arm alone.
    """

    name: str
    title: str
    entrypoint: str
    interpreter: str = ""
    arguments: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=_empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Units that are measured under every arm.

    Attributes:
        id: The benchmark's name.
        title: What people read.
        units: Unit ids, unique.
        groups: Units that were sampled together, by the group's name: then the group
            is the cluster. Empty where each unit stands for itself.
        block_size: How many units one request carries at most.
        parameters: Request parameters of this benchmark alone.
    """

    id: str
    title: str
    units: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=_empty)
    block_size: int = 1
    parameters: Mapping[str, Any] = field(default_factory=_empty)

    @property
    def group_of(self) -> Mapping[str, str] | None:
        """The group of each unit, or None where none is declared."""
        found = {unit: name for name, units in self.groups.items() for unit in units}
        return found or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number that a worker returns per unit.

    Attributes:
        name: The key under ``[metrics]``.
        title: What people read.
        goal: ``maximize`` or ``minimize``.
        kind: ``binary`` or ``real``.
        primary: Whether the verdict rests on it.
        equivalence_margin: Differences below it count as none, or None.
        failed_value: The score of a failed arm under the policy ``score``; None for
            a minimised metric that names none.
        worst_value: The score of a failed arm under ``worst-case``; None takes the
            worst value seen.
    """

    name: str
    title: str
    goal: str = "maximize"
    kind: str = "real"
    primary: bool = False
    equivalence_margin: float | None = None
    failed_value: float | None = 0.0
    worst_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one attempt may use; None leaves a resource to the sandbox's default.

    Attributes:
        wall_timeout_s: Seconds until the worker and all it started are killed.
        memory_bytes: Memory of the worker.
        cpu_s: CPU seconds of the worker.
        processes: Processes and threads of the worker.
        output_bytes: Kept bytes of stdout and of stderr.
        response_bytes: Longest response.
    """

    wall_timeout_s: float = 60.0
    memory_bytes: int | None = None
    cpu_s: float | None = None
    processes: int | None = None
    output_bytes: int = 2**20
    response_bytes: int = 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Which failures are tried again, and when the study gives up.

    Attributes:
        attempts: Attempts per arm of a cell, the first included.
        classes: Failure classes that are tried again.
        max_failed: Stop after this many failed cells; None never stops.
    """

    attempts: int = 2
    classes: tuple[FailureClass, ...] = (FailureClass.INFRASTRUCTURE,)
    max_failed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSlot:
    """A checkpoint that the study's cells run on.

    Attributes:
        slot: Name of the slot.
        checkpoint: The checkpoint's name.
        license: SPDX expression of its licence.
        tier: 1 permissive, 2 restricted and gated.
        conditions: What a user of a tier 2 checkpoint accepts.
        url: Where the licence is published, or None.
    """

    slot: str
    checkpoint: str
    license: str
    tier: int
    conditions: tuple[str, ...] = ()
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """How the arms are compared, declared before the run.

    Attributes:
        alpha: Significance level over the declared primaries.
        confidence: Level of the intervals.
        resamples: Bootstrap and permutation resamples.
        failed_arms: ``score``, ``drop-pair`` or ``worst-case``.
        correction: Correction over the primaries, ``holm``.
        looks: Shares of the clusters after which somebody may look before the end;
            empty where nobody looks.
        spending: How the level is spent over the looks and the end,
            ``obrien-fleming`` or ``pocock``.
    """

    alpha: float = 0.05
    confidence: float = 0.95
    resamples: int = 10_000
    failed_arms: str = "score"
    correction: str = "holm"
    looks: tuple[float, ...] = ()
    spending: str = "obrien-fleming"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A checked study file.

    Attributes:
        id: Short name.
        title: What people read.
        question: The question the study answers.
        baseline: The arm that does nothing.
        mode: ``fresh`` (a process per arm and cell), ``fork`` (a warm server
            forks one confined child per request) or ``session`` (a process per arm
            and slot answers many requests, which gives up that a cell can't see
            what an earlier one left).
        seeds: Replicates inside each unit.
        tree: Folder that is snapshotted, relative to the study file.
        exclude: Patterns left out of the snapshot.
        parameters: Request parameters shared by all arms.
        arms: The arms, in the file's order.
        benchmarks: The benchmarks, in the file's order.
        metrics: The declared metrics.
        limits: Limits of one attempt.
        retries: Retry policy.
        models: Model slots; empty when no model is named.
        analysis: The analysis plan.
        path: The file, or None for a study that was read from a lock.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from lazycore.experiments import Study, init_study
        >>> with TemporaryDirectory() as folder:
        ...     study = Study.load(init_study(Path(folder) / "mine"))
        >>> study.baseline
        'no_op'
    """

    id: str
    title: str
    question: str
    baseline: str
    mode: str
    seeds: tuple[int, ...]
    tree: str
    exclude: tuple[str, ...]
    parameters: Mapping[str, Any]
    arms: tuple[Arm, ...]
    benchmarks: tuple[Benchmark, ...]
    metrics: tuple[Metric, ...]
    limits: Limits
    retries: Retries
    models: tuple[ModelSlot, ...]
    analysis: Analysis
    path: Path | None = None

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read and check a study file.

        Args:
            path: A TOML file, or the folder that holds ``study.toml``.

        Returns:
            The study, its units read from their files.

        Raises:
            StudyError: The file is wrong; names file, key and remedy.
            ArtifactError: The file is absent or not a regular file.
        """
        from lazycore.experiments._study_file import load_study

        return load_study(path)

    def arm(self, name: str) -> Arm:
        """Return the arm of that name.

        Raises:
            LookupError: No arm has that name.
        """
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise LookupError(f"study {self.id} has no arm {name!r}")

    def benchmark(self, benchmark: str) -> Benchmark:
        """Return the benchmark of that id.

        Raises:
            LookupError: No benchmark has that id.
        """
        for found in self.benchmarks:
            if found.id == benchmark:
                return found
        raise LookupError(f"study {self.id} has no benchmark {benchmark!r}")

    def document(self) -> dict[str, Any]:
        """Return the study as plain JSON in the shape of its file, units inlined."""
        from lazycore.experiments._study_document import study_document

        return study_document(self)

"""The manifest of a method-versus-NO_OP discovery: a strict document and its cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import MAX_INTEGER, digest
from lazycore.experiments._errors import ValidationError
from lazycore.experiments._frozen import freeze, thaw
from lazycore.experiments._strict_table import StrictTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "STAGES",
    "DiscoveryArm",
    "DiscoveryCell",
    "DiscoveryManifest",
    "DiscoveryTarget",
]

STAGES = (
    "calibration",
    "confirmation",
    "development",
    "discovery",
    "replication",
    "test",
    "validation",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryTarget:
    """A benchmark split of a manifest.

    Attributes:
        cell_id: Benchmark id.
        split: Which part of it.
        unit_ids: Units named inline, or empty.
        inventory_env: Variable that names an inventory file, or None.
        external: Whether the benchmark lies outside the adapter.
        source_revision: Where it comes from; mandatory when external.
        arms: Arms that run on it; empty for all.
    """

    cell_id: str
    split: str
    unit_ids: tuple[str, ...]
    inventory_env: str | None
    external: bool
    source_revision: str | None
    arms: tuple[str, ...]

    @property
    def key(self) -> str:
        """``benchmark:split``, the key of resolved units."""
        return f"{self.cell_id}:{self.split}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryArm:
    """An arm of a manifest.

    Attributes:
        arm_id: Its name.
        release_id: Release under test.
        family: Family of methods it belongs to.
        profile_kind: Kind of its profile.
        arm_kind: ``no_op``, ``candidate`` or ``control``.
        parameters: Parameters of the arm.
    """

    arm_id: str
    release_id: str
    family: str
    profile_kind: str
    arm_kind: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryCell:
    """One unit under the arms of a manifest, with one seed and model slot.

    Attributes:
        study_id: The study.
        benchmark: Benchmark id.
        split: Split of it.
        unit_id: The unit.
        model_slot: Slot, or None.
        seed: Replicate.
        arm_ids: Arms in the order of the manifest.
        manifest_sha256: The manifest it belongs to.

    Examples:
        >>> cell = DiscoveryCell(
        ...     study_id="s", benchmark="b", split="test", unit_id="u",
        ...     model_slot=None, seed=0, arm_ids=("no_op", "candidate"),
        ...     manifest_sha256="0" * 64,
        ... )
        >>> len(cell.id)
        64
    """

    study_id: str
    benchmark: str
    split: str
    unit_id: str
    model_slot: str | None
    seed: int
    arm_ids: tuple[str, ...]
    manifest_sha256: str

    def __post_init__(self) -> None:
        if len(set(self.arm_ids)) < 2 or len(set(self.arm_ids)) != len(self.arm_ids):
            raise ValidationError(f"arm_ids {self.arm_ids!r}: want two or more, unique")
        if type(self.seed) is not int or not 0 <= self.seed <= MAX_INTEGER:
            raise ValidationError(f"seed {self.seed!r}: want 0 to 2**53 - 1")

    @property
    def id(self) -> str:
        """SHA-256 over everything the cell is."""
        return digest(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryManifest:
    """A checked manifest.

    Attributes:
        study_id: Short name.
        stage: One of `STAGES`.
        estimand: What the study estimates.
        method_id: The method under test.
        candidate_release_id: Its release.
        targets: Benchmark splits.
        arms: The arms, at least two.
        seeds: Replicates.
        model_slots: Names of checkpoints; empty for none.
        driver: ``module:attribute`` of the driver's factory.
        requires_atomic_external_replay: Whether the method keeps state outside.
        prerequisites: Names of variables, files, directories, executables.
        metadata: Anything else the author wrote.
        document: The whole document.

    Examples:
        >>> DiscoveryManifest.from_document({})
        Traceback (most recent call last):
        ...
        lazycore.experiments._errors.StudyError: study: schema_version: missing; ...
    """

    study_id: str
    stage: str
    estimand: str
    method_id: str
    candidate_release_id: str
    targets: tuple[DiscoveryTarget, ...]
    arms: tuple[DiscoveryArm, ...]
    seeds: tuple[int, ...]
    model_slots: tuple[str, ...]
    driver: str
    requires_atomic_external_replay: bool
    prerequisites: Mapping[str, tuple[str, ...]]
    metadata: Mapping[str, Any]
    document: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_document(cls, document: object) -> DiscoveryManifest:
        """Check a manifest document.

        Raises:
            StudyError: A field is missing, unknown or of the wrong type.
        """
        root = StrictTable(document, None, "")
        root.one_of("schema_version", int, (1,))
        arms = tuple(_arm(table) for table in root.tables("arms"))
        names = [arm.arm_id for arm in arms]
        if len(names) < 2 or len(set(names)) != len(names):
            raise root.error("arms", "want two or more arms, each id once")
        targets = tuple(_target(table, names) for table in root.tables("benchmarks"))
        keys = [target.key for target in targets]
        if not keys or len(set(keys)) != len(keys):
            raise root.error(
                "benchmarks", "want one or more benchmark splits, each once"
            )
        seeds = tuple(root.array("seeds", int, (0,)))
        if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0:
            raise root.error("seeds", "want one or more seeds from 0, each once")
        wanted = root.table("prerequisites", {})
        prerequisites = {
            kind: tuple(wanted.array(kind, str, ()))
            for kind in ("env", "file_env", "directory_env", "executable")
        }
        wanted.done()
        driver = root.take("driver", str)
        if driver.count(":") != 1:
            raise root.error("driver", "want module:attribute")
        found = cls(
            study_id=root.name("study_id"),
            stage=root.one_of("stage", str, STAGES),
            estimand=root.take("estimand", str),
            method_id=root.take("method_id", str),
            candidate_release_id=root.take("candidate_release_id", str),
            targets=targets,
            arms=arms,
            seeds=seeds,
            model_slots=tuple(root.array("model_slots", str, ())),
            driver=driver,
            requires_atomic_external_replay=root.take(
                "requires_atomic_external_replay", bool, default=False
            ),
            prerequisites=freeze(prerequisites),
            metadata=root.parameters("metadata"),
            document=freeze(document),
        )
        root.done()
        return found

    @property
    def sha256(self) -> str:
        """SHA-256 of the canonical document."""
        return digest(thaw(self.document))

    def arm(self, arm_id: str) -> DiscoveryArm:
        """Return the arm of that id.

        Raises:
            ValidationError: The manifest has no such arm.
        """
        for arm in self.arms:
            if arm.arm_id == arm_id:
                return arm
        raise ValidationError(f"the manifest has no arm {arm_id!r}")

    def target(self, benchmark: str, split: str) -> DiscoveryTarget:
        """Return the benchmark split.

        Raises:
            ValidationError: The manifest has no such benchmark split.
        """
        for target in self.targets:
            if (target.cell_id, target.split) == (benchmark, split):
                return target
        raise ValidationError(f"the manifest has no benchmark {benchmark!r}:{split!r}")

    def cells(
        self,
        resolved_units: Mapping[str, tuple[str, ...]],
        *,
        shard: tuple[int, int] = (0, 1),
    ) -> Iterator[DiscoveryCell]:
        """Yield the cells: targets x sorted units x model slots x seeds.

        Args:
            resolved_units: ``benchmark:split`` to unit ids.
            shard: ``(i, n)`` yields every n-th cell from the i-th on, with the ids
                that they have in the whole plan.

        Raises:
            ValidationError: There is no such shard.
        """
        first, step = shard
        if not 0 <= first < step:
            raise ValidationError(f"shard {first} of {step}: want 0 to n - 1 of n")
        return islice(self._plan(resolved_units), first, None, step)

    def _plan(
        self, resolved_units: Mapping[str, tuple[str, ...]]
    ) -> Iterator[DiscoveryCell]:
        manifest_sha256 = self.sha256
        slots: tuple[str | None, ...] = self.model_slots or (None,)
        everyone = tuple(arm.arm_id for arm in self.arms)
        for target in self.targets:
            for unit in sorted(resolved_units[target.key]):
                for slot in slots:
                    for seed in self.seeds:
                        yield DiscoveryCell(
                            study_id=self.study_id,
                            benchmark=target.cell_id,
                            split=target.split,
                            unit_id=unit,
                            model_slot=slot,
                            seed=seed,
                            arm_ids=target.arms or everyone,
                            manifest_sha256=manifest_sha256,
                        )


def _arm(table: StrictTable) -> DiscoveryArm:
    arm = DiscoveryArm(
        arm_id=table.name("arm_id"),
        release_id=table.take("release_id", str),
        family=table.take("family", str),
        profile_kind=table.take("profile_kind", str),
        arm_kind=table.one_of("arm_kind", str, ("no_op", "candidate", "control")),
        parameters=table.parameters("parameters"),
    )
    table.done()
    return arm


def _target(table: StrictTable, arms: list[str]) -> DiscoveryTarget:
    target = DiscoveryTarget(
        cell_id=table.name("cell_id"),
        split=table.name("split"),
        unit_ids=tuple(table.array("unit_ids", str, ())),
        inventory_env=table.take("inventory_env", str, None),
        external=table.take("external", bool, default=False),
        source_revision=table.take("source_revision", str, None),
        arms=tuple(table.array("arms", str, ())),
    )
    table.done()
    if bool(target.unit_ids) == (target.inventory_env is not None):
        raise table.error("unit_ids", "want either unit_ids or inventory_env")
    if len(set(target.unit_ids)) != len(target.unit_ids):
        raise table.error("unit_ids", "a unit is listed twice")
    if target.external and not target.source_revision:
        raise table.error("source_revision", "missing; an external benchmark needs it")
    strangers = sorted(set(target.arms) - set(arms))
    if strangers:
        raise table.error("arms", f"no arm is named {strangers[0]!r}")
    return target

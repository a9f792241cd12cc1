"""Read a study file strictly: unknown keys, wrong types and doubles are errors."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

from lazycore.experiments._canonical import MAX_INTEGER
from lazycore.experiments._errors import ArtifactError, StudyError
from lazycore.experiments._failures import FailureClass
from lazycore.experiments._sequential import SPENDING
from lazycore.experiments._strict_table import StrictTable
from lazycore.experiments._study import (
    MODES,
    Analysis,
    Arm,
    Limits,
    Metric,
    ModelSlot,
    Retries,
    Study,
)
from lazycore.experiments._study_units import read_benchmarks

__all__ = ["load_study", "study_from_document"]

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
# The host sets these itself; a study that passes them could unpin the worker.
_HOST_VARIABLES = re.compile(
    r"PYTHON.*|LD_.*|DYLD_.*|LAZYCORE_.*|LC_.*|LANG|PATH|PWD|HOME|TMPDIR|TZ"
)
_UNLIMITED = 2.0**53
_NEAREST_LOOKS = 0.05


def load_study(path: str | Path) -> Study:
    """Read and check a study file; see `Study.load`."""
    file = Path(path)
    if file.is_dir():
        file /= "study.toml"
    if file.is_symlink() or not file.is_file():
        raise ArtifactError(f"{file}: no regular file; give the path of a study.toml")
    try:
        document = tomllib.loads(file.read_bytes().decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(file, "", f"not TOML: {error}") from error
    return study_from_document(document, path=file)


def study_from_document(document: object, *, path: Path | None = None) -> Study:
    """Check a study document.

    Args:
        document: What the TOML file holds, or the ``study`` of a lock.
        path: The file it came from; unit files lie beside it.

    Raises:
        StudyError: Anything is missing, unknown, of the wrong type or contradictory.
    """
    root = StrictTable(document, path, "")
    root.one_of("schema", int, (1,))
    head = root.table("study")
    identifier = head.name("id")
    mode = head.one_of("mode", str, MODES, MODES[0])
    seeds = tuple(head.array("seeds", int, (0,)))
    if not seeds or len(set(seeds)) != len(seeds):
        raise head.error("seeds", "want at least one seed, each once")
    if not all(0 <= seed <= MAX_INTEGER for seed in seeds):
        raise head.error("seeds", "want seeds from 0 to 2**53 - 1")
    tree = head.relative("tree", ".")
    arms = _arms(root)
    benchmarks = read_benchmarks(root, path.parent / tree if path else None)
    metrics = _metrics(root)
    baseline = head.take("baseline", str)
    if baseline not in {arm.name for arm in arms}:
        raise head.error("baseline", f"no arm is named {baseline!r}; add it to [arms]")
    study = Study(
        id=identifier,
        title=head.take("title", str, identifier),
        question=head.take("question", str, ""),
        baseline=baseline,
        mode=mode,
        seeds=seeds,
        tree=tree,
        exclude=tuple(head.array("exclude", str, ())),
        parameters=root.parameters("parameters"),
        arms=arms,
        benchmarks=benchmarks,
        metrics=metrics,
        limits=_limits(root.table("limits", {})),
        retries=_retries(root.table("retries", {})),
        models=_models(root),
        analysis=_analysis(root.table("analysis", {})),
        path=path,
    )
    head.done()
    root.done()
    _check_failed_scores(root, study)
    _check_looks(root, study)
    _check_mode(root, study)
    return study


def _check_mode(root: StrictTable, study: Study) -> None:
    """Refuse what a mode can't hold."""
    if study.mode == "fork" and any(arm.interpreter for arm in study.arms):
        raise root.error(
            "study.mode", 'only Python workers can fork; set mode = "fresh"'
        )
    if study.mode == "session" and study.limits.cpu_s is not None:
        raise root.error(
            "limits.cpu_s",
            "a process that answers many requests has no CPU time of one request; "
            "remove it (wall_timeout_s holds for each) or take another mode",
        )


def _check_looks(root: StrictTable, study: Study) -> None:
    """Refuse looks between which a cluster could grow."""
    for index, benchmark in enumerate(study.benchmarks):
        if study.analysis.looks and benchmark.groups and benchmark.block_size > 1:
            raise root.error(
                f"benchmarks[{index}].block_size",
                "a block may hold units of several groups, so that a look could see "
                "half a group; with looks and groups set block_size = 1",
            )


def _check_failed_scores(root: StrictTable, study: Study) -> None:
    """Refuse a policy under which a failing arm would look good."""
    for metric in study.metrics:
        if study.analysis.failed_arms == "score" and metric.failed_value is None:
            raise root.error(
                f"metrics.{metric.name}.failed_value",
                "missing; 0 is the best a minimised metric can be, so say what a "
                "failed arm scores, or set failed_arms = 'drop-pair'",
            )


def _arms(root: StrictTable) -> tuple[Arm, ...]:
    worker = root.table("worker", {})
    entrypoint = worker.relative("entrypoint", "")
    interpreter = worker.take("interpreter", str, "")
    arguments = worker.array("arguments", str, ())
    environment = worker.array("environment", str, ())
    worker.done()
    arms = []
    for name, table in root.named_tables("arms", "arm_order"):
        arm = Arm(
            name=name,
            title=table.take("title", str, name),
            entrypoint=table.relative("entrypoint", entrypoint),
            interpreter=table.take("interpreter", str, interpreter),
            arguments=tuple(table.array("arguments", str, arguments)),
            environment=tuple(table.array("environment", str, environment)),
            parameters=table.parameters("parameters"),
        )
        if arm.entrypoint in {"", "."}:
            raise table.error(
                "entrypoint", "missing; name the worker file here or under [worker]"
            )
        if any("\0" in argument for argument in arm.arguments):
            raise table.error("arguments", "an argument holds a NUL character")
        if "\0" in arm.interpreter or (
            "/" in arm.interpreter and not arm.interpreter.startswith("/")
        ):
            raise table.error("interpreter", "want a program's name or absolute path")
        _check_environment(table, arm.environment)
        table.done()
        arms.append(arm)
    if len(arms) < 2:
        raise root.error("arms", f"found {len(arms)}; want a baseline and a candidate")
    return tuple(arms)


def _check_environment(table: StrictTable, names: tuple[str, ...]) -> None:
    if len(set(names)) != len(names):
        raise table.error("environment", "a name is listed twice")
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise table.error(
                "environment", f"{name[:80]!r}: want upper-case letters, digits, '_'"
            )
        if _HOST_VARIABLES.fullmatch(name):
            raise table.error("environment", f"{name} is set by the host; remove it")


def _metrics(root: StrictTable) -> tuple[Metric, ...]:
    metrics = []
    for name, table in root.named_tables("metrics", "metric_order"):
        goal = table.one_of("goal", str, ("maximize", "minimize"), "maximize")
        metrics.append(
            Metric(
                name=name,
                title=table.take("title", str, name),
                goal=goal,
                kind=table.one_of("kind", str, ("binary", "real"), "real"),
                primary=table.take("primary", bool, default=False),
                equivalence_margin=table.number(
                    "equivalence_margin", float, None, above=0
                ),
                failed_value=table.number(
                    "failed_value",
                    float,
                    0.0 if goal == "maximize" else None,
                    above=-_UNLIMITED,
                ),
                worst_value=table.number("worst_value", float, None, above=-_UNLIMITED),
            )
        )
        table.done()
    if not any(metric.primary for metric in metrics):
        raise root.error(
            "metrics", "no metric is primary; set primary = true on what decides"
        )
    return tuple(metrics)


def _limits(table: StrictTable) -> Limits:
    limits = Limits(
        wall_timeout_s=table.number("wall_timeout_s", float, 60.0, above=0),
        memory_bytes=table.number("memory_bytes", int, None, above=0),
        cpu_s=table.number("cpu_s", float, None, above=0),
        processes=table.number("processes", int, None, above=0),
        output_bytes=table.number("output_bytes", int, 2**20, above=0),
        response_bytes=table.number("response_bytes", int, 8 * 2**20, above=0),
    )
    table.done()
    return limits


def _retries(table: StrictTable) -> Retries:
    names = table.array("classes", str, [FailureClass.INFRASTRUCTURE.value])
    known = [str(item) for item in FailureClass]
    for name in names:
        if name not in known:
            raise table.error(
                "classes",
                f"{name[:80]!r} is no failure class (known: {', '.join(known)})",
            )
    retries = Retries(
        attempts=table.number("attempts", int, 2, above=0, below=101),
        classes=tuple(map(FailureClass, names)),
        max_failed=table.number("max_failed", int, None, above=0),
    )
    table.done()
    return retries


def _models(root: StrictTable) -> tuple[ModelSlot, ...]:
    models: list[ModelSlot] = []
    for table in root.tables("models", ()):
        model = ModelSlot(
            slot=table.name("slot"),
            checkpoint=table.take("checkpoint", str),
            license=table.take("license", str),
            tier=table.one_of("tier", int, (1, 2)),
            conditions=tuple(table.array("conditions", str, ())),
            url=table.take("url", str, None),
        )
        table.done()
        if model.slot in {known.slot for known in models}:
            raise table.error("slot", f"model slot {model.slot!r} is declared twice")
        models.append(model)
    return tuple(models)


def _analysis(table: StrictTable) -> Analysis:
    looks = tuple(table.array("looks", float, ()))
    for before, look in pairwise((0.0, *looks, 1.0)):
        if not before + _NEAREST_LOOKS <= look:
            raise table.error(
                "looks",
                "want shares of the units between 0 and 1, each at least 0.05 after "
                "the one before; the end of the run is always the last look",
            )
    analysis = Analysis(
        alpha=table.number("alpha", float, 0.05, above=0, below=1),
        confidence=table.number("confidence", float, 0.95, above=0, below=1),
        resamples=table.number("resamples", int, 10_000, above=99, below=10**7),
        failed_arms=table.one_of(
            "failed_arms", str, ("score", "drop-pair", "worst-case"), "score"
        ),
        correction=table.one_of("correction", str, ("holm",), "holm"),
        looks=looks,
        spending=table.one_of("spending", str, SPENDING, SPENDING[0]),
    )
    table.done()
    return analysis

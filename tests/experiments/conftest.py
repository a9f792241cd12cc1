"""Studies on disk, and host pins that are read once per session."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from lazycore.experiments import (
    FailureRow,
    ResultRow,
    RunRecord,
    Study,
    lock_study,
    pin_host,
    run_study,
    verify_run,
)
from lazycore.experiments._study import (
    Analysis,
    Arm,
    Benchmark,
    Limits,
    Metric,
    Retries,
)
from lazycore.sandbox import get_default_executor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazycore.experiments import HostPins, StudyLock
    from lazycore.sandbox import BaseSandboxExecutor, SandboxPolicy

WORKER = """\
from lazycore.experiments import AlgorithmFailure, Reply, Request, serve


def handler(request: Request):
{body}


if __name__ == "__main__":
    serve(handler)
"""
STUDY = """\
schema = 1
[study]
id = "sample"
baseline = "no_op"
mode = "{mode}"
seeds = {seeds}
[worker]
entrypoint = "worker.py"
[arms.no_op]
parameters = {{ gain = 0 }}
[arms.candidate]
parameters = {{ gain = 1 }}
[[benchmarks]]
id = "bench"
units = {units}
block_size = {block}
[metrics.score]
primary = true
[limits]
wall_timeout_s = {timeout}
{extra}
"""


class WriteStudy(Protocol):
    """Write a study whose handler has this body."""

    def __call__(
        self,
        body: str = "return {'score': request.parameters['gain']}",
        *,
        units: list[str] | None = None,
        seeds: list[int] | None = None,
        mode: str = "fresh",
        block: int = 1,
        timeout: float = 20.0,
        extra: str = "",
        worker: str | None = None,
    ) -> Path: ...


class MakeLock(Protocol):
    """Lock a study file with the session's host pins."""

    def __call__(self, study: Path) -> StudyLock: ...


class RunBody(Protocol):
    """Write, lock and run a study in one go."""

    def __call__(self, body: str, **options: object) -> RunRecord: ...


@pytest.fixture(scope="session")
def pins() -> HostPins:
    return pin_host()


def write_study_in(
    folder: Path,
    body: str = "return {'score': request.parameters['gain']}",
    *,
    units: list[str] | None = None,
    seeds: list[int] | None = None,
    mode: str = "fresh",
    block: int = 1,
    timeout: float = 20.0,
    extra: str = "",
    worker: str | None = None,
) -> Path:
    folder.mkdir(exist_ok=True)
    text = worker or WORKER.format(body=textwrap.indent(body, "    "))
    (folder / "worker.py").write_text(text)
    path = folder / "study.toml"
    path.write_text(
        STUDY.format(
            mode=mode,
            seeds=seeds or [0],
            units=units or ["u0", "u1", "u2"],
            block=block,
            timeout=timeout,
            extra=extra,
        )
    )
    return path


@pytest.fixture
def write_study(tmp_path: Path) -> WriteStudy:
    return functools.partial(write_study_in, tmp_path / "study")


@pytest.fixture
def make_lock(pins: HostPins) -> MakeLock:
    def make(study: Path) -> StudyLock:
        return lock_study(Study.load(study), pins=pins)

    return make


@pytest.fixture
def run_body(write_study: WriteStudy, make_lock: MakeLock, tmp_path: Path) -> RunBody:
    def run(body: str, **options: object) -> RunRecord:
        study = write_study(body, **options)  # type: ignore[arg-type]  # passed on
        return run_study(make_lock(study), tmp_path / "run", slots=2)

    return run


@pytest.fixture(scope="session")
def session_sandbox() -> Iterator[BaseSandboxExecutor]:
    with get_default_executor() as executor:
        yield executor


@pytest.fixture
def one_sandbox(
    session_sandbox: BaseSandboxExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lend runs the session's sandbox: each of its own starts a launcher first.

    Runs of another process and of the engine's own tests open theirs.
    """

    def lend(policy: SandboxPolicy | None = None) -> BaseSandboxExecutor:
        if policy is not None:
            get_default_executor(policy).close()  # may this host hold it?
        return session_sandbox

    monkeypatch.setattr(session_sandbox, "close", lambda: None)
    monkeypatch.setattr("lazycore.sandbox.get_default_executor", lend)


@pytest.fixture(scope="session")
def finished_once(pins: HostPins, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run two units to their end, once; never changed."""
    place = tmp_path_factory.mktemp("finished")
    study = write_study_in(place / "study", units=["u0", "u1"])
    run_study(lock_study(Study.load(study), pins=pins), place / "run")
    assert verify_run(place / "run").findings == ()
    return place


@pytest.fixture
def finished(finished_once: Path, tmp_path: Path) -> Path:
    """Copy a finished run into this test's folder, its study beside it."""
    shutil.copytree(finished_once, tmp_path, symlinks=True, dirs_exist_ok=True)
    return tmp_path / "run"


class MakeRecord(Protocol):
    """Make the record of a finished run from its values.

    ``values`` maps benchmark to unit to one (baseline, candidate) pair per seed;
    None is an arm that failed.
    """

    def __call__(
        self,
        values: Mapping[str, Mapping[str, Sequence[tuple[float | None, float | None]]]],
        *,
        metric: Metric | None = None,
        analysis: Analysis | None = None,
        titles: tuple[str, str, str] = ("Sample", "no_op", "candidate"),
        output: object = None,
        planned: int | None = None,
        retried: Sequence[str] = (),
    ) -> RunRecord: ...


@pytest.fixture
def make_record(tmp_path: Path) -> MakeRecord:
    def make(
        values: Mapping[str, Mapping[str, Sequence[tuple[float | None, float | None]]]],
        *,
        metric: Metric | None = None,
        analysis: Analysis | None = None,
        titles: tuple[str, str, str] = ("Sample", "no_op", "candidate"),
        output: object = None,
        planned: int | None = None,
        retried: Sequence[str] = (),
    ) -> RunRecord:
        metric = metric or Metric(name="score", title="score", primary=True)
        arms = ("no_op", "candidate")
        seeds = max(len(p) for units in values.values() for p in units.values())
        rows: list[ResultRow] = []
        failures: list[FailureRow] = []
        journal = bytearray()
        places: dict[str, tuple[int, int]] = {}
        for benchmark, units in values.items():
            for unit, pairs in units.items():
                for seed, pair in enumerate(pairs):
                    text = f"{benchmark}:{unit}:{seed}"
                    cell = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
                    identifier = cell.hexdigest()
                    for arm, value in zip(arms, pair, strict=True):
                        failed = None if value is not None else "timeout"
                        attempt = 2 if unit in retried else 1
                        rows.append(
                            ResultRow(
                                cell=identifier,
                                benchmark=benchmark,
                                unit=unit,
                                seed=seed,
                                arm=arm,
                                metric=metric.name,
                                value=value,
                                status="failed" if failed else "succeeded",
                                failure_class=failed,
                                attempt=attempt,
                                wall_s=0.01 * (1 + len(rows) % 7),
                                cpu_s=None,
                                max_rss_bytes=None,
                                request_digest="0" * 64,
                                response_digest=None,
                            )
                        )
                        if failed:
                            failures.append(
                                FailureRow(
                                    cell=identifier,
                                    benchmark=benchmark,
                                    units=(unit,),
                                    seed=seed,
                                    arm=arm,
                                    attempt=attempt,
                                    failure_class=failed,
                                    message="no answer in 1 s",
                                    final=True,
                                )
                            )
                    kept = {unit: {"output": output}}
                    body = {"arms": {arm: {"units": kept} for arm in arms}}
                    line = json.dumps({"body": body}).encode()
                    places[identifier] = (len(journal), len(line))
                    journal += line + b"\n"
        folder = Path(tempfile.mkdtemp(prefix="record-", dir=tmp_path))
        (folder / "journal.jsonl").write_bytes(journal)
        study = Study(
            id="sample",
            title=titles[0],
            question="",
            baseline="no_op",
            mode="fresh",
            seeds=tuple(range(seeds)),
            tree=".",
            exclude=(),
            parameters={},
            arms=tuple(
                Arm(name=name, title=title, entrypoint="worker.py")
                for name, title in zip(arms, titles[1:], strict=True)
            ),
            benchmarks=tuple(
                Benchmark(id=name, title=name, units=tuple(units))
                for name, units in values.items()
            ),
            metrics=(metric,),
            limits=Limits(),
            retries=Retries(),
            models=(),
            analysis=analysis or Analysis(resamples=999),
        )
        return RunRecord(
            path=folder,
            study=study,
            lock={"study_sha256": "ab" * 32},
            lock_digest="ab" * 32,
            rows=tuple(rows),
            failures=tuple(failures),
            results_digest="cd" * 32,
            planned_cells=planned or len(places),
            finished_cells=len(places),
            failed_cells=len({row.cell for row in failures}),
            complete=planned in {None, len(places)},
            wall_s=12.5,
            reason="complete",
            sessions=1,
            provenance={"python": "3.11.7", "guarantees": ("network", "memory")},
            _places=places,
        )

    return make

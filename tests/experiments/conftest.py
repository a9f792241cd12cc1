"""Studies on disk, and host pins that are read once per session."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from lazycore.experiments import Study, lock_study, pin_host, run_study

if TYPE_CHECKING:
    from lazycore.experiments import HostPins, RunRecord, StudyLock

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


@pytest.fixture
def write_study(tmp_path: Path) -> WriteStudy:
    def write(
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
        folder = tmp_path / "study"
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

    return write


@pytest.fixture
def make_lock(pins: HostPins) -> MakeLock:
    def make(study: Path) -> StudyLock:
        return lock_study(Study.load(study), pins=pins)

    return make


@pytest.fixture
def run_body(
    write_study: WriteStudy, make_lock: MakeLock, tmp_path: Path
) -> RunBody:
    def run(body: str, **options: object) -> RunRecord:
        study = write_study(body, **options)  # type: ignore[arg-type]  # passed on
        return run_study(make_lock(study), tmp_path / "run", slots=2)

    return run

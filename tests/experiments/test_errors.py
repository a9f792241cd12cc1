"""One root, and each error is also the builtin that its caller expects."""

from __future__ import annotations

import pytest

import lazycore.experiments
from lazycore.experiments import (
    ArtifactError,
    BlockedError,
    CanonicalError,
    ExperimentError,
    ExternalDependencyError,
    JournalError,
    ProtocolError,
    RunBusyError,
    StudyError,
    ValidationError,
    WorkerError,
)


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        (ValidationError, (ExperimentError, ValueError)),
        (CanonicalError, (ValidationError,)),
        (StudyError, (ValidationError,)),
        (ProtocolError, (ValidationError,)),
        (ArtifactError, (ExperimentError,)),
        (JournalError, (ArtifactError,)),
        (RunBusyError, (ExperimentError, BlockingIOError)),
        (BlockedError, (ExperimentError,)),
        (ExternalDependencyError, (ExperimentError, ImportError)),
        (WorkerError, (ExperimentError,)),
    ],
)
def test_an_error_is_what_its_caller_expects(
    error: type[Exception], parents: tuple[type[Exception], ...]
) -> None:
    assert all(issubclass(error, parent) for parent in parents)


def test_no_error_stands_outside_the_root() -> None:
    names = [n for n in lazycore.experiments.__all__ if n.endswith("Error")]
    assert len(names) == 11
    assert all(
        issubclass(getattr(lazycore.experiments, name), ExperimentError)
        for name in names
    )


def test_an_error_of_a_worker_may_carry_its_receipt() -> None:
    error = WorkerError("timeout", "no answer in 60 s")
    assert error.receipt is None
    error.receipt = {"wall_s": 60.0}
    assert error.receipt["wall_s"] == 60.0
    assert error.failure_class == "timeout"

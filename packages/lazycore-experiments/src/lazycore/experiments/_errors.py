"""Every exception that lazycore.experiments raises, under one root."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "ArtifactError",
    "BlockedError",
    "CanonicalError",
    "ExperimentError",
    "ExternalDependencyError",
    "JournalError",
    "ProtocolError",
    "RunBusyError",
    "StudyError",
    "ValidationError",
    "WorkerError",
]


class ExperimentError(Exception):
    """Root of every error of this slice.

    Attributes:
        receipt: Resource receipt of the worker that was running, or None.

    Examples:
        >>> issubclass(StudyError, ExperimentError)
        True
    """

    receipt: Mapping[str, object] | None = None


class ValidationError(ExperimentError, ValueError):
    """A document or value has the wrong shape.

    Examples:
        >>> issubclass(ValidationError, ValueError)
        True
    """


class CanonicalError(ValidationError):
    """A value has no canonical JSON form, or a text is not strict JSON.

    Examples:
        >>> from lazycore.experiments import canonical
        >>> canonical(float("nan"))
        Traceback (most recent call last):
        ...
        lazycore.experiments._errors.CanonicalError: $: nan is not a JSON number
    """


class StudyError(ValidationError):
    """A study file is wrong; says the file, the key and what to do.

    Attributes:
        path: The study file, or None for a study that came from a lock.
        key: Dotted key inside it, ``""`` for the whole document.

    Examples:
        >>> str(StudyError(None, "study.mode", "unknown mode"))
        'study: study.mode: unknown mode'
    """

    def __init__(self, path: Path | None, key: str, problem: str) -> None:
        self.path = path
        self.key = key
        where = str(path) if path is not None else "study"
        super().__init__(": ".join(part for part in (where, key, problem) if part))


class ArtifactError(ExperimentError):
    """A file, folder or digest is absent, changed or unsafe.

    Examples:
        >>> issubclass(ArtifactError, ExperimentError)
        True
    """


class JournalError(ArtifactError):
    """A journal's chain does not hold; says the record and what was found.

    Examples:
        >>> issubclass(JournalError, ArtifactError)
        True
    """


class RunBusyError(ExperimentError, BlockingIOError):
    """Another process holds the run folder.

    Examples:
        >>> issubclass(RunBusyError, BlockingIOError)
        True
    """


class BlockedError(ExperimentError):
    """A study may not start; carries every blocker.

    Attributes:
        blockers: What stands in the way, each with code, message and fix.

    Examples:
        >>> from lazycore.experiments import Blocker
        >>> found = Blocker(code="drift", message="worker.py changed", fix="lock")
        >>> BlockedError((found,)).blockers[0].code
        'drift'
    """

    def __init__(self, blockers: tuple[object, ...]) -> None:
        self.blockers = blockers
        lines = "\n".join(f"  {blocker}" for blocker in blockers)
        super().__init__(f"the study is blocked:\n{lines}")


class ExternalDependencyError(ExperimentError, ImportError):
    """An optional library or data package is missing; names the command.

    Examples:
        >>> issubclass(ExternalDependencyError, ImportError)
        True
    """


class WorkerError(ExperimentError):
    """A worker did not answer; carries the failure class.

    Attributes:
        failure_class: Which kind of failure it was.

    Examples:
        >>> WorkerError("timeout", "no answer in 60 s").failure_class
        'timeout'
    """

    def __init__(self, failure_class: str, message: str) -> None:
        self.failure_class = failure_class
        super().__init__(message)


class ProtocolError(ValidationError):
    """A worker answered, but not in the protocol.

    Examples:
        >>> issubclass(ProtocolError, ValueError)
        True
    """

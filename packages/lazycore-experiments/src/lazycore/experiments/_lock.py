"""Lock a study: one canonical document with every digest, and its SHA-256.

That SHA-256 is the number a paper prints. It covers the study, every file of its
tree, the interpreter with its libraries, every installed package, the worker SDK,
the unit inventory and the model slots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lazycore.experiments._blockers import Blocker
from lazycore.experiments._canonical import canonical, digest, sha256_hex
from lazycore.experiments._environment import difference
from lazycore.experiments._errors import ArtifactError, CanonicalError, StudyError
from lazycore.experiments._frozen import freeze, thaw
from lazycore.experiments._host_pins import interpreter_sha256, pin_host
from lazycore.experiments._plan import count_cells
from lazycore.experiments._strict_json import parse
from lazycore.experiments._study_file import study_from_document
from lazycore.experiments._tree import Tree, TreeFile, read_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lazycore.experiments._host_pins import HostPins
    from lazycore.experiments._study import Study

__all__ = [
    "LOCK_FORMAT",
    "StudyLock",
    "lock_study",
]

LOCK_FORMAT = "lazycore-experiments/study-lock/1"
_LIMIT = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyLock:
    """A locked study.

    Attributes:
        study: The study as locked, units inlined.
        document: The whole lock, read-only.
        data: Its canonical bytes.
        digest: SHA-256 of those bytes.
        source: The folder the tree was read from; None for a lock read from a file.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from lazycore.experiments import Study, init_study, lock_study
        >>> with TemporaryDirectory() as folder:
        ...     study = Study.load(init_study(Path(folder) / "mine"))
        ...     lock = lock_study(study)
        >>> len(lock.digest)
        64
    """

    study: Study
    document: Mapping[str, Any]
    data: bytes
    digest: str
    source: Path | None = None

    @classmethod
    def from_bytes(cls, data: bytes) -> StudyLock:
        """Read a lock.

        Raises:
            ArtifactError: It is not canonical, of another format, or contradicts
                itself.
        """
        try:
            document = parse(data, limit_bytes=_LIMIT)
            if not isinstance(document, dict) or document.get("format") != LOCK_FORMAT:
                raise ArtifactError(f"the lock is not of format {LOCK_FORMAT}")
            if canonical(document) != data:
                raise ArtifactError("the lock is not in canonical form")
            study = study_from_document(document["study"])
        except (CanonicalError, StudyError, KeyError) as error:
            raise ArtifactError(f"the lock can't be read: {error}") from error
        if document.get("study_sha256") != digest(document["study"]):
            raise ArtifactError("the lock's study_sha256 is not that of its study")
        return cls(
            study=study,
            document=freeze(document),
            data=data,
            digest=sha256_hex(data),
        )

    @classmethod
    def read(cls, path: Path) -> StudyLock:
        """Read a lock file; see `from_bytes`."""
        try:
            return cls.from_bytes(path.read_bytes())
        except OSError as error:
            raise ArtifactError(f"{path}: {error.strerror}") from error
        except ArtifactError as error:
            raise ArtifactError(f"{path}: {error}") from error

    @property
    def tree_sha256(self) -> str:
        """SHA-256 over the files the workers run from."""
        value: str = self.document["tree"]["sha256"]
        return value

    def tree(self) -> Tree:
        """Return the locked tree; blob ids are not kept in a lock."""
        files = tuple(
            TreeFile(path=path, mode=mode, size=size, sha256=value, blob="")
            for path, mode, size, value in self.document["tree"]["files"]
        )
        return Tree(
            files=files,
            git_tree=self.document["tree"]["git_tree"],
            sha256=self.tree_sha256,
        )

    def entrypoint_sha256(self, arm: str) -> str:
        """Return the locked digest of an arm's worker file."""
        value: str = self.document["workers"][arm]["sha256"]
        return value

    def drift(self, found: StudyLock) -> tuple[Blocker, ...]:
        """Compare this lock with one made now; name what differs.

        Args:
            found: A lock of the same study made on this host.

        Returns:
            One blocker per kind of difference, empty when the digests are equal.
        """
        if found.digest == self.digest:
            return ()
        blockers = []
        ours, theirs = thaw(self.document), thaw(found.document)
        fix = "restore it, or make a new lock and a new run folder"
        tree = _tree_changes(self.tree(), found.tree())
        if tree:
            blockers.append(_blocker("tree-drift", tree, fix))
        if ours["study"] != theirs["study"]:
            keys = [
                key
                for key in sorted(ours["study"].keys() | theirs["study"].keys())
                if ours["study"].get(key) != theirs["study"].get(key)
            ]
            blockers.append(_blocker("study-drift", keys, fix))
        pins = [
            key
            for key in sorted(ours["interpreter"])
            if ours["interpreter"][key] != theirs["interpreter"].get(key)
        ]
        if pins:
            blockers.append(_blocker("interpreter-drift", pins, fix))
        packages = difference(ours["environment"], theirs["environment"])
        if packages:
            blockers.append(_blocker("environment-drift", packages, fix))
        programs = [
            f"arm {name}"
            for name, worker in sorted(ours["workers"].items())
            if worker["interpreter_sha256"]
            != theirs["workers"].get(name, worker)["interpreter_sha256"]
        ]
        if programs:
            blockers.append(_blocker("interpreter-drift", programs, fix))
        if ours["sdk"] != theirs["sdk"]:
            blockers.append(_blocker("sdk-drift", ["the worker SDK"], fix))
        if not blockers:
            blockers.append(_blocker("lock-drift", ["the lock's own fields"], fix))
        return tuple(blockers)

    def missing_variables(self, environment: Mapping[str, str]) -> tuple[Blocker, ...]:
        """Return one blocker per arm whose passed variables are unset or empty."""
        blockers = []
        for arm in self.study.arms:
            missing = sorted(
                name for name in arm.environment if not environment.get(name)
            )
            if missing:
                blockers.append(
                    Blocker(
                        code="variable-missing",
                        message=f"arm {arm.name}: {', '.join(missing)} not set",
                        fix="export a value or remove the name from the study",
                    )
                )
        return tuple(blockers)


def lock_study(
    study: Study,
    *,
    pins: HostPins | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StudyLock:
    """Hash everything a study depends on and write it down.

    Args:
        study: A study that was loaded from a file.
        pins: What `pin_host` found a moment ago; read anew when None.
        progress: Called with installed files hashed and files in all.

    Returns:
        The lock; nothing is written.

    Raises:
        StudyError: The study came from no file, or an entrypoint is missing.
        ArtifactError: A file can't be read or is unsafe.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from lazycore.experiments import Study, init_study
        >>> with TemporaryDirectory() as folder:
        ...     lock = lock_study(Study.load(init_study(Path(folder) / "mine")))
        >>> lock.study.baseline
        'no_op'
    """
    if study.path is None:
        raise StudyError(None, "", "it was read from a lock; load it from its file")
    tree = read_tree(study.path.parent / study.tree, study.exclude)
    files = {file.path: file for file in tree.files}
    workers = {}
    for arm in study.arms:
        file = files.get(arm.entrypoint)
        if file is None or file.mode == "120000":
            raise StudyError(
                study.path,
                f"arms.{arm.name}.entrypoint",
                f"{arm.entrypoint!r} is no regular file of the tree",
            )
        workers[arm.name] = {
            "entrypoint": file.path,
            "sha256": file.sha256,
            "interpreter_sha256": interpreter_sha256(study, arm),
        }
    host = pins or pin_host(progress=progress)
    document: dict[str, Any] = {
        "schema": 1,
        "format": LOCK_FORMAT,
        "study": study.document(),
        "study_sha256": digest(study.document()),
        "tree": {
            "git_tree": tree.git_tree,
            "sha256": tree.sha256,
            "files": tree.manifest(),
        },
        "workers": workers,
        "interpreter": host.interpreter,
        "environment": host.environment,
        "sdk": host.sdk,
        "inventory": {
            benchmark.id: {
                "units": len(benchmark.units),
                "sha256": digest(sorted(benchmark.units)),
            }
            for benchmark in study.benchmarks
        },
        "plan": {
            "cells": count_cells(study),
            "arms": len(study.arms),
            "order": "sha256(cell:arm)",
        },
    }
    lock = StudyLock.from_bytes(canonical(document))
    return replace(lock, source=study.path.parent / study.tree)


def _tree_changes(ours: Tree, theirs: Tree) -> list[str]:
    if ours.sha256 == theirs.sha256:
        return []
    return ours.difference(theirs)


def _blocker(code: str, names: list[str], fix: str) -> Blocker:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return Blocker(code=code, message="; ".join(names[:5]) + more, fix=fix)

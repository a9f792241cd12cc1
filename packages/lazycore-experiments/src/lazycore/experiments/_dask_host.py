"""What a dask worker process does: prove its host, run cells, forget the study."""

from __future__ import annotations

import importlib
import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.experiments._attempt import CellOutcome, Workers
from lazycore.experiments._errors import ArtifactError, ExperimentError
from lazycore.experiments._host_pins import interpreter_sha256, pin_host
from lazycore.experiments._launch import worker_policies
from lazycore.experiments._lock import StudyLock
from lazycore.experiments._snapshot import take_snapshot

if TYPE_CHECKING:
    from lazycore.experiments._plan import Cell
    from lazycore.sandbox import BaseSandboxExecutor

__all__ = ["Files", "NotPreparedError", "Remote", "forget_host", "prepare_host"]

Files = list[tuple[str, int, bytes]]


class NotPreparedError(ExperimentError):
    """A worker that joined late has no host of this study yet."""


class Remote:
    """What a dask worker does with a cell; travels by pickle to trusted hosts."""

    def __init__(self, digest: str) -> None:
        self._digest = digest

    def __call__(self, cell: Cell) -> CellOutcome:
        host = _hosts.get(self._digest)
        if host is None:
            raise NotPreparedError(_address())
        return host.workers.run(cell)


class _Host:
    """A study made ready in one dask worker process."""

    def __init__(self, lock: StudyLock, files: Files) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="lazycore-study-")
        try:
            place = Path(self._home.name).resolve()
            _write_files(place / "received", files)
            self._snapshot = take_snapshot(
                place / "received", (), place / "snapshot", lock.tree_sha256
            )
            _refuse_other_host(lock)
            _refuse_missing_variables(lock)
            self.executor = _open_sandbox(lock, self._snapshot.root)
            self.workers = Workers(
                lock, self._snapshot.root, self.executor, dict(os.environ)
            )
        except BaseException:
            self._home.cleanup()
            raise

    def close(self) -> None:
        self.workers.close()
        self.executor.close()
        self._home.cleanup()


_hosts: dict[str, _Host] = {}
_guard = threading.Lock()


def prepare_host(digest: str, lock_data: bytes, files: Files) -> str:
    with _guard:
        host = _hosts.get(digest)
        if host is None:
            host = _hosts[digest] = _Host(StudyLock.from_bytes(lock_data), files)
        return host.executor.name


def forget_host(digest: str) -> None:
    with _guard:
        host = _hosts.pop(digest, None)
    if host is not None:
        host.close()


def _open_sandbox(lock: StudyLock, snapshot: Path) -> BaseSandboxExecutor:
    from lazycore.sandbox import get_default_executor

    return get_default_executor(worker_policies(lock, snapshot, os.environ)[0])


def _refuse_missing_variables(lock: StudyLock) -> None:
    missing = lock.missing_variables(os.environ)
    if missing:
        raise ArtifactError("; ".join(map(str, missing)))


def _refuse_other_host(lock: StudyLock) -> None:
    """Compare this host's pins with the lock's, as a drift of the lock would be."""
    from lazycore.experiments._canonical import canonical
    from lazycore.experiments._frozen import thaw

    pins = pin_host()
    here = {
        **thaw(lock.document),
        "interpreter": thaw(pins.interpreter),
        "environment": thaw(pins.environment),
        "sdk": thaw(pins.sdk),
    }
    for arm in lock.study.arms:
        found = interpreter_sha256(lock.study, arm)
        here["workers"][arm.name]["interpreter_sha256"] = found
    blockers = lock.drift(StudyLock.from_bytes(canonical(here)))
    if blockers:
        raise ArtifactError("; ".join(map(str, blockers)))


def _write_files(folder: Path, files: Files) -> None:
    folder.mkdir()
    for name, mode, data in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if mode == 0o120000:
            path.symlink_to(data.decode())
        else:
            path.write_bytes(data)
            path.chmod(mode & 0o777)


def _address() -> str:
    address: str = importlib.import_module("distributed").get_worker().address
    return address

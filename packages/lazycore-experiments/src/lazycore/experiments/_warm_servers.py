"""Mode fork: one warm server per slot, one confined child of it per request."""

from __future__ import annotations

import errno
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazycore.experiments import _warm
from lazycore.experiments._classify import (
    RawAttempt,
    WarmStartError,
    classify,
    classify_error,
)
from lazycore.experiments._launch import import_path, worker_policy
from lazycore.experiments._start_record import StartRecord

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._study import Arm
    from lazycore.sandbox import BaseSandboxExecutor, SandboxSession

__all__ = ["WarmServers"]


@dataclass(slots=True)
class _Slot:
    """The warm servers of one thread, by what they load."""

    sessions: dict[str, SandboxSession] = field(default_factory=dict)


class WarmServers:
    """Answers requests in forks of warm servers; safe to share between threads.

    Args:
        lock: The locked study.
        snapshot: The read-only copy workers run from.
        executor: The sandbox backend.
        environment: Where passed variables get their values.
        caches: The folder of the bytecode that workers run.
    """

    def __init__(
        self,
        lock: StudyLock,
        snapshot: Path,
        executor: BaseSandboxExecutor,
        environment: Mapping[str, str],
        caches: Path,
    ) -> None:
        self._lock = lock
        self._snapshot = snapshot
        self._executor = executor
        self._environment = environment
        self._caches = caches
        self._local = threading.local()
        self._slots: list[_Slot] = []
        self._guard = threading.Lock()
        self._starts = StartRecord()
        self._closed = False

    def answer(self, arm: Arm, data: bytes) -> RawAttempt:
        """Run one request in a child of this thread's server."""
        from lazycore.sandbox import SandboxError

        session = self._session(arm)
        try:
            result = session.run_callable(_warm.respond, data)
        except SandboxError as error:
            if error.result is None:
                self._drop(arm)
                raise
            return classify_error(error, error.result)
        reply = result.value
        return classify(result, reply if isinstance(reply, bytes) else None)

    def distrust(self, arm: Arm) -> None:
        """Do nothing: no child of a failed attempt is left."""

    def close(self) -> None:
        """End every server; attempts that still run end without a result."""
        with self._guard:
            self._closed = True
            slots, self._slots = self._slots, []
        for slot in slots:
            for session in slot.sessions.values():
                session.close()
            slot.sessions.clear()

    def _key(self, arm: Arm) -> str:
        # Arms that start alike share a server: their parameters come by request.
        return json.dumps([arm.entrypoint, arm.arguments, arm.environment])

    def _slot(self) -> _Slot:
        slot: _Slot | None = getattr(self._local, "slot", None)
        if slot is None:
            slot = self._local.slot = _Slot()
            with self._guard:
                self._slots.append(slot)
        return slot

    def _session(self, arm: Arm) -> SandboxSession:
        from lazycore.sandbox import SandboxError, SandboxLaunchError, SandboxSession

        slot, key = self._slot(), self._key(arm)
        session = slot.sessions.get(key)
        if session is not None:
            return session
        if self._closed:
            raise WarmStartError("the run was interrupted")
        self._starts.require_hope(key)
        order = {
            "entrypoint": str(self._snapshot / arm.entrypoint),
            "sha256": self._lock.entrypoint_sha256(arm.name),
            "arguments": list(arm.arguments),
            "caches": str(self._caches),
        }
        warm = worker_policy(
            self._lock,
            self._snapshot,
            arm,
            self._environment,
            host_environment={_warm.VARIABLE: json.dumps(order)},
            caches=self._caches,
        )
        try:
            session = SandboxSession(
                warm,
                executor=self._executor,
                preload=(_warm.__name__,),
                path=import_path(self._snapshot, arm),
            )
        except SandboxError as error:
            # Of all launch failures only the import's own is the worker's.
            if isinstance(error, SandboxLaunchError) and error.errno == errno.ENOPKG:
                raise self._starts.failed(key, error) from error
            self._starts.late(key, error)
            raise
        self._starts.ready(key)
        slot.sessions[key] = session
        return session

    def _drop(self, arm: Arm) -> None:
        session = self._slot().sessions.pop(self._key(arm), None)
        if session is not None:
            session.close()

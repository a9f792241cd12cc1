"""Mode session: one process per slot and arm answers many requests, one by one.

For workers that must load once and cannot be forked: a model on an accelerator, a
runtime with threads. What a request leaves in that process the next one finds, so
this mode gives up the isolation of cells from each other; arms never share one. A
process whose attempt failed is not used again.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lazycore.experiments._classify import (
    RawAttempt,
    WarmStartError,
    classify,
    unmetered,
)
from lazycore.experiments._conversation import Conversation, Ended, OutOfStep
from lazycore.experiments._errors import ExternalDependencyError
from lazycore.experiments._failures import FailureClass
from lazycore.experiments._start_record import StartRecord

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._study import Arm
    from lazycore.sandbox import BaseSandboxExecutor

__all__ = ["SessionWorkers"]

_METHOD = "wall clock only"


class SessionWorkers:
    """Answers requests in long-lived processes; safe to share between threads.

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
        # By thread and arm: no two arms, and no two slots, share a process.
        self._running: dict[tuple[threading.Thread, str], Conversation] = {}
        self._guard = threading.Lock()
        self._starts = StartRecord()
        self._closed = False

    def answer(self, arm: Arm, data: bytes) -> RawAttempt:
        """Ask this thread's process of an arm one request."""
        talk = self._conversation(arm)
        started = time.monotonic()
        try:
            reply = talk.ask(data)
        except (TimeoutError, Ended, OutOfStep) as error:
            wall_s = time.monotonic() - started
            return self._ended(arm, error, wall_s)
        wall_s = time.monotonic() - started
        return RawAttempt(
            reply=reply,
            failure_class=None,
            message=None,
            resources=unmetered(wall_s, "completed", method=_METHOD),
        )

    def distrust(self, arm: Arm) -> None:
        """End an arm's process after an attempt that failed: its state is unknown."""
        with self._guard:
            talk = self._running.pop((threading.current_thread(), arm.name), None)
        if talk is not None:
            talk.end()

    def close(self) -> None:
        """End every process; attempts that still run end without a result."""
        with self._guard:
            self._closed = True
            running = list(self._running.values())
            self._running.clear()
        for talk in running:
            talk.kill()
        for talk in running:
            talk.end()

    def _conversation(self, arm: Arm) -> Conversation:
        from lazycore.sandbox import SandboxError

        key = (threading.current_thread(), arm.name)
        talk = self._running.get(key)
        if talk is not None and talk.in_step:
            return talk
        self.distrust(arm)
        self._end_orphans()
        self._starts.require_hope(arm.name)
        try:
            talk = Conversation(
                self._lock,
                self._snapshot,
                arm,
                executor=self._executor,
                environment=self._environment,
                caches=self._caches,
            )
        except SandboxError as error:
            self._starts.late(arm.name, error)
            raise
        with self._guard:
            closed = self._closed
            if not closed:
                self._running[key] = talk
        if closed:
            talk.end()
            raise WarmStartError("the run was interrupted")
        try:
            talk.await_ready()
        except TimeoutError as error:
            self.distrust(arm)
            limit_s = self._lock.study.limits.wall_timeout_s
            late = TimeoutError(f"the worker was not ready within {limit_s} s")
            self._starts.late(arm.name, late)
            raise late from error
        except (Ended, OutOfStep) as error:
            raw = self._ended(arm, error, 0.0)
            failed = RuntimeError(raw.message or "it ended")
            if raw.resources.exit_reason == "signal":  # whoever sent it, not the load
                self._starts.late(arm.name, failed)
                raise failed from error
            raise self._starts.failed(arm.name, failed) from error
        self._starts.ready(arm.name)
        return talk

    def _end_orphans(self) -> None:
        """End the processes of slots that are gone: memory may not hold both."""
        with self._guard:
            gone = [key for key in self._running if not key[0].is_alive()]
            orphans = [self._running.pop(key) for key in gone]
        for talk in orphans:
            talk.end()

    def _ended(self, arm: Arm, error: Exception, wall_s: float) -> RawAttempt:
        """End an arm's process and say what that means for the request on hand."""
        with self._guard:
            talk = self._running.pop((threading.current_thread(), arm.name), None)
        if talk is None:
            raise WarmStartError("the run was interrupted") from error
        result = talk.end()
        resources = unmetered(wall_s, "completed", method=_METHOD)
        if isinstance(error, TimeoutError):
            return RawAttempt(
                reply=None,
                failure_class=FailureClass.TIMEOUT,
                message="the worker passed its wall-clock limit",
                resources=replace(resources, exit_reason="timed_out"),
            )
        if isinstance(error, OutOfStep):
            return RawAttempt(
                reply=None,
                failure_class=FailureClass.PROTOCOL,
                message=f"the worker left the protocol: {error}",
                resources=resources,
            )
        if result is None:
            raise ExternalDependencyError("the sandbox has lost the worker's process")
        raw = classify(result, None)
        # The figures of the process cover every request it answered, so none is known.
        return replace(
            raw,
            failure_class=raw.failure_class or FailureClass.PROTOCOL,
            message=raw.message or "the worker ended without an answer",
            resources=replace(
                resources,
                exit_reason=raw.resources.exit_reason,
                exit_code=raw.resources.exit_code,
            ),
        )

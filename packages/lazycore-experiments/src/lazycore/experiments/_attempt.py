"""Run one attempt of one arm in the sandbox and say what became of it."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lazycore.experiments import _warm
from lazycore.experiments._canonical import canonical, parse
from lazycore.experiments._errors import CanonicalError, ProtocolError
from lazycore.experiments._failures import FailureClass
from lazycore.experiments._launch import fresh_command, import_path, worker_policy
from lazycore.experiments._outcome import ArmOutcome, Attempt, Resources
from lazycore.experiments._protocol import build_request, read_response
from lazycore.experiments._secrets import Redactor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._plan import Cell
    from lazycore.experiments._protocol import Response
    from lazycore.experiments._study import Arm
    from lazycore.sandbox import BaseSandboxExecutor, SandboxResult, SandboxSession

__all__ = ["CellOutcome", "RawAttempt", "Workers", "classify"]

_METHOD = "wait4"
# A server that can't load its worker fails the same way each time.
_WARM_STARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutcome:
    """A cell and what each of its arms came to."""

    cell: Cell
    arms: Mapping[str, ArmOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawAttempt:
    """What the sandbox handed back, before it is judged."""

    reply: bytes | None
    failure_class: FailureClass | None
    message: str | None
    resources: Resources


class _WarmStartError(Exception):
    """The warm server could not load the worker."""


@dataclass(slots=True)
class _Slot:
    """The warm servers of one thread, by what they load."""

    sessions: dict[str, SandboxSession] = field(default_factory=dict)


class Workers:
    """Runs cells in sandboxed workers; safe to share between threads.

    Args:
        lock: The locked study.
        snapshot: The read-only copy workers run from.
        executor: The sandbox backend; every worker runs through it.
        environment: Where passed variables get their values.
    """

    def __init__(
        self,
        lock: StudyLock,
        snapshot: Path,
        executor: BaseSandboxExecutor,
        environment: Mapping[str, str],
    ) -> None:
        self._lock = lock
        self._snapshot = snapshot
        self._executor = executor
        self._environment = environment
        self._metrics = frozenset(metric.name for metric in lock.study.metrics)
        names = {name for arm in lock.study.arms for name in arm.environment}
        self.redactor = Redactor({name: environment[name] for name in names})
        self.policies = {
            arm.name: worker_policy(lock, snapshot, arm, environment)
            for arm in lock.study.arms
        }
        self._local = threading.local()
        self._slots: list[_Slot] = []
        self._guard = threading.Lock()
        self._broken: dict[str, list[str]] = {}
        self._closed = False

    def run(self, cell: Cell) -> CellOutcome:
        """Run every arm of a cell in its order, with retries."""
        arms = {arm: self._run_arm(cell, arm) for arm in cell.order}
        return CellOutcome(cell=cell, arms=arms)

    def close(self) -> None:
        """End every warm server; attempts that still run end without a result."""
        with self._guard:
            self._closed = True
            slots, self._slots = self._slots, []
        for slot in slots:
            for session in slot.sessions.values():
                session.close()
            slot.sessions.clear()

    def _run_arm(self, cell: Cell, name: str) -> ArmOutcome:
        study = self._lock.study
        data, request_hash = build_request(study, self._lock.digest, cell, name)
        attempts: list[Attempt] = []
        started_ns = time.time_ns()
        while True:
            number = len(attempts) + 1
            attempt = self._attempt(cell, study.arm(name), data, request_hash, number)
            attempts.append(attempt)
            if (
                self._closed
                or attempt.failure_class not in study.retries.classes
                or number >= study.retries.attempts
            ):
                return ArmOutcome(
                    arm=name,
                    request=request_hash,
                    attempts=tuple(attempts),
                    started_ns=started_ns,
                    ended_ns=time.time_ns(),
                )

    def _attempt(
        self, cell: Cell, arm: Arm, data: bytes, request_hash: str, number: int
    ) -> Attempt:
        started = time.monotonic()
        forked = self._lock.study.mode == "fork"
        try:
            raw = self._fork(arm, data) if forked else self._fresh(arm, data)
        except Exception as error:  # noqa: BLE001 - one bad unit never ends a study
            raw = _no_result(error, time.monotonic() - started)
        response: Response | None = None
        failure, message = raw.failure_class, raw.message
        if failure is None:
            response, failure, message = self._judge(cell, raw.reply, request_hash)
        return Attempt(
            number=number,
            failure_class=failure,
            message=None if message is None else self.redactor.text(message),
            resources=raw.resources,
            response=response,
        )

    def _judge(
        self, cell: Cell, reply: bytes | None, request_hash: str
    ) -> tuple[Response | None, FailureClass | None, str | None]:
        if not reply:
            return None, FailureClass.PROTOCOL, "the worker ended without an answer"
        name = self.redactor.find(reply) or self._hidden_secret(reply)
        if name is not None:
            text = f"the value of {name} is in the answer"
            return None, FailureClass.SECRET, text
        try:
            response = read_response(
                reply,
                request_hash=request_hash,
                cell=cell,
                metrics=self._metrics,
                limit=self._lock.study.limits.response_bytes,
            )
        except ProtocolError as error:
            return None, FailureClass.PROTOCOL, str(error)
        units = {
            unit: replace(
                row,
                message=row.message and self.redactor.text(row.message),
                output=self._masked(row.output),
            )
            for unit, row in response.units.items()
        }
        return replace(response, units=units), None, None

    def _hidden_secret(self, reply: bytes) -> str | None:
        """Look again once JSON's own escapes are undone."""
        try:
            return self.redactor.find(canonical(parse(reply)))
        except CanonicalError:
            return None

    def _masked(self, output: object) -> object:
        if output is None:
            return None
        data = canonical(output)
        cleaned = self.redactor.clean(data)
        if cleaned == data:
            return output
        try:
            return parse(cleaned)
        except CanonicalError:  # the mask cut through the JSON's own syntax
            return "[masked]"

    def _fresh(self, arm: Arm, data: bytes) -> RawAttempt:
        result = self._executor.run_command(
            fresh_command(self._lock, self._snapshot, arm),
            self.policies[arm.name],
            input=data,
            reply_limit_bytes=self._lock.study.limits.response_bytes,
        )
        return classify(result, result.reply)

    def _fork(self, arm: Arm, data: bytes) -> RawAttempt:
        from lazycore.sandbox import SandboxError

        session = self._session(arm)
        try:
            result = session.run_callable(_warm.respond, data)
        except SandboxError as error:
            if error.result is None:
                self._drop(arm)
                raise
            return _classify_error(error, error.result)
        reply = result.value
        return classify(result, reply if isinstance(reply, bytes) else None)

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
        from lazycore.sandbox import SandboxError, SandboxSession

        slot, key = self._slot(), self._key(arm)
        session = slot.sessions.get(key)
        if session is not None:
            return session
        if self._closed:
            raise _WarmStartError("the run was interrupted")
        failures = self._broken.setdefault(key, [])
        if len(failures) >= _WARM_STARTS:
            raise _WarmStartError(failures[-1])
        order = {
            "entrypoint": str(self._snapshot / arm.entrypoint),
            "sha256": self._lock.entrypoint_sha256(arm.name),
            "arguments": list(arm.arguments),
        }
        warm = worker_policy(
            self._lock,
            self._snapshot,
            arm,
            self._environment,
            host_environment={_warm.VARIABLE: json.dumps(order)},
        )
        try:
            session = SandboxSession(
                warm,
                executor=self._executor,
                preload=(_warm.__name__,),
                path=import_path(self._snapshot, arm),
            )
        except SandboxError as error:
            failures.append(f"the warm server did not load the worker: {error}")
            raise _WarmStartError(failures[-1]) from error
        slot.sessions[key] = session
        return session

    def _drop(self, arm: Arm) -> None:
        session = self._slot().sessions.pop(self._key(arm), None)
        if session is not None:
            session.close()


def _no_result(error: Exception, wall_s: float) -> RawAttempt:
    """Judge an attempt of which the sandbox has no result at all."""
    from lazycore.sandbox import SandboxCallableError, SandboxFrameError

    failure = FailureClass.INFRASTRUCTURE
    if isinstance(error, _WarmStartError | SandboxCallableError):
        failure = FailureClass.CRASH
    elif isinstance(error, SandboxFrameError):
        failure = FailureClass.PROTOCOL
    return RawAttempt(
        reply=None,
        failure_class=failure,
        message=f"{type(error).__name__}: {error}",
        resources=Resources(
            wall_s=wall_s,
            cpu_s=None,
            max_rss_bytes=None,
            exit_reason="supervisor_error",
            exit_code=None,
            method=_METHOD,
        ),
    )


def _classify_error(error: Exception, result: SandboxResult) -> RawAttempt:
    """Judge an attempt whose callable raised or left no value."""
    from lazycore.sandbox import SandboxCallableError, SandboxFrameError

    raw = classify(result, None)
    if raw.failure_class not in {None, FailureClass.CRASH}:
        return raw
    failure = FailureClass.CRASH
    text = str(error)
    if isinstance(error, SandboxFrameError):
        failure = FailureClass.PROTOCOL
    elif isinstance(error, SandboxCallableError):
        text = error.traceback_text or text
        if error.type_name == "MemoryError":
            failure = FailureClass.OOM
    return replace(raw, failure_class=failure, message=text)


def classify(result: SandboxResult, reply: bytes | None) -> RawAttempt:
    """Say what a sandboxed worker's end means."""
    kinds = {violation.kind for violation in result.violations}
    tail = result.stderr[-8192:].decode("utf-8", "replace").strip()
    reason, failure, message = "completed", None, None
    if result.timed_out or "cpu" in kinds:
        reason, failure = "timed_out", FailureClass.TIMEOUT
        what = "its wall-clock limit" if result.timed_out else "its CPU limit"
        message = f"the worker passed {what}"
    elif "memory" in kinds or (
        result.returncode != 0 and tail.rpartition("\n")[2].startswith("MemoryError")
    ):
        reason, failure = "oom_killed", FailureClass.OOM
        message = "the worker passed its memory limit"
    elif result.signal is not None:
        reason, failure = "signal", FailureClass.CRASH
        message = f"the worker was ended by signal {result.signal}"
    elif result.returncode != 0:
        reason, failure = "nonzero_exit", FailureClass.CRASH
        message = f"the worker ended with status {result.returncode}"
    elif result.reply_truncated:
        failure, message = FailureClass.PROTOCOL, "the answer is over response_bytes"
    if message is not None and tail:
        message = f"{message}: {tail}"
    code = result.returncode if result.signal is None else -result.signal
    return RawAttempt(
        reply=reply,
        failure_class=failure,
        message=message,
        resources=Resources(
            wall_s=result.duration_s,
            cpu_s=result.usage.cpu_s,
            max_rss_bytes=result.usage.max_rss_bytes or None,
            exit_reason=reason,
            exit_code=code,
            method=_METHOD,
        ),
    )

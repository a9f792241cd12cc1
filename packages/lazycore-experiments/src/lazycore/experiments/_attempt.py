"""Run one attempt of one arm in the sandbox and say what became of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from lazycore.experiments._bytecode import bytecode_folder
from lazycore.experiments._canonical import canonical
from lazycore.experiments._classify import classify, no_result
from lazycore.experiments._errors import CanonicalError, ProtocolError
from lazycore.experiments._failures import FailureClass
from lazycore.experiments._launch import fresh_command, worker_policy
from lazycore.experiments._outcome import ArmOutcome, Attempt
from lazycore.experiments._protocol import build_request, read_response
from lazycore.experiments._secrets import Redactor
from lazycore.experiments._session_workers import SessionWorkers
from lazycore.experiments._strict_json import parse
from lazycore.experiments._warm_servers import WarmServers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lazycore.experiments._classify import RawAttempt
    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._plan import Cell
    from lazycore.experiments._protocol import Response
    from lazycore.experiments._study import Arm
    from lazycore.sandbox import BaseSandboxExecutor

__all__ = ["CellOutcome", "Workers"]


class _Keeper(Protocol):
    """Keeps the processes of a mode in which they outlive a request."""

    def answer(self, arm: Arm, data: bytes) -> RawAttempt: ...

    def distrust(self, arm: Arm) -> None: ...

    def close(self) -> None: ...


_KEEPERS: dict[str, Callable[..., _Keeper]] = {
    "fork": WarmServers,
    "session": SessionWorkers,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutcome:
    """A cell and what each of its arms came to."""

    cell: Cell
    arms: Mapping[str, ArmOutcome]


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
        self._caches = bytecode_folder(lock, snapshot, executor)
        self.policies = {
            arm.name: worker_policy(
                lock, snapshot, arm, environment, caches=self._caches
            )
            for arm in lock.study.arms
        }
        keep = _KEEPERS.get(lock.study.mode)
        self._keeper = (
            keep(lock, snapshot, executor, environment, self._caches) if keep else None
        )
        self._closed = False

    def run(self, cell: Cell) -> CellOutcome:
        """Run every arm of a cell in its order, with retries."""
        arms = {arm: self._run_arm(cell, arm) for arm in cell.order}
        return CellOutcome(cell=cell, arms=arms)

    def close(self) -> None:
        """End what outlives an attempt; those that still run end without a result."""
        self._closed = True
        if self._keeper is not None:
            self._keeper.close()

    def _run_arm(self, cell: Cell, name: str) -> ArmOutcome:
        study = self._lock.study
        data, request_hash = build_request(study, self._lock.digest, cell, name)
        attempts: list[Attempt] = []
        tried = cell.tried.get(name, 0)
        started_ns = time.time_ns()
        while True:
            number = tried + len(attempts) + 1
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
        keeper = self._keeper
        try:
            raw = keeper.answer(arm, data) if keeper else self._fresh(arm, data)
        except Exception as error:  # noqa: BLE001 - one bad unit never ends a study
            raw = no_result(error, time.monotonic() - started)
        response: Response | None = None
        failure, message = raw.failure_class, raw.message
        if failure is None:
            response, failure, message = self._judge(cell, raw.reply, request_hash)
        if failure is not None and keeper is not None:
            keeper.distrust(arm)
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
            fresh_command(self._lock, self._snapshot, arm, self._caches),
            self.policies[arm.name],
            input=data,
            reply_limit_bytes=self._lock.study.limits.response_bytes,
        )
        return classify(result, result.reply)

"""What the executors share that start a monitor per run: ending runs on close."""

from __future__ import annotations

import math
import os
import threading
from typing import TYPE_CHECKING

from lazycore.sandbox._errors import SandboxError
from lazycore.sandbox._executor import BaseSandboxExecutor
from lazycore.sandbox._monitored import Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lazycore.sandbox._executor import Order
    from lazycore.sandbox._guarantees import Guarantee
    from lazycore.sandbox._limits import ResourceLimits
    from lazycore.sandbox._outcome import Outcome
    from lazycore.sandbox._policy import SandboxPolicy

_CLOSE_GRACE_S = 20.0


class MonitoredExecutor(BaseSandboxExecutor):
    """Run each target under a monitor of its own, and know those that run."""

    def __init__(self, *, allow_degraded: Iterable[Guarantee] = frozenset()) -> None:
        super().__init__(allow_degraded=allow_degraded)
        self._idle = threading.Condition()
        self._running: set[Target] = set()
        self._closed = False

    def run_monitored(
        self,
        config: Mapping[str, object],
        policy: SandboxPolicy,
        order: Order,
        *,
        pass_fds: Sequence[int] = (),
    ) -> Outcome:
        """Run the target that `config` describes, until it ends or this closes.

        Raises:
            SandboxError: This executor is closed.
            SandboxLostError: It was closed, or the monitor killed, meanwhile.
        """
        deadline = None
        if policy.timeout_s is not None:
            deadline = order.started + policy.timeout_s
        with self._idle:
            if self._closed:
                raise SandboxError("this executor is closed; make a new one")
            target = Target(
                output_bytes=policy.limits.output_bytes,
                input_bytes=order.input_bytes,
                reply_limit=order.reply_limit_bytes,
                pass_fds=pass_fds,
            )
            self._running.add(target)
        try:
            limits = {"limits": _kernel_limits(policy.limits)}
            return target.run({**limits, **config}, deadline=deadline)
        finally:
            with self._idle:
                self._running.discard(target)
                self._idle.notify_all()

    def close(self) -> None:
        """Kill what still runs and refuse further runs."""
        with self._idle:
            self._closed = True
            # A forked copy of the caller has copies of its runs, and no say in them.
            self._running = {
                target for target in self._running if target.owner == os.getpid()
            }
            for target in self._running:
                target.abort()
            self._idle.wait_for(lambda: not self._running, _CLOSE_GRACE_S)


def _kernel_limits(limits: ResourceLimits) -> dict[str, int | None]:
    """Return what setrlimit(2) bounds, per process."""
    return {
        "open_files": limits.open_files,
        "file_size_bytes": limits.file_size_bytes,
        "cpu_s": None if limits.cpu_s is None else math.ceil(limits.cpu_s),
    }

"""A worker process that answers many requests, and the two pipes to it.

Requests and answers are lines in two named pipes of a private folder, the only
place such a worker may write to. The host keeps both ends of each pipe: nothing the
worker opens, closes or puts in their place blocks it.
"""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from lazycore.experiments._launch import fresh_command, worker_policy
from lazycore.experiments._scrap import remove_tree
from lazycore.experiments._worker import READY, REPLIES_VARIABLE, REQUESTS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._study import Arm
    from lazycore.sandbox import BaseSandboxExecutor, SandboxResult

__all__ = ["Conversation", "Ended", "OutOfStep"]

_CHUNK = 1 << 16


class Ended(Exception):  # noqa: N818 - it ends a conversation, it is caught here
    """The worker's process ended before it answered."""


class OutOfStep(Exception):  # noqa: N818 - as above
    """The worker said something that nobody asked for, or too much."""


class Conversation:
    """One long-lived worker process and the two pipes to it.

    Args:
        lock: The locked study.
        snapshot: The read-only copy the worker runs from.
        arm: Whose worker it is.
        executor: The sandbox backend.
        environment: Where passed variables get their values.
        caches: The folder of the bytecode that workers run.
    """

    def __init__(
        self,
        lock: StudyLock,
        snapshot: Path,
        arm: Arm,
        *,
        executor: BaseSandboxExecutor,
        environment: Mapping[str, str],
        caches: Path,
    ) -> None:
        from lazycore.sandbox import SandboxSession

        self._limits = lock.study.limits
        self._command = fresh_command(lock, snapshot, arm, caches)
        self._folder = Path(mkdtemp(prefix="lazycore-session-")).resolve()
        self._pipes: list[int] = []
        self._said = b""
        self._result: SandboxResult | None = None
        self._use = threading.Lock()
        try:
            names = [self._folder / name for name in ("requests", "replies")]
            for path in names:
                os.mkfifo(path, 0o600)
                # For reading and writing: nothing blocks, and no pipe ever lacks an
                # end, whatever the worker opens and closes (fifo(7)).
                flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
                self._pipes.append(os.open(path, flags))
            self._pipes.append(os.eventfd(0, os.EFD_CLOEXEC))
            policy = worker_policy(
                lock,
                snapshot,
                arm,
                environment,
                host_environment={
                    REQUESTS_VARIABLE: str(names[0]),
                    REPLIES_VARIABLE: str(names[1]),
                },
                channel=self._folder,
                caches=caches,
            )
            # A session, because it is what can be ended while others run.
            self._session = SandboxSession(policy, executor=executor)
        except BaseException:
            self._release()
            raise
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def await_ready(self) -> None:
        """Wait until the worker says that it is ready.

        Raises:
            TimeoutError: It does not in time.
            Ended: It ended instead.
            OutOfStep: It says something else.
        """
        with self._use:
            line = self._line(time.monotonic() + self._limits.wall_timeout_s)
        if line != READY:
            raise OutOfStep(f"its first line was not {READY.decode()!r}")

    def ask(self, data: bytes) -> bytes:
        """Hand over one request and return the line that answers it.

        Raises:
            TimeoutError: No answer in time.
            Ended: The process ended instead.
            OutOfStep: It said more than one line, or a line that is too long.
        """
        deadline = time.monotonic() + self._limits.wall_timeout_s
        with self._use:
            self._send(data + b"\n", deadline)
            line = self._line(deadline)
            if self._said:
                raise OutOfStep("it said more than the one line that answers")
        return line

    @property
    def in_step(self) -> bool:
        """Whether the process waits for a request and has said nothing unasked."""
        poll = select.poll()
        for descriptor in self._pipes[1:]:
            poll.register(descriptor, select.POLLIN)
        return not poll.poll(0)

    def kill(self) -> None:
        """End the process and all it started; may be called from any thread."""
        self._session.close()

    def end(self) -> SandboxResult | None:
        """End the process, give everything back; return how it ended, if known."""
        self.kill()
        self._thread.join()
        with self._use:
            self._release()
        return self._result

    def _send(self, data: bytes, deadline: float) -> None:
        requests, _, ended = self._pipes
        view = memoryview(data)
        poll = select.poll()
        poll.register(requests, select.POLLOUT)
        poll.register(ended, select.POLLIN)
        while view:
            ready = _ready(poll, deadline)
            if ended in ready:
                raise Ended
            with suppress(BlockingIOError):
                view = view[os.write(requests, view) :]

    def _line(self, deadline: float) -> bytes:
        _, replies, ended = self._pipes
        poll = select.poll()
        poll.register(replies, select.POLLIN)
        poll.register(ended, select.POLLIN)
        while b"\n" not in self._said:
            if len(self._said) > self._limits.response_bytes:
                raise OutOfStep("the answer is over response_bytes")
            if replies not in _ready(poll, deadline):
                raise Ended
            with suppress(BlockingIOError):
                self._said += os.read(replies, _CHUNK)
        line, _, self._said = self._said.partition(b"\n")
        return line

    def _follow(self) -> None:
        from lazycore.sandbox import SandboxError

        try:
            # A closed session has no result; whoever closed it knows why.
            with suppress(SandboxError):
                self._result = self._session.run_command(self._command)
        finally:
            os.eventfd_write(self._pipes[2], 1)

    def _release(self) -> None:
        pipes, self._pipes = self._pipes, []
        for descriptor in pipes:
            os.close(descriptor)
        remove_tree(self._folder)


def _ready(poll: select.poll, deadline: float) -> set[int]:
    found = {fd for fd, _ in poll.poll(max(0.0, deadline - time.monotonic()) * 1000)}
    if not found:
        raise TimeoutError
    return found

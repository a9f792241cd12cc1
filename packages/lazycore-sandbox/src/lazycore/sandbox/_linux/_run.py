"""One run as the caller sees it: feed it, collect its output, outlive it."""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import select
import signal
import socket
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from lazycore.sandbox._errors import SandboxError, SandboxLostError
from lazycore.sandbox._linux._failures import failure
from lazycore.sandbox._linux._request import (
    Request,
    send_request,
)
from lazycore.sandbox._outcome import Outcome
from lazycore.sandbox._output import HeadTail
from lazycore.sandbox._result import ResourceUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OpenRun: TypeAlias = (
    "Callable[[Callable[[socket.socket], None]], tuple[socket.socket, int]]"
)
"""Opens a child and hands its socket to a callback; returns socket and pidfd."""

_KILL_GRACE_S = 2.0
_DEATH_GRACE_S = 20.0
_CHUNK_BYTES = 1 << 16


class _Reply:
    """Keep the head of the reply; the rest is read and dropped."""

    def __init__(self, limit_bytes: int) -> None:
        self._room = limit_bytes
        self.data = bytearray()
        self.truncated = False

    def feed(self, chunk: bytes) -> None:
        kept = chunk[: self._room]
        self._room -= len(kept)
        self.data += kept
        self.truncated = self.truncated or len(kept) < len(chunk)


class _Patience:
    """Ask, then force, then give up: what follows when a run's time is over."""

    def __init__(
        self,
        sock: socket.socket,
        pidfd: int,
        deadline: float | None,
        *,
        grace_s: float,
    ) -> None:
        self._grace_s = grace_s
        self._sock = sock
        self._pidfd = pidfd
        self._deadline = deadline
        self._step = 0

    @property
    def ran_out(self) -> bool:
        """Whether the run was told to end."""
        return self._step > 0

    def wait_ms(self) -> float | None:
        """Act when the time is over; return how long to wait for the next event."""
        if self._deadline is None:
            return None
        left = self._deadline - time.monotonic()
        if left <= 0:
            left = self._escalate()
            self._deadline = time.monotonic() + left
        # poll(2) counts whole milliseconds: never wake just before the deadline.
        return left * 1000 + 1

    def _escalate(self) -> float:
        self._step += 1
        if self._step == 1:
            with contextlib.suppress(OSError):
                self._sock.send(b"k")
            return self._grace_s
        if self._step == 2:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            return _DEATH_GRACE_S
        raise SandboxError(
            "the run was killed, but the kernel holds one of its processes for more "
            f"than {_DEATH_GRACE_S:.0f} s; see dmesg"
        )


def _written(data: bytes) -> int:
    """Return a descriptor of a file without a name that holds bytes."""
    fd = os.memfd_create("private", os.MFD_CLOEXEC)
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except BaseException:
        os.close(fd)
        raise
    return fd


class Run:
    """One run from the request to the death of its last process."""

    def __init__(
        self,
        request: Request,
        *,
        private: Sequence[str],
        output_bytes: int,
        input_bytes: bytes | None,
        reply_limit_bytes: int | None,
    ) -> None:
        self._private = {key: request[key] for key in private}
        self._request = request | dict.fromkeys(private)
        self._sock: socket.socket | None = None
        self._pidfd = -1
        self._input = memoryview(input_bytes or b"")
        self._stdout = HeadTail(limit_bytes=output_bytes)
        self._stderr = HeadTail(limit_bytes=output_bytes)
        self._reply = None if reply_limit_bytes is None else _Reply(reply_limit_bytes)
        self._heard = bytearray()
        self._readers: dict[int, Callable[[bytes], None]] = {}
        self._writer = -1
        self._dead = False

    def collect(self, open_run: OpenRun, *, deadline: float | None) -> Outcome:
        """Send the request, pump the pipes, return when every process is dead.

        Args:
            open_run: Opens a child, which calls back with its socket.
            deadline: When to end the run, as time.monotonic() counts.

        Raises:
            SandboxLostError: If the supervisor ended without an answer.
            SandboxLaunchError: If the target was not started.
        """
        try:
            self._sock, self._pidfd = open_run(self._submit)
            self._sock.settimeout(0)
            timed_out = self._pump(self._sock, deadline)
            return self._outcome(timed_out=timed_out)
        finally:
            self._release()

    def _submit(self, sock: socket.socket) -> None:
        """Make the pipes and send the request; anew for a replaced launcher."""
        self._close_pipes()
        theirs: list[int] = []
        try:
            if len(self._input):
                read, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                os.set_blocking(read, True)
                theirs.append(read)
            else:
                theirs.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
            sinks = [self._stdout.feed, self._stderr.feed]
            if self._reply is not None:
                sinks.append(self._reply.feed)
            for sink in sinks:
                read, write = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(read, False)
                self._readers[read] = sink
                theirs.append(write)
            if self._private:
                theirs.append(_written(marshal.dumps(self._private)))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # A supervisor that failed early has left its reason to read.
                send_request(sock, self._request, theirs)
        finally:
            for fd in theirs:
                os.close(fd)

    def _pump(self, sock: socket.socket, deadline: float | None) -> bool:
        """Move bytes until every process is dead; return whether time ran out.

        The supervisor's final answer comes after it reaped the last process, so
        there is no need to wait for its own end as well.
        """
        # The death of a namespace's pid 1 takes all with it. Without one only the
        # supervisor can tell when the last process is gone, so it gets the time.
        own = self._request["namespaces"]
        grace_s = _KILL_GRACE_S if own else _DEATH_GRACE_S
        patience = _Patience(sock, self._pidfd, deadline, grace_s=grace_s)
        self._readers[sock.fileno()] = self._heard.extend
        poll = select.poll()
        for fd in (*self._readers, self._pidfd):
            poll.register(fd, select.POLLIN)
        if self._writer >= 0:
            poll.register(self._writer, select.POLLOUT)
        while not self._dead:
            for fd, _ in poll.poll(patience.wait_ms()):
                if fd == self._pidfd:
                    self._dead = True
                elif not (self._write() if fd == self._writer else self._read(fd)):
                    poll.unregister(fd)
                    if fd == self._writer:
                        self._close_writer()
            self._dead = self._dead or self._is_final()
        for fd in self._readers:
            while self._read(fd):
                pass
        return patience.ran_out

    def _read(self, fd: int) -> bool:
        """Read once; return whether there may be more."""
        try:
            chunk = os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            return not self._dead
        except ConnectionResetError:
            return False
        if chunk:
            self._readers[fd](chunk)
        return bool(chunk)

    def _is_final(self) -> bool:
        return self._heard.endswith(b"\n")

    def _write(self) -> bool:
        try:
            done = os.write(self._writer, self._input[:_CHUNK_BYTES])
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        self._input = self._input[done:]
        return bool(len(self._input))

    def _close_writer(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def _outcome(self, *, timed_out: bool) -> Outcome:
        answer = self._parse_answer()
        if answer is None and not timed_out:
            raise SandboxLostError(
                "the sandbox was killed from outside while the target ran, and the "
                "run with it; the result is lost"
            )
        if answer is not None and "error" in answer:
            raise failure(answer["error"])
        # A supervisor that had to be killed as well says nothing.
        told = {"status": signal.SIGKILL} if answer is None else answer
        reply = self._reply
        return Outcome(
            status=int(told["status"]),
            stdout=self._stdout.captured(),
            stderr=self._stderr.captured(),
            reply=None if reply is None else bytes(reply.data),
            reply_truncated=reply is not None and reply.truncated,
            timed_out=timed_out,
            usage=ResourceUsage(
                cpu_user_s=float(told.get("cpu_user_s", 0)),
                cpu_system_s=float(told.get("cpu_system_s", 0)),
                max_rss_bytes=int(told.get("max_rss_bytes", 0)),
                processes=int(told.get("processes", 0)),
            ),
            limit=str(told.get("limit") or ""),
        )

    def _parse_answer(self) -> dict[str, Any] | None:
        if not self._heard.endswith(b"\n"):
            return None
        answer = json.loads(self._heard)
        return answer if isinstance(answer, dict) else None

    def _close_pipes(self) -> None:
        self._close_writer()
        while self._readers:
            os.close(self._readers.popitem()[0])

    def _release(self) -> None:
        if self._sock is not None:
            self._readers.pop(self._sock.fileno(), None)
            if not self._dead:
                self._abandon(self._sock)
            self._sock.close()
            os.close(self._pidfd)
        self._close_pipes()

    def _abandon(self, sock: socket.socket) -> None:
        """End a run that an exception left, KeyboardInterrupt among them.

        The half-close makes the supervisor end it, and close its side when every
        process is dead; wait for that, then make sure.
        """
        end = time.monotonic() + _KILL_GRACE_S
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        poll.register(sock.fileno(), select.POLLIN)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
            while (left := end - time.monotonic()) > 0:
                for fd, _ in poll.poll(left * 1000):
                    if fd == self._pidfd or not sock.recv(_CHUNK_BYTES):
                        return
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        poll.poll(_KILL_GRACE_S * 1000)

"""The caller's side of a warm server: start it, hand it calls, end it."""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

from lazycore.sandbox._errors import (
    SandboxError,
    SandboxLostError,
    SandboxTimeoutError,
)
from lazycore.sandbox._executor import Order
from lazycore.sandbox._linux._client import first_answer
from lazycore.sandbox._linux._exec_list import RUN
from lazycore.sandbox._linux._failures import failure
from lazycore.sandbox._linux._order import Order as LauncherOrder
from lazycore.sandbox._linux._plan import outermost
from lazycore.sandbox._linux._request import ANSWER_LIMIT_BYTES, send_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lazycore.sandbox._linux._client import LauncherHandle
    from lazycore.sandbox._linux._native import NativeExecutor
    from lazycore.sandbox._linux._plan import Bind
    from lazycore.sandbox._linux._request import Request
    from lazycore.sandbox._preflight import CheckedPolicy
    from lazycore.sandbox._result import SandboxResult

_DEATH_GRACE_S = 20.0
# No memory but the target's holds them: the slot that it is a copy of serves others.
_PRIVATE = ("argv", "call")


class NativeSession:
    """A warm server inside one sandbox.

    Owns the pinned policy, the server's socket and pidfd, and the scratch directory
    below which each call gets its own.
    """

    def __init__(
        self,
        executor: NativeExecutor,
        launcher: LauncherHandle,
        checked: CheckedPolicy,
        *,
        preload: Sequence[str],
        path: Sequence[str],
    ) -> None:
        self._executor = executor
        self._checked = checked
        self._path = tuple(path)
        self._pid = os.getpid()
        self._closed = False
        self._idle = threading.Condition()
        self._running = 0
        self._ready = False
        self._resources = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            stack.callback(checked.close)
            self._scratch = stack.enter_context(executor.scratch(None))
            order = Order(started=time.monotonic(), path=self._path)
            request = executor.request(("session",), checked, self._scratch, order)
            request |= {
                "session": True,
                "preload": list(preload),
                "inner": _inner(request),
            }
            if request["namespaces"]:
                # The server is no target: its calls carry these limits.
                open_proc = {"pid_limit": None, "hidden": ()}
                request["base"] = request["base"] | open_proc
            kind = executor.launch_kind(checked.policy)
            asked = LauncherOrder(kind, None, request["bounds"], lends=True)
            self._sock, self._pidfd = launcher.open_run(
                asked.written(),
                lambda sock: send_request(sock, request, []),
                calls=True,
            )
            stack.callback(self._end_server)
            self._await_ready(order)
            self._ready = True
            self._resources = stack.pop_all()

    def run(self, argv: tuple[str, ...], order: Order) -> SandboxResult:
        """Run one order in a copy of the server."""
        with self._counted(), self._executor.scratch(self._scratch) as scratch:
            request = self._executor.request(argv, self._checked, scratch, order)
            if request["namespaces"] and request["limits"]["processes"] is not None:
                # The outer half of its slot is a process of the namespace as well.
                request["limits"]["processes"] += 1
            return self._executor.finish_run(
                request, self._checked.policy, order, self._open_run, private=_PRIVATE
            )

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Keep the server's socket and scratch until this run is over."""
        with self._idle:
            if self._closed or os.getpid() != self._pid:
                raise SandboxError(
                    "this session is closed, or belongs to the process that forked "
                    "this one; open a new one"
                )
            self._running += 1
        try:
            yield
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def _open_run(
        self, submit: Callable[[socket.socket], None]
    ) -> tuple[socket.socket, int]:
        """Ask the server for one child; the same contract as the launcher's."""
        ours, theirs = socket.socketpair()
        try:
            rights = array.array("i", [theirs.fileno()])
            self._sock.sendmsg([b"r"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            theirs.close()
            submit(ours)
            return ours, first_answer(ours)
        except (BrokenPipeError, ConnectionResetError, EOFError) as error:
            ours.close()
            raise SandboxLostError(
                "the session's server was killed; nothing was run, open a new session"
            ) from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    def close(self) -> None:
        """End the server and every call that still runs; wait for their threads."""
        with self._idle:
            self._closed = True
            resources, self._resources = self._resources, contextlib.ExitStack()
        resources.close()

    def _end_server(self) -> None:
        if os.getpid() != self._pid:
            self._sock.close()
            os.close(self._pidfd)
            return
        # Closed only when no thread uses it: its number would be another's at once.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        # A server that still imports does not listen yet.
        if not poll.poll(_DEATH_GRACE_S * 1000 if self._ready else 0):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            poll.poll(_DEATH_GRACE_S * 1000)
        with self._idle:
            self._idle.wait_for(lambda: not self._running, _DEATH_GRACE_S)
        self._sock.close()
        os.close(self._pidfd)

    def _await_ready(self, order: Order) -> None:
        limit_s = self._checked.policy.timeout_s
        self._sock.settimeout(limit_s)
        data = b""
        try:
            while not data.endswith(b"\n") and len(data) < ANSWER_LIMIT_BYTES:
                chunk = self._sock.recv(ANSWER_LIMIT_BYTES)
                if not chunk:
                    raise SandboxLostError("the session's server ended while starting")
                data += chunk
        except TimeoutError as error:
            raise SandboxTimeoutError(
                f"the session was not ready within {limit_s} s; raise timeout_s or "
                f"preload less (since {time.monotonic() - order.started:.1f} s)"
            ) from error
        self._sock.settimeout(None)
        answer = json.loads(data)
        if "error" in answer:
            raise failure(answer["error"])


def _runs(steps: list[Bind]) -> list[Bind]:
    return [step for step in steps if step[0] == RUN]


def _inner(request: Request) -> Request | None:
    """Describe the view of the session's runs: the server's, bound once more."""
    if not request["namespaces"]:
        return None
    return {
        "base": request["base"],
        "landlock_abi": request["landlock_abi"],
        # Masks and pins lie inside these trees and come with them.
        "binds": outermost(request["binds"]) + _runs(request["binds"]),
    }

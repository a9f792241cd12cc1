"""The caller's side of the launcher: start it, ask it for children, replace it."""

from __future__ import annotations

import array
import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from typing import TYPE_CHECKING

from lazycore.sandbox._errors import (
    SandboxError,
    SandboxLaunchError,
    SandboxLostError,
)
from lazycore.sandbox._linux._failures import failure

if TYPE_CHECKING:
    from collections.abc import Callable

_DEATH_GRACE_S = 20.0

_BOOT = (
    "import sys;sys.path.insert(0,sys.argv[1]);"
    "from lazycore.sandbox._linux._launcher import main;"
    "main(int(sys.argv[2]),int(sys.argv[3]))"
)


class _Owned:
    """What one launcher process needs to be released, apart from its owner."""

    def __init__(
        self, process: subprocess.Popen[bytes], control: socket.socket
    ) -> None:
        self.process = process
        self.control = control
        self.pid = os.getpid()
        self.calls_loaded = False

    def release(self) -> None:
        """Tell the launcher to end all and wait for it."""
        if os.getpid() != self.pid:
            # A forked copy of the caller: the process is not its child.
            self.control.close()
            self.process.returncode = 0
            return
        with contextlib.suppress(OSError):
            # Whatever thread still holds a duplicate: the launcher reads the end now.
            self.control.shutdown(socket.SHUT_RDWR)
        self.control.close()
        try:
            self.process.wait(_DEATH_GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class LauncherHandle:
    """A launcher that is started when first needed and replaced when it died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owned: _Owned | None = None
        self._identity: tuple[int, int] = (0, 0)
        self._finalizer: Callable[[], object] | None = None
        self._closed = False

    def open_run(
        self,
        order: bytes,
        submit: Callable[[socket.socket], None],
        *,
        calls: bool = False,
    ) -> tuple[socket.socket, int]:
        """Ask for one child. Return the socket to it and its pidfd.

        Args:
            order: What it shall be: `_order.Order.written`.
            submit: Sends the request; called as soon as the child may read it, and
                again when a launcher has to be replaced.
            calls: Whether it must be able to make Python calls.
        """
        for attempt in (1, 2):
            owned, control = self._running()
            ours, theirs = socket.socketpair()
            try:
                if calls and not owned.calls_loaded:
                    control.send(b"C")
                    owned.calls_loaded = True
                rights = array.array("i", [theirs.fileno()])
                control.sendmsg(
                    [order], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                )
                theirs.close()
                submit(ours)
                return ours, first_answer(ours)
            except (BrokenPipeError, ConnectionResetError, EOFError) as error:
                # Nothing ran yet: the launcher was gone. Replace it, once.
                ours.close()
                self._forget(owned)
                if attempt == 2:
                    raise SandboxLostError(
                        "the launcher ended before it could take the run; "
                        "nothing was run"
                    ) from error
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
                control.close()
        raise AssertionError

    def close(self) -> None:
        """End the launcher and everything it runs; it cannot be used again."""
        with self._lock:
            self._closed = True
            self._drop()

    def _running(self) -> tuple[_Owned, socket.socket]:
        """Return the launcher and a control socket that no other thread closes."""
        identity = (os.getpid(), os.geteuid())
        with self._lock:
            if self._closed:
                raise SandboxError("this executor is closed; make a new one")
            if self._owned is not None and (
                identity != self._identity or self._owned.process.poll() is not None
            ):
                self._drop()
            if self._owned is None:
                self._owned = _start()
                self._identity = identity
                self._finalizer = weakref.finalize(self, self._owned.release)
            return self._owned, self._owned.control.dup()

    def _forget(self, owned: _Owned) -> None:
        with self._lock:
            if self._owned is owned:
                self._drop()

    def _drop(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._finalizer = None
        self._owned = None


def first_answer(sock: socket.socket) -> int:
    """Receive the child's pidfd, or raise what went wrong instead.

    Raises:
        EOFError: If the other side ended without a word.
    """
    data, control, _, _ = sock.recvmsg(
        4096, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, raw in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            return array.array("i", raw[:4])[0]
    if not data:
        raise EOFError
    raise failure(json.loads(data)["error"])


def _start() -> _Owned:
    if not sys.executable:
        raise SandboxLaunchError(
            errno.ENOENT,
            "sys.executable is empty, so the launcher has no interpreter to run; "
            "set it to the path of a Python interpreter",
        )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    caller = os.pidfd_open(os.getpid())
    package = __file__
    for _ in range(4):
        package = os.path.dirname(package)
    try:
        process = subprocess.Popen(
            [
                sys.executable,
                *("-I", "-S", "-B", "-X", "utf8", "-c", _BOOT),
                package,
                str(theirs.fileno()),
                str(caller),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            close_fds=True,
            pass_fds=(theirs.fileno(), caller),
        )
    except OSError as error:
        ours.close()
        raise SandboxLaunchError(
            error.errno, f"the launcher cannot be started: {error.strerror}"
        ) from error
    finally:
        theirs.close()
        os.close(caller)
    return _Owned(process, ours)

"""The caller's side: own a launcher, hand it runs, collect what comes back."""

from __future__ import annotations

import array
import contextlib
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox._errors import (
    SandboxCommandNotFoundError,
    SandboxError,
    SandboxLaunchError,
    SandboxLostError,
    SandboxPolicyError,
    SandboxPolicyViolationError,
)
from lazycore.sandbox._linux._request import (
    ANSWER_LIMIT_BYTES,
    Request,
    send_request,
)
from lazycore.sandbox._output import Captured, HeadTail

if TYPE_CHECKING:
    from collections.abc import Callable

_KILL_GRACE_S = 2.0
_DEATH_GRACE_S = 20.0
_CHUNK_BYTES = 1 << 16

_BOOT = (
    "import sys;sys.path.insert(0,sys.argv[1]);"
    "from lazycore.sandbox._linux._launcher import main;"
    "main(int(sys.argv[2]),int(sys.argv[3]),int(sys.argv[4]))"
)


class _Owned:
    """What one launcher process needs to be released, apart from its owner."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.process = process
        self.control = control
        self.pid = os.getpid()

    def release(self) -> None:
        """Tell the launcher to end all and wait for it."""
        self.control.close()
        if os.getpid() != self.pid:
            # A forked copy of the caller: the process is not its child.
            self.process.returncode = 0
            return
        try:
            self.process.wait(_DEATH_GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class LauncherHandle:
    """A launcher that is started when first needed and replaced when it died.

    Args:
        prepared: How many sets of namespaces it keeps ready while idle.
    """

    def __init__(self, *, prepared: int) -> None:
        self._prepared = prepared
        self._lock = threading.Lock()
        self._owned: _Owned | None = None
        self._identity: tuple[int, int] = (0, 0)
        self._finalizer: Callable[[], object] | None = None
        self._closed = False

    def open_run(self, kind: bytes) -> tuple[socket.socket, int]:
        """Ask for one child. Return the socket to it and its pidfd."""
        for attempt in (1, 2):
            control = self._control()
            ours, theirs = socket.socketpair()
            try:
                rights = array.array("i", [theirs.fileno()])
                control.sendmsg(
                    [kind], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                )
                theirs.close()
                return ours, _first_answer(ours)
            except (BrokenPipeError, ConnectionResetError, EOFError) as error:
                # Nothing ran yet: the launcher was gone. Replace it, once.
                ours.close()
                self._forget(control)
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
        raise AssertionError

    def close(self) -> None:
        """End the launcher and everything it runs; it cannot be used again."""
        with self._lock:
            self._closed = True
            self._drop()

    def _control(self) -> socket.socket:
        identity = (os.getpid(), os.geteuid())
        with self._lock:
            if self._closed:
                raise SandboxError("this executor is closed; make a new one")
            if self._owned is not None and (
                identity != self._identity or self._owned.process.poll() is not None
            ):
                self._drop()
            if self._owned is None:
                self._owned = _start(self._prepared)
                self._identity = identity
                self._finalizer = weakref.finalize(self, self._owned.release)
            return self._owned.control

    def _forget(self, control: socket.socket) -> None:
        with self._lock:
            if self._owned is not None and self._owned.control is control:
                self._drop()

    def _drop(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._finalizer = None
        self._owned = None


def _first_answer(sock: socket.socket) -> int:
    data, control, _, _ = sock.recvmsg(
        4096, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, raw in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            return array.array("i", raw[:4])[0]
    if not data:
        raise EOFError
    raise_failure(json.loads(data)["error"])


def _start(prepared: int) -> _Owned:
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
                str(prepared),
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


@dataclass(slots=True)
class Outcome:
    """What the supervisor and the pipes handed back."""

    status: int | None = None
    cpu_user_s: float = 0.0
    cpu_system_s: float = 0.0
    max_rss_bytes: int = 0
    processes: int = 0
    timed_out: bool = False
    stdout: Captured = field(default_factory=Captured)
    stderr: Captured = field(default_factory=Captured)
    reply: bytes | None = None
    reply_truncated: bool = False


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


class Run:
    """One run from the request to the death of its last process."""

    def __init__(
        self,
        sock: socket.socket,
        pidfd: int,
        *,
        output_bytes: int,
        input_bytes: bytes | None,
        reply_limit_bytes: int | None,
    ) -> None:
        self._sock = sock
        self._pidfd = pidfd
        self._input = memoryview(input_bytes or b"")
        self._stdout = HeadTail(limit_bytes=output_bytes)
        self._stderr = HeadTail(limit_bytes=output_bytes)
        self._reply = None if reply_limit_bytes is None else _Reply(reply_limit_bytes)
        self._lines = bytearray()
        self._readers: dict[int, Callable[[bytes], None]] = {}
        self._writer = -1
        self._dead = False

    def collect(self, request: Request, *, deadline: float | None) -> Outcome:
        """Send the request, pump the pipes, return when every process is dead.

        Raises:
            SandboxLostError: If the supervisor ended without an answer.
            SandboxLaunchError: If the target was not started.
        """
        try:
            self._submit(request)
            timed_out = self._pump(deadline)
            return self._outcome(timed_out=timed_out)
        finally:
            self._release()

    def _submit(self, request: Request) -> None:
        theirs: list[int] = []
        try:
            if len(self._input):
                read, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                os.set_blocking(read, True)  # noqa: FBT003 - the signature of os
                theirs.append(read)
            else:
                theirs.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
            sinks = [self._stdout.feed, self._stderr.feed]
            if self._reply is not None:
                sinks.append(self._reply.feed)
            for sink in sinks:
                read, write = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(read, False)  # noqa: FBT003 - the signature of os
                self._readers[read] = sink
                theirs.append(write)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # A supervisor that failed early has left its reason to read.
                send_request(self._sock, request, theirs)
        finally:
            for fd in theirs:
                os.close(fd)
        self._sock.setblocking(False)

    def _pump(self, deadline: float | None) -> bool:
        poll = select.poll()
        for fd in self._readers:
            poll.register(fd, select.POLLIN)
        if self._writer >= 0:
            poll.register(self._writer, select.POLLOUT)
        poll.register(self._pidfd, select.POLLIN)
        timed_out = killed = False
        while True:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                if killed:
                    raise SandboxError(
                        "the run was killed, but the kernel holds one of its "
                        f"processes for more than {_DEATH_GRACE_S:.0f} s; see dmesg"
                    )
                if not timed_out:
                    timed_out = True
                    deadline = now + _KILL_GRACE_S
                    with contextlib.suppress(OSError):
                        self._sock.send(b"k")
                else:
                    killed = True
                    deadline = now + _DEATH_GRACE_S
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            wait = None if deadline is None else max(0.0, deadline - now) * 1000 + 1
            for fd, _ in poll.poll(wait):
                if fd == self._pidfd:
                    self._dead = True
                elif fd == self._writer:
                    if not self._write():
                        poll.unregister(fd)
                        self._close_writer()
                elif not self._read(fd):
                    poll.unregister(fd)
            if self._dead:
                for fd in self._readers:
                    while self._read(fd):
                        pass
                return timed_out

    def _read(self, fd: int) -> bool:
        """Read once; return whether there may be more."""
        try:
            chunk = os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            return not self._dead
        if chunk:
            self._readers[fd](chunk)
        return bool(chunk)

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
        outcome = Outcome(
            timed_out=timed_out,
            stdout=self._stdout.captured(),
            stderr=self._stderr.captured(),
        )
        if self._reply is not None:
            outcome.reply = bytes(self._reply.data)
            outcome.reply_truncated = self._reply.truncated
        answer = self._answer()
        if answer is None:
            if timed_out:
                outcome.status = signal.SIGKILL
                return outcome
            raise SandboxLostError(
                "the sandbox was killed from outside while the target ran; every "
                "process of the run is dead"
            )
        if "error" in answer:
            raise_failure(answer["error"])
        outcome.status = int(answer["status"])
        outcome.cpu_user_s = float(answer["cpu_user_s"])
        outcome.cpu_system_s = float(answer["cpu_system_s"])
        outcome.max_rss_bytes = int(answer["max_rss_bytes"])
        outcome.processes = int(answer["processes"])
        return outcome

    def _answer(self) -> dict[str, object] | None:
        data = bytearray()
        while len(data) < ANSWER_LIMIT_BYTES:
            try:
                chunk = self._sock.recv(ANSWER_LIMIT_BYTES)
            except (BlockingIOError, ConnectionResetError):
                break
            if not chunk:
                break
            data += chunk
        if not data.endswith(b"\n"):
            return None
        answer = json.loads(data)
        return answer if isinstance(answer, dict) else None

    def _release(self) -> None:
        if not self._dead:
            # An exception on the way, KeyboardInterrupt among them. The hang-up
            # makes the supervisor end the run; wait for it, then make sure.
            self._sock.close()
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if not poll.poll(_KILL_GRACE_S * 1000):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
                poll.poll(_KILL_GRACE_S * 1000)
        self._sock.close()
        self._close_writer()
        for fd in (*self._readers, self._pidfd):
            os.close(fd)


def raise_failure(failure: dict[str, object]) -> NoReturn:
    """Turn a reported step into the exception that names it and the remedy."""
    stage = str(failure["stage"])
    code = int(str(failure["errno"]))
    detail = str(failure["detail"])
    reason = os.strerror(code)
    if stage == "exec" and code == errno.ENOENT:
        raise SandboxCommandNotFoundError(
            code,
            "the command, or the interpreter it names, does not exist inside the "
            "sandbox; add its directory to allowed_read_paths, or to PATH in env",
            detail,
        )
    if stage == "exec" and code in {errno.EACCES, errno.EPERM}:
        raise SandboxPolicyViolationError(
            code, "the policy does not let this program be executed", detail
        )
    if stage == "replaced":
        raise SandboxPolicyError(
            f"{detail!r} was replaced by another file or directory between the check "
            "and the run; nothing was run"
        )
    raise SandboxLaunchError(
        code, f"step {stage!r} failed: {reason}; the target was not started", detail
    )

"""Start a monitor, move the target's bytes, return when every process is dead."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.sandbox._errors import (
    SandboxError,
    SandboxLaunchError,
    SandboxLostError,
)
from lazycore.sandbox._monitor import write_config
from lazycore.sandbox._outcome import Outcome
from lazycore.sandbox._output import HeadTail
from lazycore.sandbox._result import ResourceUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CHUNK_BYTES = 1 << 16
_DEATH_GRACE_S = 20.0
_ROOT = str(Path(__file__).resolve().parents[2])
_BOOT = (
    "import sys;sys.path.insert(0,sys.argv[1]);"
    "from lazycore.sandbox._monitor import main;main()"
)


class Target:
    """One target from its start to the death of its last process."""

    def __init__(
        self,
        *,
        output_bytes: int,
        input_bytes: bytes | None,
        reply_limit: int | None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._pass_fds = pass_fds
        self._input = memoryview(input_bytes or b"")
        self._stdout = HeadTail(limit_bytes=output_bytes)
        self._stderr = HeadTail(limit_bytes=output_bytes)
        self._reply = None if reply_limit is None else bytearray()
        self._reply_limit = reply_limit or 0
        self._reply_truncated = False
        self._report = bytearray()
        self._pump = selectors.DefaultSelector()
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._control = -1
        self._aborted = False

    def abort(self) -> None:
        """End the run from another thread; `run` then raises."""
        with self._lock:
            self._aborted = True
        self._hang_up()

    def run(self, config: Mapping[str, object], *, deadline: float | None) -> Outcome:
        """Run the target of `config` to its end.

        Raises:
            SandboxLaunchError: a step before the program failed; nothing ran.
            SandboxLostError: the monitor was killed.
            SandboxError: a process could not be killed.
        """
        monitor = self._start(config)
        try:
            timed_out = self._move(deadline)
        finally:
            self._end(monitor)
        return self._outcome(timed_out=timed_out)

    def _start(self, config: Mapping[str, object]) -> subprocess.Popen[bytes]:
        theirs: list[int] = []
        try:
            control, ours = os.pipe()
            theirs.append(control)
            with self._lock:
                self._control = ours
            report = self._reader(self._report.extend, theirs)
            reply = -1 if self._reply is None else self._reader(self._keep, theirs)
            numbers = [str(fd) for fd in (control, report, reply)]
            out = self._reader(self._stdout.feed, theirs)
            err = self._reader(self._stderr.feed, theirs)
            stdin: int = subprocess.DEVNULL
            if len(self._input):
                stdin, writer = os.pipe()
                theirs.append(stdin)
                os.set_blocking(writer, False)
                self._pump.register(writer, selectors.EVENT_WRITE)
            monitor = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", "-B"),
                    *("-c", _BOOT, _ROOT, *numbers, str(os.getpid())),
                ],
                stdin=stdin,
                stdout=out,
                stderr=err,
                env={},
                cwd="/",
                pass_fds=[
                    *(fd for fd in (control, report, reply) if fd >= 0),
                    *self._pass_fds,
                ],
                start_new_session=True,
            )
        except BaseException:
            self._release()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        # As long as the lock is held nobody closes the descriptor.
        with self._lock, contextlib.suppress(BrokenPipeError):
            if not self._aborted:
                write_config(self._control, config)
        if self._aborted:
            self._hang_up()
        return monitor

    def _reader(self, sink: Callable[[bytes], object], theirs: list[int]) -> int:
        read, write = os.pipe()
        os.set_blocking(read, False)
        theirs.append(write)
        self._pump.register(read, selectors.EVENT_READ, sink)
        return write

    def _keep(self, chunk: bytes) -> None:
        assert self._reply is not None
        room = self._reply_limit - len(self._reply)
        self._reply += chunk[:room]
        self._reply_truncated = self._reply_truncated or len(chunk) > room

    def _move(self, deadline: float | None) -> bool:
        """Move bytes until the report ends; return whether time ran out."""
        timed_out = False
        while not self._report.endswith(b"\n") or b"end " not in self._report:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            for key, _ in self._pump.select(wait):
                self._one(key)
            if not any(self._sinks_to(self._report.extend)):
                break
            if deadline is not None and time.monotonic() >= deadline:
                if timed_out:
                    raise SandboxError("a process of the run cannot be killed")
                timed_out = True
                self._hang_up()
                deadline = time.monotonic() + _DEATH_GRACE_S
        for key in list(self._pump.get_map().values()):
            while key.data is not None and self._one(key):
                pass
        return timed_out

    def _sinks_to(self, sink: object) -> list[bool]:
        return [key.data == sink for key in self._pump.get_map().values()]

    def _one(self, key: selectors.SelectorKey) -> bool:
        """Move once; return whether there may be more at this moment."""
        fd = key.fd
        try:
            if key.data is None:
                done = os.write(fd, self._input[:_CHUNK_BYTES])
                self._input = self._input[done:]
                if len(self._input):
                    return True
            else:
                chunk = os.read(fd, _CHUNK_BYTES)
                if chunk:
                    key.data(chunk)
                    return True
        except BlockingIOError:
            return False
        except BrokenPipeError:
            pass
        self._pump.unregister(fd)
        os.close(fd)
        return False

    def _hang_up(self) -> None:
        with self._lock:
            control, self._control = self._control, -1
        if control >= 0:
            # A word, not the end of the pipe alone: a forked copy of this process
            # may hold the other end of it as well.
            with contextlib.suppress(OSError):
                os.write(control, b"k")
            os.close(control)

    def _end(self, monitor: subprocess.Popen[bytes]) -> None:
        self._hang_up()
        try:
            monitor.wait(_DEATH_GRACE_S)
        except subprocess.TimeoutExpired:
            monitor.kill()
            monitor.wait()
        self._release()

    def _release(self) -> None:
        self._hang_up()
        for key in list(self._pump.get_map().values()):
            self._pump.unregister(key.fd)
            os.close(key.fd)
        self._pump.close()

    def _outcome(self, *, timed_out: bool) -> Outcome:
        told = dict(_facts(line) for line in self._report.decode("ascii").splitlines())
        if self._aborted:
            raise SandboxLostError("the executor was closed while the target ran")
        if "end" not in told:
            raise SandboxLostError(
                "the monitor of the sandbox was killed while the target ran"
            )
        if (failure := told.get("failure")) is not None:
            code = int(failure["errno"])
            place = os.fsdecode(bytes.fromhex(failure["detail"]))
            raise SandboxLaunchError(code, os.strerror(code), place or None)
        answer = told["end"]
        return Outcome(
            status=int(answer["status"]),
            stdout=self._stdout.captured(),
            stderr=self._stderr.captured(),
            reply=None if self._reply is None else bytes(self._reply),
            reply_truncated=self._reply_truncated,
            timed_out=timed_out,
            usage=ResourceUsage(
                cpu_user_s=float(answer["cpu_user_s"]),
                cpu_system_s=float(answer["cpu_system_s"]),
                max_rss_bytes=int(answer["max_rss_bytes"]),
            ),
            limit=answer["limit"],
            note=bytes.fromhex(answer.get("note", "")).decode("ascii", "replace"),
        )


def _facts(line: str) -> tuple[str, dict[str, str]]:
    """Read one line of the monitor: a word and its facts."""
    what, *pairs = line.split(" ")
    return what, dict(pair.split("=", 1) for pair in pairs)

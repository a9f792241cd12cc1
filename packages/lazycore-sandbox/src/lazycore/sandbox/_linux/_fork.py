"""Start the target as a copy of this process: a call on what is imported already.

The copy is made in a thread that is confined already, so it is confined from its first
instruction. What only this target may read, its arguments among them, comes in a file
that nobody but the copy reads: the next copy finds no trace of it in its memory.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import marshal
import os
import signal
import warnings
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox._linux import _calls, _landlock, _target
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    from lazycore.sandbox._linux._request import Request

STACK_BYTES = 16 << 20
"""The target goes on with the stack of the thread that it is a copy of."""


def fork_target(request: Request, fds: list[int], status: int) -> int:
    """Start the target from this confined thread; return its pid.

    Args:
        request: The run, without its private part.
        fds: What becomes the target's descriptors from 0 on, and last a file with the
            private part.
        status: What fails before the target runs is written here; see
            `_target.failure`.
    """
    pid = fork_quietly()
    if not pid:
        _become(request, fds, status)
    return pid


def fork_quietly() -> int:
    """Fork where another thread holds nothing that the copy needs.

    Python warns of any other thread, and what was imported may have made warnings
    errors: one would be raised after the fork.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _become(request: Request, fds: list[int], status: int) -> NoReturn:
    try:
        try:
            private = fcntl.fcntl(fds[-1], fcntl.F_DUPFD_CLOEXEC, 10)
            status = _target.arrange_descriptors(fds[:-1], status)
            os.dup2(private, status + 1, inheritable=False)
            _calls.close_from(status + 2)
            _take_over(request)
            request |= _read(status + 1)
            if request["call"] is None:
                _target.execute(request)
            _target.call(request, status)
        except StageError as error:
            _target.report(status, error.stage, error.code, error.detail)
        except OSError as error:
            detail = str(error.filename or "")
            _target.report(status, "confine", error.errno or 0, detail)
        except BaseException as error:  # noqa: BLE001 - anything else must not run on
            _target.report(status, "confine", errno.EINVAL, type(error).__name__)
    finally:
        os._exit(127)


def _take_over(request: Request) -> None:
    """Put off what this process has of the one that it is a copy of."""
    os.setpgid(0, 0)
    _thread.stack_size(0)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _target.limit(request["limits"])
    abi: int = request["landlock_abi"]
    if abi >= _landlock.SCOPES_SINCE:
        # A domain of its own, below that of the thread: kill(2) takes the number of
        # any thread for its process.
        _landlock.scope_signals(abi=abi)
    # It may see its own descriptors and memory in /proc again.
    _calls.prctl(_calls.PR_SET_DUMPABLE, 1)


def _read(fd: int) -> Request:
    try:
        with open(fd, "rb") as file:
            file.seek(0)
            private: Request = marshal.load(file)  # noqa: S302 - the caller wrote it
    except MemoryError as error:
        raise StageError("arguments", errno.ENOMEM) from error
    return private


def reset_signals() -> None:
    """Let every signal do what it does by default, in this process and its copies."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    # Ours alone: a peer that hangs up must be an error here.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)

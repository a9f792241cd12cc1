"""Start the target of a pid namespace straight from its confined pid 1.

Pid 1 gives up its own rights first and then spawns (posix_spawn(3): no copy of this
process is made), so the target inherits everything and there is no moment at which it
is less confined. It cannot harm pid 1: the kernel drops signals that a namespace's
members send to its init, and pid 1 is not dumpable, which closes its memory and
descriptors in /proc.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _target
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    from lazycore.sandbox._linux._landlock import Rule
    from lazycore.sandbox._linux._request import Request

_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


def spawn(request: Request, fds: list[int], rules: list[Rule]) -> int:
    """Confine this process and start the target; return its pid.

    Raises:
        StageError: If a step is refused; the target was then not started.
    """
    # The target inherits this process's 0 to 3; everything else closes on exec.
    # Sources are lifted above every destination first, so that no dup2 hits one.
    lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in fds]
    for at, fd in enumerate(lifted):
        os.dup2(fd, at, inheritable=True)
    for fd in (*lifted, *(fd for fd in fds if fd >= len(fds))):
        os.close(fd)
    try:
        _target.confine_namespaced(request, rules)
    except OSError as error:
        detail = str(error.filename or "")
        raise StageError("confine", error.errno or 0, detail) from error
    pid = spawn_target(request, [])
    # The pipes must have no writer left when the target is gone.
    for fd in range(len(fds)):
        os.close(fd)
    return pid


def spawn_target(request: Request, fds: list[int]) -> int:
    """Start the target from this confined thread; return its pid.

    Args:
        request: The run.
        fds: What becomes the target's descriptors from 0 on. Every other one that
            does not close on exec is inherited.

    Raises:
        StageError: If the program cannot be executed.
    """
    env: dict[str, str] = request["env"]
    argv: list[str] = request["argv"]
    actions = [(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate(fds)]
    found = errno.ENOENT
    for candidate in _target.candidates(argv[0], env):
        try:
            return os.posix_spawn(
                candidate,
                argv,
                env,
                file_actions=actions,
                setpgroup=0,
                setsigmask=(),
                setsigdef=_SIGNALS,
            )
        except OSError as error:
            found, stop = _target.worse(found, error)
            if stop:
                break
    raise StageError("exec", found, argv[0])

"""The last steps in the process that becomes the target.

Order: descriptors, limits, capabilities, no_new_privs, Landlock, seccomp, exec. Every
failure before exec is reported and ends the process; none is passed over.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox._linux import _calls, _landlock
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    from lazycore.sandbox._linux._landlock import Rule
    from lazycore.sandbox._linux._request import Request

REPLY_FD = 3
_STATUS_FD = 4


def become(
    request: Request, fds: list[int], status: int, rules: list[Rule]
) -> NoReturn:
    """Turn this freshly forked process into the target; never returns."""
    status_fd = status
    try:
        try:
            status_fd = arrange_descriptors(fds, status)
            confine(request, rules)
            if request["call"] is None:
                execute(request)
            call(request, status_fd)
        except StageError as error:
            report(status_fd, error.stage, error.code, error.detail)
        except OSError as error:
            report(status_fd, "confine", error.errno or 0, str(error.filename or ""))
        except BaseException as error:  # noqa: BLE001 - anything else must not run on
            report(status_fd, "confine", errno.EINVAL, type(error).__name__)
    finally:
        os._exit(127)


def report(status: int, stage: str, code: int, detail: str) -> None:
    """Tell the supervisor why the target was not started."""
    os.write(status, f"{stage}\0{code}\0{detail}".encode("utf-8", "replace")[:4000])


def failure(status: int) -> StageError | None:
    """Return what was reported to the other end of a pipe, and close this one."""
    data = b""
    while chunk := os.read(status, 4096):
        data += chunk
    os.close(status)
    if not data:
        return None
    stage, code, detail = data.decode("utf-8", "replace").split("\0", 2)
    return StageError(stage, int(code), detail)


def arrange_descriptors(fds: list[int], status: int) -> int:
    """Put stdin, stdout, stderr and the reply pipe on 0 to 3, status on 4.

    Everything else stays open only until `confine` has used it: the rules'
    descriptors lie above.
    """
    # Lift all sources above the destinations first, so that no dup2 hits one.
    lifted = [_lift(fd) for fd in (*fds, status)]
    for destination, source in enumerate(lifted[:-1]):
        os.dup2(source, destination, inheritable=True)
    os.dup2(lifted[-1], _STATUS_FD, inheritable=False)
    if len(lifted) == 4:
        os.close(REPLY_FD)
    return _STATUS_FD


def read_nothing(fds: list[int]) -> None:
    """Make the root's own /dev/null the first descriptor, instead of the host's.

    The caller's goes through the host's writable mount: by fchmod(2) a root caller's
    target would change the node for everybody.
    """
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    os.close(fds[0])
    fds[0] = null


def _lift(fd: int) -> int:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)


def confine(request: Request, rules: list[Rule]) -> None:
    """Give up everything that the policy does not grant. There is no way back."""
    os.setpgid(0, 0)
    os.umask(0o022)
    for number in signal.valid_signals():
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    restrict(request, rules)
    _calls.close_from(_STATUS_FD + 1)
    limit(request["limits"])
    _calls.install_filter(request["filter"])


def confine_namespaced(request: Request, rules: list[Rule]) -> None:
    """Confine pid 1 of a namespace, whose target will inherit it all."""
    os.umask(0o022)
    restrict(request, rules)
    for fd, _ in rules:
        os.close(fd)
    limit(request["limits"])
    _calls.prctl(_calls.PR_SET_DUMPABLE, 0)
    _calls.install_filter(request["filter"])


def restrict(request: Request, rules: list[Rule]) -> None:
    """Go where the target starts and give up files and capabilities for good."""
    change_directory(request["cwd"])
    _calls.prctl(_calls.PR_SET_NO_NEW_PRIVS, 1)
    if request["namespaces"]:
        _calls.drop_capabilities()
    else:
        _drop_without_namespace()
    if request["landlock_abi"]:
        # The rules hold descriptors, so nothing is looked up by name any more.
        _landlock.confine(
            rules, abi=request["landlock_abi"], handle_tcp=request["handle_tcp"]
        )


def _drop_without_namespace() -> None:
    """Drop what a root caller holds; a plain caller holds nothing."""
    _calls.prctl(_calls.PR_CAP_AMBIENT, _calls.PR_CAP_AMBIENT_CLEAR_ALL)
    try:
        _calls.prctl(_calls.PR_SET_SECUREBITS, _calls.SECUREBITS_LOCKED_DOWN)
        _calls.drop_bounding_set()
    except PermissionError:
        # Without CAP_SETPCAP. no_new_privs keeps exec from adding capabilities
        # to the empty sets that follow.
        pass
    _calls.clear_capability_sets()


def limit(limits: dict[str, int | None]) -> None:
    """Set the hard limits of this process and what it starts."""
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_FSIZE: limits["file_size_bytes"],
        resource.RLIMIT_CPU: limits["cpu_s"],
        resource.RLIMIT_DATA: limits["data_bytes"],
        resource.RLIMIT_NPROC: limits["processes"],
    }
    for which, bound in bounds.items():
        if bound is None:
            continue
        _, hard = resource.getrlimit(which)
        kept = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(which, (kept, kept))


def change_directory(path: str) -> None:
    """Go where the target starts."""
    try:
        os.chdir(path)
    except OSError as error:
        raise StageError("cwd", error.errno or 0, path) from error


def call(request: Request, status: int) -> NoReturn:
    """Make a Python call in this process instead of replacing it by a program."""
    import gc
    import sys

    from lazycore.sandbox import _child

    os.close(status)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[:] = [""]
    sys.path[:] = request["path"]
    gc.enable()
    _child.call(**request["call"], reply_fd=REPLY_FD)


def execute(request: Request) -> NoReturn:
    """Replace this process by the program, looked up in the target's PATH."""
    argv: list[str] = request["argv"]
    env: dict[str, str] = request["env"]
    found = errno.ENOENT
    for candidate in candidates(argv[0], env):
        try:
            os.execve(candidate, argv, env)  # noqa: S606 - no shell is the point
        except OSError as error:
            found, stop = worse(found, error)
            if stop:
                break
    raise StageError("exec", found, argv[0])


def candidates(program: str, env: dict[str, str]) -> list[str]:
    """Return where execvp(3) would look for a program, in order."""
    if "/" in program:
        return [program]
    folders = env.get("PATH", "").split(":")
    return [f"{folder}/{program}" for folder in folders if folder]


def worse(found: int, error: OSError) -> tuple[int, bool]:
    """Return the error to report so far, and whether looking on is pointless."""
    code = error.errno or errno.EINVAL
    if code in {errno.ENOENT, errno.ENOTDIR}:
        return found, False
    return code, code != errno.EACCES

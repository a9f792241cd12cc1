"""The bubblewrap backend: for hosts where only that binary may make namespaces.

The arguments travel by descriptor, so that no secret of a policy stands in an argv;
the policy's paths by the descriptors that were checked; the filter is the namespace
backend's own. Bubblewrap run by root leaves /proc/sys writable even without any
capability, so it is bound read-only on top.
"""

from __future__ import annotations

import base64
import fcntl
import functools
import math
import os
import re
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, ClassVar

from lazycore.sandbox._errors import (
    SandboxCommandNotFoundError,
    SandboxLaunchError,
    SandboxPolicyError,
    SandboxPolicyViolationError,
)
from lazycore.sandbox._executor import (
    REPLY_VARIABLE,
    BaseSandboxExecutor,
    Unproven,
)
from lazycore.sandbox._linux._bubblewrap_probe import probe_bubblewrap
from lazycore.sandbox._linux._mounts import KEY_NAMES, PROC_SECRETS
from lazycore.sandbox._linux._native import DEFAULT_PATH
from lazycore.sandbox._linux._plan import policy_binds, split_links
from lazycore.sandbox._linux._seccomp import build_filter
from lazycore.sandbox._monitor import NOTE_FD, REPLY_FD
from lazycore.sandbox._monitored import Target
from lazycore.sandbox._outcome import Outcome, result_of, shell_end
from lazycore.sandbox._preflight import pin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazycore.sandbox._guarantees import BackendReport
    from lazycore.sandbox._linux._plan import Bind
    from lazycore.sandbox._preflight import CheckedPolicy
    from lazycore.sandbox._result import SandboxResult

_HOME = "/tmp"  # noqa: S108 - the sandbox's own
_SCRATCH_BYTES = 1 << 30
_LOWEST_FD = 100
_NEEDED_OPTIONS = ("--args", "--bind-fd", "--disable-userns", "--size", "--perms")

# Sets the process limit inside the new user namespace, where it counts the run alone,
# says why a program cannot start, and becomes it. `-p` is dash's spelling of `-u`.
_STUB = f"""
if [ -n "$0" ]; then
  ulimit -u "$0" 2>/dev/null || ulimit -p "$0" 2>/dev/null ||
    {{ echo limit >&{NOTE_FD}; exit 125; }}
fi
_why=
case "$1" in
  */*)
    if [ ! -e "$1" ]; then _why=missing
    elif [ ! -x "$1" ] || [ -d "$1" ]; then _why=refused
    fi ;;
  *) command -v -- "$1" >/dev/null 2>&1 || _why=missing ;;
esac
if [ -n "$_why" ]; then echo "$_why" >&{NOTE_FD}; exit 127; fi
unset _why
echo started >&{NOTE_FD}
exec {NOTE_FD}>&-
unset PWD OLDPWD
if [ -n "${{BASH_VERSION-}}" ]; then exec env -u _ -u SHLVL "$@"; fi
exec "$@"
"""


@functools.lru_cache(maxsize=1)
def find_bubblewrap() -> tuple[str, str]:
    """Return the path of a usable `bwrap` and, without one, why there is none."""
    for folder in DEFAULT_PATH.split(":"):
        path = os.path.join(folder, "bwrap")
        if os.access(path, os.X_OK):
            break
    else:
        return "", "bwrap is not installed: apt-get install bubblewrap"
    text = _told(path, "--help")
    absent = [option for option in _NEEDED_OPTIONS if option not in text]
    if absent:
        return "", f"{path} is too old: it lacks {', '.join(absent)}"
    return path, ""


@functools.lru_cache(maxsize=1)
def bubblewrap_version() -> str:
    """Return the version that `bwrap` tells, empty without one."""
    path, _ = find_bubblewrap()
    if not path:
        return ""
    found = re.search(r"\d+(?:\.\d+)+", _told(path, "--version"))
    return found[0] if found else ""


def _told(path: str, option: str) -> str:
    """Return what the binary prints, empty when it cannot be run."""
    try:
        told = subprocess.run(
            [path, option], env={}, capture_output=True, check=False, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return (told.stdout + told.stderr).decode("utf-8", "replace")


class BubblewrapSandboxExecutor(BaseSandboxExecutor):
    """Run targets under the system's `bwrap`, with this package's own filter.

    It declares no list of executables and no memory, CPU or disk limit. The process
    limit needs `include_system=True`, and does not bind a root caller's target. A
    target that exits with 128 plus the number of a signal reads as ended by it: bwrap
    passes both on alike.

    Examples:
        >>> BubblewrapSandboxExecutor.name
        'bubblewrap'
    """

    name: ClassVar[str] = "bubblewrap"

    @classmethod
    def probe(cls) -> BackendReport:
        """Find out, by trying, what this backend enforces on this host.

        Returns:
            The report; cached per user for the life of the process.
        """
        return probe_bubblewrap(_UnprovenExecutor, os.geteuid())

    def _run(
        self,
        argv: tuple[str, ...],
        checked: CheckedPolicy,
        *,
        input_bytes: bytes | None,
        reply_limit_bytes: int | None,
        started: float,
    ) -> SandboxResult:
        policy = checked.policy
        program, reason = find_bubblewrap()
        if not program:
            raise SandboxLaunchError(reason)
        if policy.allow_network and policy.allow_unix_sockets:
            raise SandboxLaunchError(
                "bubblewrap cannot keep the host's abstract sockets closed while it "
                "shares the network and lets unix sockets be made; allow one of the "
                "two, or use the linux-namespace backend"
            )
        with ExitStack() as stack:
            plan = _Plan(stack, checked, reply=reply_limit_bytes is not None)
            stub = plan.stub(argv, has_input=bool(input_bytes))
            target = Target(
                output_bytes=policy.limits.output_bytes,
                input_bytes=input_bytes,
                reply_limit=reply_limit_bytes,
                pass_fds=plan.fds,
            )
            outcome = target.run(
                {
                    "argv": [
                        program,
                        "--args",
                        str(plan.args_fd),
                        "--",
                        *stub,
                    ],
                    "blobs": plan.blobs(),
                    "note": True,
                    "empty_stdin": not input_bytes,
                    "env": {},
                    "cwd": "/",
                    "scratch": None,
                    "mark": "",
                    "max_processes": None,
                    "limits": {
                        "open_files": policy.limits.open_files,
                        "file_size_bytes": policy.limits.file_size_bytes,
                        "cpu_s": policy.limits.cpu_s and math.ceil(policy.limits.cpu_s),
                    },
                },
                deadline=policy.timeout_s and started + policy.timeout_s,
            )
        refuse_failed_start(outcome, argv[0])
        return result_of(
            outcome,
            policy,
            argv=argv,
            backend=self.name,
            held=self.probe().guarantees,
            started=started,
            end=shell_end,
        )


class _UnprovenExecutor(Unproven, BubblewrapSandboxExecutor):
    """What the probe attacks."""


class _Plan:
    """The arguments of one run and the descriptors they name."""

    def __init__(
        self, stack: ExitStack, checked: CheckedPolicy, *, reply: bool
    ) -> None:
        self._stack = stack
        self._policy = checked.policy
        self.fds: list[int] = []
        self._blobs: list[bytes] = []
        pinned = {
            item.path: item.fd
            for item in (*checked.read, *checked.write, *checked.denied)
        }
        system, links = split_links(checked.system)
        binds = policy_binds(checked, system)
        sources = {step[1]: self._source(step, pinned) for step in binds}
        # From here on the numbers of the blobs are known to be free.
        self.args_fd = max(self.fds, default=_LOWEST_FD) + 1
        words = [*self._namespaces(), *self._environment(reply=reply)]
        # First: an interpreter that lies in the host's /tmp is shown above the
        # private one.
        words += self._kernel_files()
        for _, path, _, _, _ in system:
            words += ["--ro-bind", path, path]
        for path, target in links:
            words += ["--symlink", target, path]
        words += self._accounts()
        for step in binds:
            words += self._step(step, sources)
        words += ["--remount-ro", "/", "--chdir", checked.policy.cwd or _HOME]
        self._args = b"".join(os.fsencode(word) + b"\0" for word in words)

    def _source(self, step: Bind, pinned: dict[str, int]) -> int:
        """Return a descriptor, high enough to pass on, of what a step binds."""
        kind, path, _, device, inode = step
        if kind == "mask":
            return -1
        fd = pinned.get(path, -1)
        if fd < 0:
            item = pin("allowed_write_paths", path)
            self._stack.callback(os.close, item.fd)
            if (item.device, item.inode) != (device, inode):
                raise SandboxPolicyError(f"{path!r} was replaced during the check")
            fd = item.fd
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)
        self._stack.callback(os.close, high)
        self.fds.append(high)
        return high

    def _blob(self, data: bytes) -> str:
        self._blobs.append(data)
        return str(self.args_fd + len(self._blobs))

    def blobs(self) -> list[tuple[int, str]]:
        """Return what the monitor puts on which descriptor."""
        every = [self._args, *self._blobs]
        return [
            (self.args_fd + at, base64.b64encode(blob).decode("ascii"))
            for at, blob in enumerate(every)
        ]

    def options(self) -> list[str]:
        """Return what of the options stands in bwrap's argv."""
        return ["--args", str(self.args_fd)]

    def stub(self, argv: tuple[str, ...], *, has_input: bool = False) -> list[str]:
        """Return the command that bwrap runs; without input it reads /dev/null."""
        processes = self._policy.limits.processes
        if not self._policy.include_system:
            if processes is not None:
                raise SandboxLaunchError(
                    "a process limit under bubblewrap is set by /bin/sh inside, which "
                    "include_system=False hides; set processes=None, or use another "
                    "backend"
                )
            return list(argv)
        # bwrap's own two processes count as well.
        limit = "" if processes is None else str(processes + 2)
        # bwrap itself has a pipe without a writer.
        stub = _STUB if has_input else f"exec </dev/null{_STUB}"
        return ["/bin/sh", "-c", stub, limit, *argv]

    def _namespaces(self) -> Iterator[str]:
        yield from ("--unshare-all", "--unshare-user", "--disable-userns")
        yield from ("--new-session", "--die-with-parent", "--cap-drop", "ALL")
        if self._policy.allow_network:
            yield "--share-net"
        limits = self._policy.limits
        program = build_filter(
            os.uname().machine,
            namespaces=True,
            allow_inet=True,
            allow_unix=self._policy.allow_unix_sockets,
            allow_memfd=limits.memory_bytes is None,
            allow_segments=limits.memory_bytes is None,
        )
        yield from ("--seccomp", self._blob(program))

    def _environment(self, *, reply: bool) -> Iterator[str]:
        env = {"PATH": DEFAULT_PATH, "HOME": _HOME, "LANG": "C.UTF-8", "TMPDIR": _HOME}
        env |= self._policy.env
        if reply:
            env[REPLY_VARIABLE] = str(REPLY_FD)
        yield "--clearenv"
        for name, value in env.items():
            yield from ("--setenv", name, value)

    def _accounts(self) -> Iterator[str]:
        if self._policy.include_system:
            uid, gid = os.geteuid(), os.getegid()
            user = f"sandbox:x:{uid}:{gid}:sandbox:{_HOME}:/bin/sh\n"
            yield from ("--ro-bind-data", self._blob(user.encode()), "/etc/passwd")
            group = f"sandbox:x:{gid}:\n"
            yield from ("--ro-bind-data", self._blob(group.encode()), "/etc/group")

    def _kernel_files(self) -> Iterator[str]:
        yield from ("--proc", "/proc", "--dev", "/dev")
        for name in KEY_NAMES if os.geteuid() else PROC_SECRETS:
            if os.path.exists(f"/proc/{name}"):
                # On a mount without devices a node cannot be opened at all.
                yield from ("--ro-bind", "/dev/null", f"/proc/{name}")
        for name in ("sys", "sysrq-trigger", "irq", "bus", "fs"):
            yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
        size = self._policy.limits.workspace_bytes or _SCRATCH_BYTES
        yield from ("--perms", "1777", "--size", str(size), "--tmpfs", _HOME)

    def _step(self, step: Bind, sources: dict[str, int]) -> Iterator[str]:
        kind, path, is_dir, _, _ = step
        if kind == "mask" and is_dir:
            yield from ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
        elif kind == "mask":
            yield from ("--perms", "0000", "--ro-bind-data", self._blob(b""), path)
        else:
            option = "--ro-bind-fd" if kind == "read" else "--bind-fd"
            yield from (option, str(sources[path]), path)


def refuse_failed_start(outcome: Outcome, program: str) -> None:
    """Raise when the target was never started.

    Raises:
        SandboxCommandNotFoundError: It does not exist inside.
        SandboxPolicyViolationError: It may not be executed.
        SandboxLaunchError: bwrap or the limit failed.
    """
    note = outcome.note
    if note == "missing":
        raise SandboxCommandNotFoundError(
            2,
            "the command does not exist inside the sandbox; add its directory to "
            "allowed_read_paths, or to PATH in env",
            program,
        )
    if note == "refused":
        raise SandboxPolicyViolationError(
            13, "the policy does not let this program be executed", program
        )
    if note == "limit":
        raise SandboxLaunchError("the process limit could not be set inside")
    # Without the stub nothing but bwrap's own words tells; the target can forge them.
    failed = outcome.status and outcome.stderr.data.startswith(b"bwrap: ")
    if failed and note != "started":
        text = outcome.stderr.data[:500].decode("utf-8", "backslashreplace")
        raise SandboxLaunchError(f"bwrap did not start the target: {text!r}")

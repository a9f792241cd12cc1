"""The arguments of one bubblewrap run: namespaces, mounts, filter, environment.

They travel by descriptor, so that no secret of a policy stands in an argv; the
policy's paths by the descriptors that were checked. Bubblewrap run by root leaves
/proc/sys writable even without any capability, so it is bound read-only on top.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from lazycore.sandbox._errors import SandboxLaunchError, SandboxPolicyError
from lazycore.sandbox._executor import REPLY_VARIABLE
from lazycore.sandbox._linux._native import DEFAULT_PATH
from lazycore.sandbox._linux._plan import policy_binds, split_links
from lazycore.sandbox._linux._proc import KEY_NAMES, PROC_SECRETS
from lazycore.sandbox._linux._seccomp import build_filter
from lazycore.sandbox._monitor import NOTE_FD, REPLY_FD
from lazycore.sandbox._preflight import pin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from lazycore.sandbox._linux._plan import Bind
    from lazycore.sandbox._preflight import CheckedPolicy

_HOME = "/tmp"  # noqa: S108 - the sandbox's own
_SCRATCH_BYTES = 1 << 30
_LOWEST_FD = 100

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


class Plan:
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

    def blobs(self) -> list[tuple[int, bytes]]:
        """Return what the monitor puts on which descriptor."""
        every = [self._args, *self._blobs]
        return [(self.args_fd + at, blob) for at, blob in enumerate(every)]

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

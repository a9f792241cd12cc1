"""The host's side of an attack: secrets to steal, traps to touch, a victim."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from lazycore.sandbox._limits import ResourceLimits
from lazycore.sandbox._policy import SandboxPolicy

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_FILES = ("hidden/secret", "shown/file", "shown/other", "work/deep/denied/secret")
_IPC_RMID = 0
_VICTIM = "import os\nwhile os.read(0, 1):\n    os.write(1, b'.')"
_ANSWER_S = 10


class Stage:
    """A directory with traps, listeners and a victim process, for one backend.

    ::

        hidden/secret             in no list
        shown/file, shown/other   allowed to read
        work/                     allowed to write
        work/deep/denied/secret   denied within allowed
    """

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        # Outside /tmp, which a private one would hide for nothing.
        parent = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None  # noqa: S108
        self.base = os.path.realpath(tempfile.mkdtemp(prefix="lc-", dir=parent))
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self.base, ignore_errors=True)
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise

    def _build(self) -> None:
        for folder in ("hidden/folder", "shown", "work/deep/denied"):
            os.makedirs(self.path(folder))
        self._marks: dict[str, object] = {}
        self._reset()
        self.tcp = self._server(socket.AF_INET, ("127.0.0.1", 0))
        self.tcp6 = self._server(socket.AF_INET6, ("::1", 0))
        self.udp = self._stack.enter_context(
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        )
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setblocking(False)  # noqa: FBT003 - the only call form
        self._server(socket.AF_UNIX, self.path("hidden/sock"))
        self._server(socket.AF_UNIX, self.path("shown/sock"))
        self.abstract = f"lazycore-{self.token}"
        if sys.platform == "linux":
            self._server(socket.AF_UNIX, "\0" + self.abstract)
        self.victim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _VICTIM],
            env={"VICTIM_SECRET": self.token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        for pipe in (self.victim.stdin, self.victim.stdout):
            assert pipe is not None
            self._stack.callback(pipe.close)
        self._stack.callback(self.victim.wait)
        self._stack.callback(self.victim.kill)
        self.segment = self._shared_memory()
        self.shm_file = self._shm_file()

    def _server(self, family: int, address: Any) -> socket.socket:
        server = socket.socket(family, socket.SOCK_STREAM)
        self._stack.callback(server.close)
        with contextlib.suppress(OSError):  # a host without IPv6
            server.bind(address)
            server.listen()
        return server

    def _shared_memory(self) -> int:
        """Create a System V segment; return its key."""
        key = secrets.randbelow(2**30) + 1
        libc = ctypes.CDLL(None)
        segment = libc.shmget(key, 4096, 0o1666)
        if segment < 0:
            return 0
        self._stack.callback(libc.shmctl, segment, _IPC_RMID, None)
        return key

    def _shm_file(self) -> str:
        path = f"/dev/shm/lazycore-{self.token}"  # noqa: S108 - a trap
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(self.token)
        except OSError:
            return ""
        self._stack.callback(os.unlink, path)
        return path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def path(self, name: str) -> str:
        """Return the absolute path of something on the stage."""
        return os.path.join(self.base, name)

    def policy(self, *, denied: bool = False, **changes: Any) -> SandboxPolicy:
        """Return the policy that attacks run under."""
        fields: dict[str, Any] = {
            "allowed_read_paths": [self.path("shown")],
            "allowed_write_paths": [self.path("work")],
            "denied_paths": [self.path("work/deep/denied")] if denied else [],
            "timeout_s": 20,
            "limits": ResourceLimits(processes=64),
        }
        return SandboxPolicy(**(fields | changes))

    def facts(self) -> dict[str, object]:
        """Return what the attack is told: where everything lies."""
        return {
            "token": self.token,
            "secret": self.path("hidden/secret"),
            "hidden": self.path("hidden"),
            "shown": self.path("shown"),
            "work": self.path("work"),
            "denied": self.path("work/deep/denied/secret"),
            "tcp": self.tcp.getsockname()[1],
            "tcp6": self.tcp6.getsockname()[1],
            "udp": self.udp.getsockname()[1],
            "hidden_sock": self.path("hidden/sock"),
            "shown_sock": self.path("shown/sock"),
            "abstract": self.abstract,
            "victim": self.victim.pid,
            "caller": os.getpid(),
            "segment": self.segment,
            "shm_file": self.shm_file,
            "ipc_namespace": _ipc_namespace(),
            "mount_point": _hidden_mount_point(),
            "numbers": _numbers(),
        }

    def _victim_answers(self) -> bool:
        """Ask the victim for a byte: a signal kills or stops it only after a while."""
        asked, answers = self.victim.stdin, self.victim.stdout
        assert asked is not None
        assert answers is not None
        try:
            asked.write(b".")
        except OSError:
            return False
        ready, _, _ = select.select([answers], [], [], _ANSWER_S)
        return bool(ready) and answers.read(1) == b"."

    def touched(self) -> str:
        """Name what an attack changed outside the workspace; set it right again."""
        changed = [
            name for name, mark in self._marks.items() if self._mark(name) != mark
        ]
        extra = sorted(
            set(os.listdir(self.path("hidden"))) - {"secret", "sock", "folder"}
            | set(os.listdir(self.path("shown"))) - {"file", "other", "sock"}
        )
        if not self._victim_answers():
            changed.append("the victim process")
        if changed or extra:
            for name in extra:
                for folder in ("hidden", "shown"):
                    with contextlib.suppress(OSError):
                        os.unlink(self.path(f"{folder}/{name}"))
            self._reset()
        self._sweep_work()
        return ", ".join([*changed, *extra])

    def _reset(self) -> None:
        for name in _FILES:
            path = self.path(name)
            with contextlib.suppress(OSError):
                os.unlink(path)
            with contextlib.suppress(OSError):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(self.token)
            os.chmod(path, 0o644)
        self.forgive()

    def forgive(self) -> None:
        """Take what the stage itself changed for granted."""
        self._marks = {name: self._mark(name) for name in _FILES[:3]}

    def _mark(self, name: str) -> object:
        try:
            info = os.lstat(self.path(name))
            with open(self.path(name), "rb") as file:
                content = file.read()
            names = os.listxattr(self.path(name)) if sys.platform == "linux" else []
        except OSError:
            return None
        times = (info.st_mtime_ns, info.st_ctime_ns)
        return (content, info.st_mode, info.st_uid, info.st_nlink, times, names)

    def _sweep_work(self) -> None:
        """Give the next attack an empty workspace."""
        for entry in os.scandir(self.path("work")):
            if entry.name == "deep":
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
        if not os.path.exists(self.path("work/deep/denied/secret")):
            shutil.rmtree(self.path("work/deep"), ignore_errors=True)
            self._reset()

    def lock_is_free(self, name: str, *, patience_s: float = 0) -> bool:
        """Tell whether nobody alive holds the lock that a daemon took."""
        give_up = time.monotonic() + patience_s
        with open(self.path(name), "ab") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() >= give_up:
                        return False
                    time.sleep(0.01)
                else:
                    return True


def _numbers() -> dict[str, int]:
    if sys.platform != "linux":
        return {}
    from lazycore.sandbox._linux._numbers import numbers

    machine = os.uname().machine
    return numbers(machine) if machine in {"x86_64", "aarch64"} else {}


def _hidden_mount_point() -> str:
    """Name a mount of the host that no policy shows; empty where there is none."""
    try:
        with open("/proc/self/mountinfo") as file:
            points = [line.split(" ")[4] for line in file]
    except OSError:
        return ""
    roots = ("/sys", "/run", "/var", "/boot", "/home", "/mnt", "/media", "/srv")
    hidden = (p for root in roots for p in points if f"{p}/".startswith(f"{root}/"))
    return next(hidden, "")


def _ipc_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/ipc")
    except OSError:
        return ""

"""What the two launcher-based executors share: the request and the result."""

from __future__ import annotations

import math
import os
import sys
import time
from abc import abstractmethod
from typing import TYPE_CHECKING

from lazycore.sandbox._callables import VALUE_LIMIT_BYTES, finish, pack
from lazycore.sandbox._executor import REPLY_VARIABLE, BaseSandboxExecutor, Order
from lazycore.sandbox._guarantees import Guarantee, required_guarantees
from lazycore.sandbox._linux._cgroup_tree import bounds_of
from lazycore.sandbox._linux._client import LauncherHandle
from lazycore.sandbox._linux._order import Order as LauncherOrder
from lazycore.sandbox._linux._probe import probe_backend
from lazycore.sandbox._linux._run import OpenRun, Run
from lazycore.sandbox._linux._seccomp import build_filter
from lazycore.sandbox._linux._session_client import NativeSession
from lazycore.sandbox._linux._target import REPLY_FD
from lazycore.sandbox._outcome import result_of
from lazycore.sandbox._preflight import preflight

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Self

    from lazycore.sandbox._guarantees import BackendReport
    from lazycore.sandbox._linux._request import Request
    from lazycore.sandbox._linux._slot import Limits
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._preflight import CheckedPolicy
    from lazycore.sandbox._result import SandboxResult

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SLOT_FILES = 512
_SLOT_STEPS = 100
"""Each step of the mount plan holds a descriptor, and a slot keeps three plans."""
MACHINE = os.uname().machine


class NativeExecutor(BaseSandboxExecutor):
    """Run targets through a launcher process of this caller's own."""

    def __init__(self, *, allow_degraded: Iterable[Guarantee] = frozenset()) -> None:
        super().__init__(allow_degraded=allow_degraded)
        self._held: frozenset[Guarantee] | None = None
        self._launcher = LauncherHandle()

    @classmethod
    def probe(cls) -> BackendReport:
        """Find out, by trying, everything this backend enforces on this host.

        Returns:
            The report; cached per user for the life of the process.
        """
        return probe_backend(cls, frozenset(Guarantee))

    @classmethod
    def probe_for(cls, needed: frozenset[Guarantee]) -> BackendReport:
        """Probe what `needed` names and what costs one run in any case."""
        return probe_backend(cls, needed)

    @classmethod
    def bare(cls) -> Self:
        """Make an executor for a probe, which cannot ask what a probe found."""
        executor = cls()
        executor._held = frozenset()
        return executor

    @abstractmethod
    def launch_kind(self, policy: SandboxPolicy) -> bytes:
        """Say which namespaces a run of `policy` needs."""

    @abstractmethod
    def scratch(self, parent: str | None) -> AbstractContextManager[str]:
        """Provide the private scratch directory of one run.

        Args:
            parent: The scratch directory of the session that the run belongs to.
        """

    @abstractmethod
    def request(
        self, argv: tuple[str, ...], checked: CheckedPolicy, scratch: str, order: Order
    ) -> Request:
        """Describe one run; the policy was checked and is pinned."""

    def _run(
        self, argv: tuple[str, ...], checked: CheckedPolicy, order: Order
    ) -> SandboxResult:
        kind = self.launch_kind(checked.policy)
        calls = order.call is not None
        with self.scratch(None) as scratch:
            request = self.request(argv, checked, scratch, order)

            def open_run(
                submit: Callable[[socket.socket], None],
            ) -> tuple[socket.socket, int]:
                asked = LauncherOrder(
                    kind, slot_limits(request), request["bounds"], lends=False
                )
                return self._launcher.open_run(asked.written(), submit, calls=calls)

            return self.finish_run(request, checked.policy, order, open_run)

    def open_session(
        self, policy: SandboxPolicy, *, preload: Sequence[str], path: Sequence[str]
    ) -> NativeSession:
        """Start a warm server for `SandboxSession`."""
        self._require(policy)
        return NativeSession(
            self, self._launcher, preflight(policy), preload=preload, path=path
        )

    def _run_callable(
        self,
        fn: Callable[..., object],
        policy: SandboxPolicy,
        args: Sequence[object],
        kwargs: Mapping[str, object] | None,
    ) -> SandboxResult:
        """Make a call in a child of the launcher, which needs no new interpreter.

        The child sees this process's `sys.path`, as far as the policy lets it read
        those directories.
        """
        started = time.monotonic()
        call = pack(fn, args, kwargs)
        self._require(policy)
        order = Order(reply_limit_bytes=VALUE_LIMIT_BYTES, started=started, call=call)
        with preflight(policy) as checked:
            result = self._run((call.name,), checked, order)
        return finish(call, result)

    def close(self) -> None:
        """Kill what still runs and end the launcher."""
        self._launcher.close()

    def finish_run(
        self,
        request: Request,
        policy: SandboxPolicy,
        order: Order,
        open_run: OpenRun,
        *,
        private: Sequence[str] = (),
    ) -> SandboxResult:
        """Hand a request to a child of `open_run` and describe how it went.

        Args:
            request: The run.
            policy: What it may do.
            order: What it needs beside the policy.
            open_run: Opens the child.
            private: Keys of the request that only the target shall read.
        """
        run = Run(
            request,
            private=private,
            output_bytes=policy.limits.output_bytes,
            input_bytes=order.input_bytes,
            reply_limit_bytes=order.reply_limit_bytes,
        )
        deadline = (
            None if policy.timeout_s is None else order.started + policy.timeout_s
        )
        outcome = run.collect(open_run, deadline=deadline)
        held = self._held
        if held is None:
            held = self.probe_for(required_guarantees(policy)).guarantees
        return result_of(
            outcome,
            policy,
            argv=tuple(request["argv"]),
            backend=self.name,
            held=held,
            started=order.started,
        )


def slot_limits(request: Request) -> Limits | None:
    """Return what a slot must have to serve a run; None if it needs its own process.

    A call runs in a copy of its parent's memory, which must not have seen other runs.
    A slot has its runs' limits itself. And before Linux 6.14 processes are counted
    by user namespace, which all runs of a slot share.
    """
    limits: Limits = request["limits"] | {"processes": None}
    counted_by_user = (
        request["limits"]["processes"] is not None
        and request["base"]["pid_limit"] is None
    )
    files = limits["open_files"]
    parts = ("common_rules", "rules", "binds")
    if (
        request["call"] is not None
        or counted_by_user
        or (files is not None and files < _SLOT_FILES)
        or sum(len(request.get(part, ())) for part in parts) > _SLOT_STEPS
    ):
        return None
    return limits


def base_request(
    argv: tuple[str, ...],
    policy: SandboxPolicy,
    order: Order,
    *,
    namespaces: bool,
    counted: bool,
    scratch: str,
) -> Request:
    """Build the part of a request that does not depend on the mechanism.

    Args:
        argv: The program and its arguments.
        policy: What it may do.
        order: What it needs beside the policy.
        namespaces: Whether it gets its own.
        counted: Whether nothing but a control group can bound its processes.
        scratch: Its private directory.
    """
    env = {
        "PATH": DEFAULT_PATH,
        "HOME": scratch,
        "LANG": "C.UTF-8",
        "TMPDIR": scratch,
        **policy.env,
    }
    if order.reply_limit_bytes is not None:
        env[REPLY_VARIABLE] = str(REPLY_FD)
    limits = policy.limits
    return {
        "argv": list(argv),
        "env": env,
        "cwd": policy.cwd or scratch,
        "namespaces": namespaces,
        "session": False,
        "input": bool(order.input_bytes),
        "call": None if order.call is None else order.call.description(),
        "path": [os.path.abspath(entry) for entry in (*order.path, *sys.path)],
        "limits": {
            "open_files": limits.open_files,
            "file_size_bytes": limits.file_size_bytes,
            # One second above what the supervisor meters for the tree, should it
            # be starved.
            "cpu_s": None if limits.cpu_s is None else math.ceil(limits.cpu_s) + 1,
            "data_bytes": _data_bytes(limits.memory_bytes),
            "processes": None,
        },
        "bounds": bounds_of(limits, processes=counted),
        "watch": {
            "cpu_s": limits.cpu_s,
            "memory_bytes": limits.memory_bytes,
            "workspace_bytes": limits.workspace_bytes,
            "paths": list(policy.allowed_write_paths),
            "scratch": [],
        },
        "filter": build_filter(
            MACHINE,
            namespaces=namespaces,
            allow_inet=policy.allow_network or namespaces,
            allow_unix=policy.allow_unix_sockets,
            allow_memfd=policy.allowed_executables is None
            and limits.memory_bytes is None,
            allow_segments=limits.memory_bytes is None,
        ),
    }


def _data_bytes(memory_bytes: int | None) -> int | None:
    """Bound what one process may map privately, above what the meter allows.

    Untouched thread stacks count here and not in the meter, hence the slack.
    """
    if memory_bytes is None:
        return None
    return max(2 * memory_bytes, memory_bytes + (512 << 20))

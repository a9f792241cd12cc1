"""The contract of every backend: one policy in, one result out, or an error."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from lazycore.sandbox._errors import SandboxBackendUnavailableError
from lazycore.sandbox._guarantees import BackendReport, Guarantee, required_guarantees
from lazycore.sandbox._policy import SandboxPolicy
from lazycore.sandbox._preflight import preflight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from lazycore.sandbox._callables import Call
    from lazycore.sandbox._preflight import CheckedPolicy
    from lazycore.sandbox._result import SandboxResult

REPLY_VARIABLE = "LAZYCORE_REPLY_FD"
"""Environment variable that names the reply descriptor inside the sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one run needs beside its policy.

    Attributes:
        started: When the caller asked, as time.monotonic() counts.
        input_bytes: What the target reads on stdin.
        reply_limit_bytes: How much of the reply pipe is kept; None makes no pipe.
        call: The call to make, None for a command.
        path: Directories put first on a call's `sys.path`.
    """

    started: float
    input_bytes: bytes | None = None
    reply_limit_bytes: int | None = None
    call: Call | None = None
    path: tuple[str, ...] = ()


class Session(Protocol):
    """What `SandboxSession` asks of a backend: runs under a policy that it holds."""

    def run(self, argv: tuple[str, ...], order: Order) -> SandboxResult:
        """Run one order; a call's reply is read by `_callables.finish`."""

    def close(self) -> None:
        """End whatever still runs; closing twice is harmless."""


class BaseSandboxExecutor(ABC):
    """Run commands and callables under a policy on one kind of kernel mechanism.

    Executors hold no state that a caller can see, may be shared between threads,
    and are closable; closing kills what still runs.

    Subclasses give `name`, `probe` and `_run`.

    Args:
        allow_degraded: Guarantees the caller chooses to do without when this
            backend lacks them. They are recorded in every result.

    Examples:
        >>> from lazycore.sandbox import get_default_executor
        >>> with get_default_executor() as executor:  # doctest: +SKIP
        ...     executor.run_command(["true"], SandboxPolicy()).returncode
        0
    """

    name: ClassVar[str]

    def __init__(self, *, allow_degraded: Iterable[Guarantee] = frozenset()) -> None:
        self.allow_degraded = frozenset(Guarantee(item) for item in allow_degraded)

    @classmethod
    @abstractmethod
    def probe(cls) -> BackendReport:
        """Find out, by trying, what this backend enforces on this host.

        Returns:
            The report; cached for the life of the process. Never raises.
        """

    @classmethod
    def probe_for(cls, needed: frozenset[Guarantee]) -> BackendReport:
        """Probe at least what `needed` names; a backend may skip the rest.

        Returns:
            The report; never claims what was not probed. Never raises.
        """
        del needed
        return cls.probe()

    @classmethod
    def is_available(cls) -> bool:
        """Tell whether this backend can run anything on this host.

        Returns:
            True when a probe succeeded. Never raises.
        """
        return cls.probe_for(frozenset()).available

    @abstractmethod
    def _run(
        self, argv: tuple[str, ...], checked: CheckedPolicy, order: Order
    ) -> SandboxResult:
        """Run `argv` confined; called with a policy that was checked and is pinned."""

    def run_command(
        self,
        argv: Sequence[str | os.PathLike[str]],
        policy: SandboxPolicy,
        *,
        input: bytes | None = None,  # noqa: A002 - the name subprocess.run uses
        reply_limit_bytes: int | None = None,
    ) -> SandboxResult:
        """Run one command to its end and kill every process that it leaves.

        Args:
            argv: The program and its arguments; a name without a slash is looked
                up in the PATH of the target, inside the sandbox.
            policy: What the command may do.
            input: Bytes for stdin; None gives an empty one.
            reply_limit_bytes: When set, the target inherits one pipe whose number
                is in the environment variable `LAZYCORE_REPLY_FD`; at most so
                many bytes written to it come back as `result.reply`.

        Returns:
            The result, also for a non-zero exit and a timeout; `check()` raises.

        Raises:
            SandboxPolicyError: If a path of the policy cannot be held.
            SandboxBackendUnavailableError: If this backend lacks a guarantee that
                the policy needs and `allow_degraded` does not name.
            SandboxCommandNotFoundError: If the command does not exist inside.
            SandboxPolicyViolationError: If the policy refuses to execute it.
            SandboxLaunchError: If the kernel refused a step; nothing ran.
            SandboxLostError: If the launcher was killed while the target ran.
        """
        if getattr(policy, "workspace", None) is not None:
            from lazycore.sandbox._workspace import run_in_copy

            return run_in_copy(
                policy,
                lambda granted: self.run_command(
                    argv, granted, input=input, reply_limit_bytes=reply_limit_bytes
                ),
            )
        started = time.monotonic()
        words = check_argv(argv)
        order = Order(
            started=started,
            input_bytes=check_run_options(input, reply_limit_bytes),
            reply_limit_bytes=reply_limit_bytes,
        )
        self._require(policy)
        with preflight(policy) as checked:
            return self._run(words, checked, order)

    def run_callable(
        self,
        fn: Callable[..., object],
        policy: SandboxPolicy,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> SandboxResult:
        """Call `fn(*args, **kwargs)` in a confined process and return its value.

        The function and its arguments travel in by pickle, so `fn` must be
        importable inside the sandbox (or cloudpickle installed). The value comes
        back as data only, never by pickle.

        Args:
            fn: The callable.
            policy: What it may do.
            args: Positional arguments.
            kwargs: Keyword arguments.

        Returns:
            The result; `value` holds what `fn` returned.

        Raises:
            SandboxCallableError: If `fn` raised, or its process ended without
                handing a value back; `result` holds the output so far.
            SandboxTimeoutError: If the call passed the timeout.
            SandboxFrameError: If what came back is not a well-formed frame.
            SandboxError: Whatever `run_command` raises.
        """
        if getattr(policy, "workspace", None) is not None:
            from lazycore.sandbox._workspace import run_in_copy

            return run_in_copy(
                policy, lambda granted: self.run_callable(fn, granted, args, kwargs)
            )
        return self._run_callable(fn, policy, args, kwargs)

    def _run_callable(
        self,
        fn: Callable[..., object],
        policy: SandboxPolicy,
        args: Sequence[object],
        kwargs: Mapping[str, object] | None,
    ) -> SandboxResult:
        """Make a call; a backend with a quicker way than a new interpreter has it."""
        from lazycore.sandbox._callables import run_callable

        return run_callable(self, fn, policy, args, kwargs)

    async def arun_command(
        self,
        argv: Sequence[str | os.PathLike[str]],
        policy: SandboxPolicy,
        *,
        input: bytes | None = None,  # noqa: A002 - the name subprocess.run uses
        reply_limit_bytes: int | None = None,
    ) -> SandboxResult:
        """Await `run_command` in a worker thread; same arguments and errors.

        Returns:
            The result. Cancelling the task does not interrupt the run: its own
            timeout bounds it.
        """
        import asyncio

        return await asyncio.to_thread(
            self.run_command,
            argv,
            policy,
            input=input,
            reply_limit_bytes=reply_limit_bytes,
        )

    async def arun_callable(
        self,
        fn: Callable[..., object],
        policy: SandboxPolicy,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> SandboxResult:
        """Await `run_callable` in a worker thread; same arguments and errors.

        Returns:
            The result; `value` holds what `fn` returned.
        """
        import asyncio

        return await asyncio.to_thread(self.run_callable, fn, policy, args, kwargs)

    def open_session(
        self, policy: SandboxPolicy, *, preload: Sequence[str], path: Sequence[str]
    ) -> Session:
        """Start what `SandboxSession` runs on; here a new interpreter per call."""
        from lazycore.sandbox._fresh_session import FreshSession

        own = type(self)(allow_degraded=self.allow_degraded)
        try:
            return FreshSession(own, policy, preload=preload, path=path)
        except BaseException:
            own.close()
            raise

    def close(self) -> None:  # noqa: B027 - a backend without processes has none
        """Kill what still runs and release processes and descriptors."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _require(self, policy: SandboxPolicy) -> frozenset[Guarantee]:
        """Return what is knowingly degraded, or raise when something is missing."""
        if not isinstance(policy, SandboxPolicy):
            raise TypeError(
                f"policy must be a SandboxPolicy, got {type(policy).__name__}"
            )
        needed = required_guarantees(policy)
        report = self.probe_for(needed)
        missing = needed - report.guarantees
        if not report.available or missing - self.allow_degraded:
            raise SandboxBackendUnavailableError(
                refusal([report], policy, allow_degraded=self.allow_degraded)
            )
        return missing


class Unproven(BaseSandboxExecutor):
    """Make of a backend what its probe attacks: the engine before anything is known.

    Stands before the backend among the bases.
    """

    @classmethod
    def probe(cls) -> BackendReport:
        """Claim everything, so that whatever the probe asks for is run."""
        return BackendReport(
            backend=cls.name, available=True, guarantees=frozenset(Guarantee)
        )

    @classmethod
    def bare(cls) -> Self:
        """Make an executor for a probe."""
        return cls()


def refusal(
    reports: Iterable[BackendReport],
    policy: SandboxPolicy,
    *,
    allow_degraded: frozenset[Guarantee],
) -> str:
    """Say per backend what is missing for `policy` and what mends it."""
    needed = required_guarantees(policy)
    lines = ["no backend holds this policy on this host, so nothing was run:"]
    for report in reports:
        if not report.available:
            lines.append(f"  {report.backend}: not available: {report.reason}")
        else:
            missing = sorted(needed - report.guarantees - allow_degraded)
            lines.append(f"  {report.backend}: lacks {', '.join(missing)}")
            names = ", ".join(f"Guarantee.{Guarantee(m).name}" for m in missing)
            lines.append(f"    to do without: allow_degraded={{{names}}}")
        if report.remedy:
            lines.append(f"    to mend: {report.remedy}")
    return "\n".join(lines)


def check_run_options(
    data: bytes | None, reply_limit_bytes: int | None
) -> bytes | None:
    """Refuse input that is not bytes and a reply limit that is not positive."""
    if data is not None and not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"input must be bytes or None, got {type(data).__name__}")
    if reply_limit_bytes is not None and reply_limit_bytes <= 0:
        raise ValueError(
            f"reply_limit_bytes must be above zero, got {reply_limit_bytes}"
        )
    return None if data is None else bytes(data)


def check_argv(argv: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return `argv` as text, or refuse what the kernel could not take."""
    if isinstance(argv, (str, bytes, os.PathLike)):
        raise TypeError(f"argv must be a list of words, got {argv!r}; no shell runs it")
    words = tuple(os.fspath(word) for word in argv)
    if not words or not words[0]:
        raise ValueError("argv must name a program; it is empty")
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"argv must hold text, got {word!r}")
        if "\0" in word:
            raise ValueError(f"argv holds {word!r}, which contains NUL")
    # A StrEnum is text too, and travels to no other process.
    return tuple(map(str.__str__, words))

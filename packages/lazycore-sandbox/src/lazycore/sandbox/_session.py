"""A warm interpreter inside the sandbox, with one fresh confined child per call."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from lazycore.sandbox._callables import VALUE_LIMIT_BYTES, finish, pack
from lazycore.sandbox._executor import Order, check_argv, check_run_options
from lazycore.sandbox._select import get_default_executor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._result import SandboxResult


class SandboxSession:
    """Keep a warm interpreter under one policy and run calls in children of it.

    The server imports `preload` once, inside the sandbox and without capabilities.
    Each call runs in a fresh child with namespaces, scratch space and limits of its
    own: calls cannot see, signal or trace each other or the server, and nothing of
    one call is left for the next but what it wrote to the policy's write paths.

    Bubblewrap and Seatbelt let nobody inside make the next sandbox. There each call
    gets a sandbox and an interpreter of its own, which imports `preload` first: the
    same isolation, without the warmth. `executor.name` tells which one runs.

    A session may be shared between threads. Children share the server's random
    state, numpy's legacy generator included: seed in the call.

    Args:
        policy: What every call may do; its paths are checked and pinned now.
        executor: The executor to run on; None takes `get_default_executor(policy)`
            and closes it with the session.
        preload: Modules that the server imports before the first call. They are
            trusted: the server itself is confined less than its calls. Nothing
            below a write path is imported there.
        path: Directories put first on the server's `sys.path`; the policy must let
            it read them.

    Raises:
        SandboxLaunchError: If a preloaded module cannot be imported inside.
        SandboxError: Whatever a run may raise.

    Examples:
        >>> from lazycore.sandbox import SandboxPolicy
        >>> with SandboxSession(SandboxPolicy(), preload=["json"]) as session:
        ...     session.run_callable(sum, [1, 2, 3]).value
        6
    """

    def __init__(
        self,
        policy: SandboxPolicy,
        executor: BaseSandboxExecutor | None = None,
        preload: Sequence[str] = (),
        path: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        if isinstance(preload, str) or isinstance(path, (str, os.PathLike)):
            raise TypeError("preload and path are lists, not one name")
        owned = executor is None
        chosen = get_default_executor(policy) if executor is None else executor
        try:
            self._engine = chosen.open_session(
                policy,
                preload=[str.__str__(name) for name in preload],
                path=[os.fspath(entry) for entry in path],
            )
        except BaseException:
            if owned:
                chosen.close()
            raise
        self._executor = chosen
        self._owned = owned
        self._path = tuple(os.fspath(entry) for entry in path)

    @property
    def executor(self) -> BaseSandboxExecutor:
        """The executor that the session runs on."""
        return self._executor

    def run_command(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        input: bytes | None = None,  # noqa: A002 - the name subprocess.run uses
        reply_limit_bytes: int | None = None,
    ) -> SandboxResult:
        """Run one command; see `BaseSandboxExecutor.run_command`.

        Returns:
            The result, also for a non-zero exit and a timeout.

        Raises:
            SandboxLostError: If the server was killed.
            SandboxError: Whatever `BaseSandboxExecutor.run_command` raises.
        """
        started = time.monotonic()
        words = check_argv(argv)
        data = check_run_options(input, reply_limit_bytes)
        order = Order(
            started=started, input_bytes=data, reply_limit_bytes=reply_limit_bytes
        )
        return self._engine.run(words, order)

    def run_callable(
        self, fn: Callable[..., object], *args: object, **kwargs: object
    ) -> SandboxResult:
        """Call `fn(*args, **kwargs)` in a fresh child of the warm server.

        Returns:
            The result; `value` holds what `fn` returned, as data.

        Raises:
            SandboxCallableError: If `fn` raised or ended without a value.
            SandboxError: Whatever `BaseSandboxExecutor.run_callable` raises.
        """
        started = time.monotonic()
        call = pack(fn, args, kwargs)
        order = Order(
            started=started,
            reply_limit_bytes=VALUE_LIMIT_BYTES,
            call=call,
            path=self._path,
        )
        return finish(call, self._engine.run((call.name,), order))

    async def arun_command(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        input: bytes | None = None,  # noqa: A002 - the name subprocess.run uses
        reply_limit_bytes: int | None = None,
    ) -> SandboxResult:
        """Await `run_command` in a worker thread."""
        import asyncio

        return await asyncio.to_thread(
            self.run_command, argv, input=input, reply_limit_bytes=reply_limit_bytes
        )

    async def arun_callable(
        self, fn: Callable[..., object], *args: object, **kwargs: object
    ) -> SandboxResult:
        """Await `run_callable` in a worker thread."""
        import asyncio

        return await asyncio.to_thread(self.run_callable, fn, *args, **kwargs)

    def close(self) -> None:
        """End the server and whatever still runs; closing twice is harmless."""
        self._engine.close()
        if self._owned:
            self._executor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

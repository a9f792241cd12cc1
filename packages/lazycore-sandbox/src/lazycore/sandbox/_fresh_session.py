"""A session where no server can be kept warm: every call has a sandbox of its own."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from lazycore.sandbox._callables import finish, pack, run_fresh
from lazycore.sandbox._errors import (
    SandboxCallableError,
    SandboxError,
    SandboxLaunchError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.sandbox._callables import Call
    from lazycore.sandbox._executor import BaseSandboxExecutor, Order
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._result import SandboxResult


class FreshSession:
    """Calls under one policy, each in a new interpreter that imports first.

    Bubblewrap and Seatbelt let nobody inside make the next sandbox, so children of a
    warm server could see and signal each other. A new interpreter costs time and
    keeps what a session promises.

    Args:
        executor: This session's own: closing the session closes it.
        policy: What every call may do.
        preload: Modules that each interpreter imports before its call.
        path: Directories put first on its `sys.path`.

    Raises:
        SandboxLaunchError: A module of `preload` cannot be imported inside.
    """

    def __init__(
        self,
        executor: BaseSandboxExecutor,
        policy: SandboxPolicy,
        *,
        preload: Sequence[str],
        path: Sequence[str],
    ) -> None:
        self._executor = executor
        self._policy = policy
        self._preload = tuple(preload)
        self._path = tuple(path)
        self._pid = os.getpid()
        self._closed = False
        call = pack(int, (), None)
        try:
            finish(call, self._call(call))
        except SandboxCallableError as error:
            text = error.traceback_text or str(error)
            detail = f"preload: {text[-4000:]}"
            raise SandboxLaunchError(errno.ENOPKG, detail) from error

    def run(self, argv: tuple[str, ...], order: Order) -> SandboxResult:
        """Run one order in a sandbox of its own."""
        if self._closed or os.getpid() != self._pid:
            raise SandboxError(
                "this session is closed, or belongs to the process that forked "
                "this one; open a new one"
            )
        if order.call is None:
            return self._executor.run_command(
                argv,
                self._policy,
                input=order.input_bytes,
                reply_limit_bytes=order.reply_limit_bytes,
            )
        return self._call(order.call)

    def _call(self, call: Call) -> SandboxResult:
        return run_fresh(
            self._executor,
            call,
            self._policy,
            preload=self._preload,
            path=self._path,
        )

    def close(self) -> None:
        """End every call that still runs."""
        self._closed = True
        self._executor.close()

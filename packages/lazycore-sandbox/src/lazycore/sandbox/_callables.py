"""Send a call into the sandbox by pickle and take its value back as data."""

from __future__ import annotations

import dataclasses
import os
import pickle
import secrets
import sys
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox import _frames
from lazycore.sandbox._errors import (
    SandboxCallableError,
    SandboxFrameError,
    SandboxTimeoutError,
)
from lazycore.sandbox._output import printable
from lazycore.sandbox._system import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._result import SandboxResult

VALUE_LIMIT_BYTES = 64 << 20
"""Largest frame that comes back; a bigger value is refused inside the sandbox."""

PAYLOAD_LIMIT_BYTES = (1 << 31) - 1
"""Largest pickled call: marshal takes no more in one piece."""

# The folder above this package need not be readable inside, so the package is loaded
# by its own path and put where an import statement looks first.
_BOOT = """
import importlib.util, sys, types
home = sys.argv[1]
parent = sys.modules["lazycore"] = types.ModuleType("lazycore")
parent.__path__ = []
spec = importlib.util.spec_from_file_location(
    "lazycore.sandbox", home + "/__init__.py", submodule_search_locations=[home]
)
module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
parent.sandbox = module
spec.loader.exec_module(module)
from lazycore.sandbox._child import main
main()
"""
_HOME = os.path.dirname(os.path.realpath(__file__))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A pickled call and the nonce its frame must carry."""

    payload: bytes
    nonce: bytes
    main_path: str | None
    name: str

    def description(self) -> dict[str, object]:
        """Return what `_child.call` takes, without the descriptor."""
        return {
            "payload": self.payload,
            "nonce": self.nonce,
            "limit_bytes": VALUE_LIMIT_BYTES,
            "main_path": self.main_path,
        }


def pack(
    fn: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object] | None,
) -> Call:
    """Pickle a call, with cloudpickle when plain pickle cannot and it is there.

    Raises:
        SandboxCallableError: If the function or an argument cannot travel.
    """
    if not callable(fn):
        raise TypeError(f"fn must be callable, got {type(fn).__name__}")
    name = f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', repr(fn))}"
    call = (fn, tuple(args), dict(kwargs or {}))
    main_path = None
    try:
        payload = pickle.dumps(call, protocol=5)
    except Exception as error:  # noqa: BLE001 - pickling runs foreign code
        payload = _cloudpickled(call, name, error)
    else:
        if getattr(fn, "__module__", None) == "__main__":
            main_path = _main_path(name)
    if len(payload) > PAYLOAD_LIMIT_BYTES:
        raise SandboxCallableError(
            f"{name} and its arguments are {len(payload)} bytes when pickled, more "
            f"than {PAYLOAD_LIMIT_BYTES}; write them to a file and pass its path"
        )
    return Call(
        payload=payload,
        nonce=secrets.token_bytes(16),
        main_path=main_path,
        name=name,
    )


def _main_path(name: str) -> str:
    path = getattr(sys.modules["__main__"], "__file__", None)
    if not path:
        raise SandboxCallableError(
            f"{name} is defined in an interactive session, which the sandbox cannot "
            "import; put it in a module that allowed_read_paths covers"
        )
    return os.path.abspath(str(path))


def _cloudpickled(call: tuple[object, ...], name: str, error: Exception) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        raise SandboxCallableError(
            f"{name} or an argument of it cannot be pickled ({error}); define the "
            "function at the top of a module, or: pip install cloudpickle"
        ) from error
    try:
        payload: bytes = cloudpickle.dumps(call)
    except Exception as second:
        raise SandboxCallableError(
            f"{name} or an argument of it cannot be pickled, not by cloudpickle "
            f"either: {second}"
        ) from second
    return payload


def run_callable(
    executor: BaseSandboxExecutor,
    fn: Callable[..., object],
    policy: SandboxPolicy,
    args: Sequence[object],
    kwargs: Mapping[str, object] | None,
) -> SandboxResult:
    """Call `fn` in a fresh interpreter under `executor`, over its run_command."""
    call = pack(fn, args, kwargs)
    return finish(call, run_fresh(executor, call, policy))


def run_fresh(
    executor: BaseSandboxExecutor,
    call: Call,
    policy: SandboxPolicy,
    *,
    preload: Sequence[str] = (),
    path: Sequence[str] = (),
) -> SandboxResult:
    """Make a packed call in a fresh interpreter; `finish` reads its reply.

    Args:
        executor: The backend.
        call: The call.
        policy: What it may do.
        preload: Modules that the interpreter imports first.
        path: Directories put before this process's own `sys.path`.
    """
    described = call.description() | {
        "reply_fd": 3,
        "path": [*path, *sys.path],
        "preload": list(preload),
    }
    return executor.run_command(
        [interpreter(), "-I", "-B", "-c", _BOOT, _HOME],
        policy,
        input=pickle.dumps(described),
        reply_limit_bytes=VALUE_LIMIT_BYTES,
    )


def finish(call: Call, result: SandboxResult) -> SandboxResult:
    """Turn the reply frame into `value`, or raise what it says."""
    result = dataclasses.replace(result, argv=(call.name,))
    if result.timed_out:
        timeout = SandboxTimeoutError(
            f"{call.name} passed its timeout after {result.duration_s:.3f} s"
        )
        timeout.result = result
        raise timeout
    if not result.reply:
        _no_value(call, result)
    try:
        value = _frames.decode(
            result.reply, nonce=call.nonce, limit_bytes=VALUE_LIMIT_BYTES
        )
    except SandboxFrameError as error:
        error.result = result
        raise
    if isinstance(value, _frames.RaisedException):
        raised = SandboxCallableError(
            f"{call.name} raised {printable(value.type_name)}: {printable(value.text)}",
            type_name=value.type_name,
            message=value.text,
            traceback_text=value.traceback_text,
        )
        raised.result = result
        raise raised
    return dataclasses.replace(result, value=value, reply=None)


def _no_value(call: Call, result: SandboxResult) -> NoReturn:
    end = (
        f"signal {result.signal}"
        if result.signal is not None
        else f"exit status {result.returncode}"
    )
    tail = printable(result.stderr[-2000:].decode("utf-8", "replace"))
    passed = "".join(
        f"; it hit the limit {item.kind} of {item.detail}"
        for item in result.violations
        if item.kind != "output"
    )
    error = SandboxCallableError(
        f"{call.name} ended with {end} before it handed a value back{passed}"
        + (f"; end of stderr:\n{tail}" if tail else "")
    )
    error.result = result
    raise error

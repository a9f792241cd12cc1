"""What a warm server runs inside the sandbox: load a worker once, answer in forks.

The server imports this module as its preload; the variable below names the worker.
Anywhere else the import does nothing.
"""

from __future__ import annotations

import json
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from lazycore.experiments import _worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["VARIABLE", "respond"]

VARIABLE = "LAZYCORE_WARM_WORKER"
_handler: Callable[[_worker.Request], Mapping[str, float] | _worker.Reply] | None = None


def respond(request: bytes) -> bytes:
    """Answer one request; called in a fork of the server.

    Args:
        request: Canonical request.

    Returns:
        The response's bytes, to be judged by the host.
    """
    if _handler is None:
        raise RuntimeError("no worker is loaded in this server")
    return _worker.answer(_handler, json.loads(request))


def _load(order: str) -> None:
    global _handler
    import hashlib

    plan = json.loads(order)
    with open(plan["entrypoint"], "rb") as file:  # noqa: PTH123 - pathlib is slow to load
        source = file.read()
    if hashlib.sha256(source).hexdigest() != plan["sha256"]:
        raise RuntimeError("the entrypoint is not the locked one")
    found: list[tuple[_worker.Handler, Callable[[], object] | None]] = []
    _worker._registered = found  # noqa: SLF001 - the other half of the SDK
    main = ModuleType("__main__")
    main.__file__ = plan["entrypoint"]
    # From here on nothing is taken from a __pycache__ that the lock does not pin.
    sys.pycache_prefix = plan["caches"]
    previous, sys.modules["__main__"] = sys.modules["__main__"], main
    sys.argv = [plan["entrypoint"], *plan["arguments"]]
    try:
        code = compile(source, plan["entrypoint"], "exec")
        exec(code, main.__dict__)  # noqa: S102 - loading the locked worker is the job
        if len(found) != 1:
            raise RuntimeError(f"the worker called serve {len(found)} times, want once")
        _handler, prepare = found[0]
        if prepare is not None:
            prepare()
    finally:
        # The server's own code may look its main module up.
        sys.modules["__main__"] = previous
        sys.modules["__lazycore_worker__"] = main
    sys.stdout.flush()


if VARIABLE in os.environ:
    _load(os.environ.pop(VARIABLE))

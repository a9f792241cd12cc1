"""Inside the sandbox: unpickle a call, make it, write its value as a data frame.

The payload comes from the trusted side. What goes back is data only.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from lazycore.sandbox import _frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAIN_ALIAS = "__mp_main__"
"""The name multiprocessing gives a re-imported main module: guards hold there."""


def call(
    payload: bytes,
    *,
    nonce: bytes,
    limit_bytes: int,
    main_path: str | None,
    reply_fd: int,
    preload: Sequence[str] = (),
) -> NoReturn:
    """Make one call, answer on `reply_fd`, end the process; never returns."""
    status = 1
    try:
        try:
            value = _load(payload, main_path, preload)()
            frame = _frames.encode(value, nonce=nonce, limit_bytes=limit_bytes)
            status = 0
        except BaseException as error:  # noqa: BLE001 - every end is reported
            frame = _frames.encode_exception(
                error, nonce=nonce, limit_bytes=limit_bytes
            )
        _write_all(reply_fd, frame)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(status)


def _load(
    payload: bytes, main_path: str | None, preload: Sequence[str]
) -> Callable[[], object]:
    if main_path is not None:
        _import_main(main_path)
    try:
        return _unpack(payload, preload)
    except ImportError:
        # Import hooks that site-packages installs through .pth files.
        import site

        site.main()
        return _unpack(payload, preload)


def _unpack(payload: bytes, preload: Sequence[str]) -> Callable[[], object]:
    for name in preload:
        importlib.import_module(name)
    function, args, kwargs = pickle.loads(payload)  # noqa: S301 - the trusted caller's
    return partial(function, *args, **kwargs)


def _import_main(path: str) -> None:
    import runpy
    import types

    module = types.ModuleType(MAIN_ALIAS)
    module.__dict__.update(runpy.run_path(path, run_name=MAIN_ALIAS))
    sys.modules["__main__"] = sys.modules[MAIN_ALIAS] = module


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def main() -> NoReturn:
    """Serve as a fresh interpreter: the call's description comes on stdin."""
    described = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - trusted caller
    sys.path[:] = described.pop("path")
    sys.modules["lazycore"].__path__ = [
        f"{entry}/lazycore" for entry in sys.path if os.path.isdir(f"{entry}/lazycore")
    ]
    call(**described)

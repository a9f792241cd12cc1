"""Turn SIGINT and SIGTERM into a flag while a run is driven."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["interruptible"]


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets; a second one acts as ever.

    Outside the main thread Python takes no signal handlers: the event is then never
    set, and whoever owns the main thread decides.
    """
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def note(number: int, _frame: FrameType | None) -> None:
        flag.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in numbers:
        signal.signal(number, note)
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""How often a worker's long-lived processes failed to start, and when to give up."""

from __future__ import annotations

import threading

from lazycore.experiments._classify import WarmStartError

__all__ = ["StartRecord"]

# What can't load its worker fails the same way each time.
_LOAD_FAILURES = 2
# What was never ready in time may have a starved host or a worker that hangs.
_NEVER_READY = 5


class StartRecord:
    """Counts how a worker's long-lived processes failed to start, by its key.

    What fails to load is given up soon. A start that was late or killed is the
    host's: it is tried again, unless no start of that worker was ever in time.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._failed: dict[str, list[str]] = {}
        self._late: dict[str, list[str]] = {}
        self._ready: set[str] = set()

    def require_hope(self, key: str) -> None:
        """Raise `WarmStartError` when another start would only fail again."""
        with self._guard:
            failed, late = self._failed.get(key, []), self._late.get(key, [])
            if len(failed) >= _LOAD_FAILURES:
                raise WarmStartError(failed[-1])
            if len(late) >= _NEVER_READY and key not in self._ready:
                raise WarmStartError(
                    f"not ready once in {len(late)} starts, the last time: {late[-1]}"
                )

    def ready(self, key: str) -> None:
        """Note a start that went well."""
        with self._guard:
            self._ready.add(key)

    def failed(self, key: str, error: Exception) -> WarmStartError:
        """Note that the worker could not be loaded; return what to raise."""
        text = f"the worker was not loaded: {error}"
        with self._guard:
            self._failed.setdefault(key, []).append(text)
        return WarmStartError(text)

    def late(self, key: str, error: Exception) -> None:
        """Note that a start took too long or was killed."""
        with self._guard:
            self._late.setdefault(key, []).append(str(error))

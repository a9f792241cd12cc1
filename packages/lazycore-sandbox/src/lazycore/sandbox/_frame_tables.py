"""Build sets and dicts whose keys an enemy chose, in time the frame has paid for.

Numbers, dates and tuples of them hash without a secret, so a sender can choose keys
that all walk along one chain of slots: each insertion then costs as much as the
table is long, and a frame of a megabyte costs its reader minutes. Equal hash values
are counted; other chains show in the processor time that insertion takes, which is
held against what honest keys need many times over.
"""

from __future__ import annotations

import operator
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lazycore.sandbox._errors import SandboxFrameError

if TYPE_CHECKING:
    from collections.abc import Callable

# An empty set costs its reader forty times the bytes of its node.
MAX_SETS_AND_DICTS: Final = 500_000
# More keys than this with one hash value can only be made on purpose; each
# further one would cost the reader a walk over all earlier ones.
MAX_EQUAL_HASHES: Final = 32
# A table of fewer keys has no chain worth measuring.
MEASURED_KEYS: Final = 1024
# Processor time for all tables of a frame: honest keys take 0.05 to 2 us each, and
# those that are slow to compare are as slow to hash.
SLACK_S: Final = 0.1
PER_KEY_S: Final = 4e-6
PER_HASHING: Final = 3

_CHUNK: Final = 32
_COLLIDE: Final = (
    "keys of a set or dict in a result frame collide, as if on purpose: return the "
    "keys as text, or the pairs as a list"
)


class Tables:
    """Builds the sets and dicts of one frame."""

    def __init__(self) -> None:
        self._made = 0
        self._room_s = SLACK_S

    def make_set(self, items: list[object]) -> set[object]:
        """Return the set of `items`.

        Raises:
            SandboxFrameError: They are unhashable, equal, or collide on purpose.
        """
        self._check(items)
        table: set[object] = set()
        if len(items) < MEASURED_KEYS:
            _guarded(lambda: table.update(items))
        else:
            table = self._fill_set(items)
        _refuse_repeated(len(table), items)
        return table

    def make_dict(self, keys: list[object], values: list[object]) -> dict[object, Any]:
        """Return the dict of `keys` and `values`, lists of one length.

        Raises:
            SandboxFrameError: The keys are unhashable, equal, or collide on purpose.
        """
        self._check(keys)
        table: dict[object, Any] = {}
        if len(keys) < MEASURED_KEYS:
            _guarded(lambda: table.update(zip(keys, values, strict=True)))
        else:
            left, put = iter(keys), iter(values)

            def insert() -> None:
                # Each step of the map returns None: any() runs it to its end.
                any(map(table.__setitem__, islice(left, _CHUNK), put))

            self._measure(insert, keys)
        _refuse_repeated(len(table), keys)
        return table

    def _fill_set(self, items: list[object]) -> set[object]:
        table: set[object] = set()
        left = iter(items)
        due = MEASURED_KEYS

        def insert() -> None:
            nonlocal table, due
            table.update(islice(left, _CHUNK))
            if len(table) >= due:
                # A set grows fourfold and its copies twofold. Keys that collide in
                # the smaller table only would do so in the copy that a frozenset is,
                # where nothing measures; growing by copies, no size is left out.
                table = table.copy()
                due *= 2

        self._measure(insert, items)
        return table

    def _check(self, keys: list[object]) -> None:
        """Refuse too many tables, and keys that are unhashable or hash alike."""
        self._made += 1
        if self._made > MAX_SETS_AND_DICTS:
            raise SandboxFrameError(f"more than {MAX_SETS_AND_DICTS} sets and dicts")
        measured = len(keys) >= MEASURED_KEYS
        began = time.thread_time() if measured else 0.0
        try:
            hashes = sorted(map(hash, keys))
        except (TypeError, ValueError, OverflowError, ArithmeticError) as error:
            raise SandboxFrameError(
                "a key in a result frame cannot be hashed"
            ) from error
        if any(map(operator.eq, hashes, islice(hashes, MAX_EQUAL_HASHES, None))):
            raise SandboxFrameError(_COLLIDE)
        if measured:
            self._room_s += PER_HASHING * (time.thread_time() - began)

    def _measure(self, insert: Callable[[], None], keys: list[object]) -> None:
        """Call `insert` once for each chunk while there is processor time left."""
        room = self._room_s + PER_KEY_S * len(keys)
        began = time.thread_time()
        # The processor time is asked for only when that much time has passed at all.
        due = time.perf_counter() + room
        for _ in range(0, len(keys), _CHUNK):
            _guarded(insert)
            if time.perf_counter() > due:
                left = room - (time.thread_time() - began)
                if left < 0:
                    raise SandboxFrameError(_COLLIDE)
                due = time.perf_counter() + left
        self._room_s = room - (time.thread_time() - began)


def _guarded(insert: Callable[[], None]) -> None:
    try:
        insert()
    except (TypeError, ValueError, ArithmeticError) as error:
        raise SandboxFrameError("keys in a result frame cannot be compared") from error


def _refuse_repeated(distinct: int, keys: list[object]) -> None:
    if distinct != len(keys):
        raise SandboxFrameError("a result frame repeats a key")

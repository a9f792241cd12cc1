"""Draw the same randomness for an item wherever and in whatever order it runs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

__all__ = ["enter", "item_random"]

_current: ContextVar[_Place | None] = ContextVar("lazycore_item_random", default=None)


class _Place:
    """Where an item stands; its generator is made when it is asked for."""

    __slots__ = ("generator", "key")

    def __init__(self, seed: int, epoch: int, index: int) -> None:
        self.key = (seed, epoch, index)
        self.generator: Random | None = None


def enter(seed: int, epoch: int, index: int) -> None:
    """Make an item the current one of this thread or task."""
    _current.set(_Place(seed, epoch, index))


def item_random() -> Random:
    """Return the current item's generator, for use inside `augment`.

    Under `run_many` it is seeded by (seed, epoch, index), so an item is augmented
    the same way by one worker or many, ordered or not, in threads or processes.
    Outside of a run it is a generator of its own, unseeded.

    Returns:
        A `random.Random`; for NumPy use
        ``numpy.random.default_rng(item_random().getrandbits(128))``.

    Example:
        >>> 0.0 <= item_random().random() < 1.0
        True
    """
    import random

    place = _current.get()
    if place is None:
        return random.Random()  # noqa: S311 - not a secret
    if place.generator is None:
        seed, epoch, index = place.key
        place.generator = random.Random(f"{seed}/{epoch}/{index}")  # noqa: S311 - as above
    return place.generator

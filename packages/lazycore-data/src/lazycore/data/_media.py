"""The dense tier: decode, augment, hand over by DLPack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from lazycore.data._progress import Batch, Progress
    from lazycore.data._stages import Failure, Item

__all__ = ["DenseMediaPipeline", "SupportsDLPack"]

Decoded = TypeVar("Decoded")


class SupportsDLPack(Protocol):
    """An array that any consumer of DLPack can take.

    Example:
        >>> hasattr(SupportsDLPack, "__dlpack__")
        True
    """

    def __dlpack__(self, **options: Any) -> object:
        """Return a capsule over the array's memory."""
        ...

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the type and number of the array's device."""
        ...


class DenseMediaPipeline(ABC, Generic[Decoded]):
    r"""One decoder, its augmentation, and a tensor at the end.

    A subclass says how bytes become a decoded item, how an item is augmented and how
    it becomes an array that supports DLPack. No stage before the last needs to.

    Example:
        >>> class Doubled(DenseMediaPipeline):
        ...     def decode(self, raw):
        ...         return list(raw)
        ...     def augment(self, decoded):
        ...         return [2 * value for value in decoded]
        ...     def to_dense_tensor(self, augmented):
        ...         return bytes(augmented)
        >>> Doubled().run(b"\x01\x02")
        b'\x02\x04'
    """

    @abstractmethod
    def decode(self, raw: bytes) -> Decoded:
        """Return the item that the bytes hold; raise when they are damaged."""

    @abstractmethod
    def augment(self, decoded: Decoded) -> Decoded:
        """Return the item as the model should see it.

        Randomness is reproducible under `run_many` only when it is drawn from
        `item_random`.
        """

    @abstractmethod
    def to_dense_tensor(self, augmented: Decoded) -> SupportsDLPack:
        """Return the item as an array that supports DLPack."""

    def run(self, raw: bytes) -> SupportsDLPack:
        """Return ``to_dense_tensor(augment(decode(raw)))``.

        Args:
            raw: The bytes of one item.
        """
        return self.to_dense_tensor(self.augment(self.decode(raw)))

    def run_many(
        self,
        raws: Iterable[bytes],
        *,
        workers: int | None = None,
        window: int | None = None,
        ordered: bool = True,
        batch: int | None = None,
        on_error: str = "raise",
        max_failures: float | None = None,
        timeout_s: float | None = None,
        progress: Callable[[Progress], None] | None = None,
        executor: Executor | None = None,
        seed: int = 0,
        epoch: int = 0,
    ) -> Iterator[Item | Failure | Batch]:
        """Run many items with bounded work in flight; see `lazycore.data.run_many`."""
        from lazycore.data._runner import run_many

        return run_many(
            self,
            raws,
            workers=workers,
            window=window,
            ordered=ordered,
            batch=batch,
            on_error=on_error,
            max_failures=max_failures,
            timeout_s=timeout_s,
            progress=progress,
            executor=executor,
            seed=seed,
            epoch=epoch,
        )

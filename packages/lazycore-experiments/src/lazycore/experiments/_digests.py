"""The digest of a run's results: values and statuses, in no matter which order."""

from __future__ import annotations

import hashlib

from lazycore.experiments._errors import JournalError

__all__ = ["ResultsDigest"]


class ResultsDigest:
    """Collects one leaf per cell and folds them into one SHA-256.

    The leaves are sorted, so that the order in which cells finished, or how often a
    run was interrupted, does not matter. A leaf names its cell by benchmark, model,
    seed and units, not by its id: two hosts whose locks differ can compare.
    """

    def __init__(self) -> None:
        self._leaves: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._leaves)

    def __contains__(self, cell: str) -> bool:
        return bytes.fromhex(cell) in self._leaves

    def leaf(self, cell: str) -> str:
        """Return the leaf of a finished cell.

        Raises:
            LookupError: The cell is not finished.
        """
        return self._leaves[bytes.fromhex(cell)].hex()

    def add(self, cell: str, leaf: str) -> None:
        """Add a finished cell.

        Raises:
            JournalError: The cell is there already.
        """
        key = bytes.fromhex(cell)
        if key in self._leaves:
            raise JournalError(f"cell {cell} is in the journal twice")
        self._leaves[key] = bytes.fromhex(leaf)

    def value(self) -> str:
        """Return the digest over all cells added so far."""
        total = hashlib.sha256()
        for leaf in sorted(self._leaves.values()):
            total.update(f"{leaf.hex()}\n".encode())
        return total.hexdigest()

"""Group, order and reduce the elements of sparse matrices over plain NumPy arrays."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from lazycore.data._errors import SparseInvariantError
from lazycore.data._libraries import find, library, version_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.data._sparse_adapter import Duplicates

__all__ = [
    "expand",
    "group",
    "index_dtype",
    "is_grouped",
    "is_ordered",
    "order",
    "pointers_of",
    "reduce",
]


def index_dtype(size: int) -> Any:
    """Return the narrowest of the two index types that holds every position."""
    np = library("numpy")
    return np.dtype(np.int32 if size < 2**31 else np.int64)


def is_grouped(keys: Any) -> bool:
    """Tell whether keys never fall."""
    return bool((keys[1:] >= keys[:-1]).all())


def pointers_of(keys: Any, count: int, dtype: Any) -> Any:
    """Return where each key's run starts, ``count + 1`` positions."""
    np = library("numpy")
    pointers = np.zeros(count + 1, dtype)
    if len(keys):
        np.cumsum(np.bincount(keys, minlength=count), out=pointers[1:])
    return pointers


def expand(pointers: Any, dtype: Any) -> Any:
    """Return the key of each element of a compressed axis."""
    np = library("numpy")
    counts = np.diff(pointers)
    return np.repeat(np.arange(len(counts), dtype=dtype), counts)


def _radix(keys: Any) -> Any:
    """Return a stable ordering by 16-bit passes, where NumPy sorts by counting."""
    np = library("numpy")
    permutation = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    rest, shift = int(keys.max()) >> 16 if len(keys) else 0, 16
    while rest:
        digits = ((keys >> shift) & 0xFFFF).astype(np.uint16)[permutation]
        permutation = permutation[np.argsort(digits, kind="stable")]
        rest, shift = rest >> 16, shift + 16
    return permutation


def _counted(keys: Any, count: int) -> Any:
    """Return SciPy's grouping of keys as a matrix, None where SciPy is absent.

    Every element is given its own column, so nothing is summed, the stored values
    are the stable permutation and the row pointers are the groups'.
    """
    if find("scipy") is None:
        return None
    from importlib import import_module

    np = library("numpy")
    sparse = import_module("scipy.sparse")
    size = len(keys)
    positions = np.arange(size, dtype=index_dtype(max(size, count)))
    matrix = sparse.coo_array((positions, (keys, positions)), shape=(count, size))
    matrix.has_canonical_format = True  # no place repeats: nothing to sum or sort
    return matrix.tocsr()


@cache
def _sorts_by_vectors() -> bool:
    """Tell whether NumPy sorts 64-bit integers by vector instructions here.

    It does with AVX-512 (1.25 and later) or AVX2 (2.0 and later), and then beats
    counting sorts several times; without them it is slower.
    """
    np = library("numpy")
    found = set(
        np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", ())
    )
    if found & {"AVX512_SKX", "X86_V4"}:
        return True
    return version_of(np) >= (2,) and bool(found & {"AVX2", "X86_V3"})


def _packed(keys: Sequence[tuple[Any, int]], size: int) -> tuple[Any, Any] | None:
    """Return the positions ordered by several keys, and the first key so ordered.

    None where one word is too short.

    The keys, the first the most significant, and the position share one 64-bit word;
    positions differ, so sorting the words is stable.
    """
    np = library("numpy")
    room = max(size - 1, 0).bit_length()
    widths = [max(count - 1, 0).bit_length() for _, count in keys]
    if size < 2 or sum(widths) + room > 64 or not _sorts_by_vectors():
        return None
    words = keys[0][0].astype(np.uint64)
    for (key, _), width in zip(keys[1:], widths[1:], strict=True):
        words <<= np.uint64(width)
        words |= key.astype(np.uint64)
    words <<= np.uint64(room)
    words |= np.arange(size, dtype=np.uint64)
    words.sort()
    first = words >> np.uint64(room + sum(widths[1:]))
    words &= np.uint64((1 << room) - 1)
    return words.astype(index_dtype(size)), first.view(np.int64)


def group(keys: Any, count: int) -> tuple[Any, Any]:
    """Return the stable permutation that groups keys, and the pointers of the groups.

    Args:
        keys: Integers in ``[0, count)``.
        count: The number of groups.

    Returns:
        The permutation (None where the keys are grouped already) and the pointers.
    """
    size = len(keys)
    if is_grouped(keys):
        return None, pointers_of(keys, count, index_dtype(size))
    packed = _packed([(keys, count)], size)
    if packed is not None:  # counting ordered keys touches memory in order
        return packed[0], pointers_of(packed[1], count, index_dtype(size))
    counted = _counted(keys, count)
    if counted is not None:
        return counted.data, counted.indptr
    return _radix(keys), pointers_of(keys, count, index_dtype(size))


def _permutation(keys: Any, count: int) -> Any:
    """Return the stable permutation that groups keys, None where they are grouped.

    Memory follows the elements, never the count: a shape may name more rows than
    any machine could count.
    """
    if is_grouped(keys):
        return None
    packed = _packed([(keys, count)], len(keys))
    if packed is not None:
        return packed[0]
    counted = _counted(keys, count) if count <= 4 * len(keys) + 65_536 else None
    return _radix(keys) if counted is None else counted.data


def order(major: Any, minor: Any, counts: tuple[int, int]) -> Any:
    """Return the stable permutation that orders elements by major, then minor.

    None where they lie in order already.
    """
    if is_ordered(major, minor):
        return None
    packed = _packed([(major, counts[0]), (minor, counts[1])], len(major))
    if packed is not None:
        return packed[0]
    first = _permutation(minor, counts[1])
    if first is None:
        return _permutation(major, counts[0])
    second = _permutation(major[first], counts[0])
    return first if second is None else first[second]


def is_ordered(major: Any, minor: Any, *, strictly: bool = False) -> bool:
    """Tell whether elements lie in order of major, then minor; strictly: none twice."""
    if not is_grouped(major):
        return False
    same = major[1:] == major[:-1]
    later = minor[1:] > minor[:-1] if strictly else minor[1:] >= minor[:-1]
    return bool((~same | later).all())


def reduce(major: Any, minor: Any, values: Any, policy: Duplicates) -> tuple[Any, Any]:
    """Apply a duplicates policy to elements ordered by coordinate.

    Args:
        major: The major index of each element, ordered.
        minor: The minor index, ordered within each major.
        values: The values, or None.
        policy: ``"sum"``, ``"last"`` (in edge order) or ``"raise"``.

    Returns:
        The positions to keep, None for all of them, and the values for these.

    Raises:
        SparseInvariantError: ``"raise"`` met a duplicate, or there is nothing to sum.
    """
    np = library("numpy")
    if len(major) < 2:
        return None, values
    same = (major[1:] == major[:-1]) & (minor[1:] == minor[:-1])
    if not same.any():
        return None, values
    if policy == "raise":
        at = int(np.argmax(same))
        message = (
            f"({int(major[at])}, {int(minor[at])}) is stored more than once (major, "
            "minor index): choose duplicates='keep', 'sum' or 'last'"
        )
        raise SparseInvariantError(message)
    if policy == "last":
        kept = np.flatnonzero(np.append(~same, True))
        return kept, None if values is None else values[kept]
    if values is None:
        message = "duplicates='sum' needs values: choose 'last' for structure alone"
        raise SparseInvariantError(message)
    kept = np.flatnonzero(np.insert(~same, 0, True))
    return kept, np.add.reduceat(values, kept, axis=0)

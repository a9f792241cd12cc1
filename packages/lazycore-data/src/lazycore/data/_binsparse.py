"""Speak `__binsparse__`, the draft protocol of the array API for sparse arrays.

The descriptor and the names of the arrays are those of the Binary Sparse Format
Specification 0.1; see data-apis/array-api#840 for the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.data._columns import kind_of
from lazycore.data._errors import SparseInvariantError, UnsupportedFrameError
from lazycore.data._libraries import library
from lazycore.data._sparse_adapter import SparseFormat, SparseLayout
from lazycore.data._sparse_kernels import expand, is_ordered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.data._array_adapter import ArraySparseAdapter
    from lazycore.data._sparse_adapter import Direction

__all__ = ["arrays", "components", "descriptor", "from_binsparse"]

_VERSION = "0.1"
_FORMATS = {"CSR": "csr", "CSC": "csc", "COO": "coo", "COOR": "coo"}


def components(layout: SparseLayout) -> dict[str, Any]:
    """Return the arrays of a layout under binsparse names."""
    if layout.format is SparseFormat.COO:
        found = {"indices_0": layout.rows, "indices_1": layout.columns}
    else:
        minor = layout.columns if layout.rows is None else layout.rows
        found = {"pointers_to_1": layout.pointers, "indices_1": minor}
    if layout.values is not None:
        found["values"] = layout.values
    return found


def _check(layout: SparseLayout) -> None:
    values = layout.values
    if values is not None and values.ndim > 1:
        message = f"values have {values.ndim} dimensions: binsparse has one per element"
        raise BufferError(f"{message}; hand the table over beside edge_ids")
    by_row = layout.format is not SparseFormat.CSC
    minor = layout.columns if by_row else layout.rows
    if layout.format is SparseFormat.COO:
        major = layout.rows
    else:
        major = expand(layout.pointers, minor.dtype)
    if not is_ordered(major, minor, strictly=True):
        message = (
            "elements are out of order or stored twice, which binsparse has not: "
            f"convert with to_{layout.format}(sort=True, duplicates='sum') first"
        )
        raise BufferError(message)


def arrays(layout: SparseLayout) -> dict[str, Any]:
    """Return the arrays that the protocol hands over.

    Raises:
        BufferError: Binsparse has no such matrix.
    """
    _check(layout)
    found = components(layout)
    if "values" not in found:
        found["values"] = library("numpy").ones(1, "i1")
    return found


def _type_name(dtype: Any) -> str:
    if dtype.kind == "b":
        return "bint8"
    if dtype.kind == "c":
        return f"complex[float{dtype.itemsize * 4}]"
    return str(dtype)


def descriptor(layout: SparseLayout) -> dict[str, Any]:
    """Return the descriptor of a layout's arrays.

    Raises:
        BufferError: Binsparse has no such matrix.
    """
    found = arrays(layout)
    types = {name: _type_name(array.dtype) for name, array in found.items()}
    if layout.values is None:  # one value for all elements
        types["values"] = f"iso[{types['values']}]"
    coo = layout.format is SparseFormat.COO
    return {
        "binsparse": {
            "version": _VERSION,
            "format": "COOR" if coo else str(layout.format).upper(),
            "shape": list(layout.shape),
            "number_of_stored_values": len(found["indices_1"]),
            "data_types": types,
        },
        "original_source": "lazycore.data",
    }


def _described(matrix: Any) -> Mapping[str, Any]:
    found = matrix.__binsparse_descriptor__()["binsparse"]
    if not str(found["version"]).startswith(_VERSION):
        message = f"binsparse version {found['version']!r}: {_VERSION} is understood"
        raise UnsupportedFrameError(message)
    if not isinstance(found["format"], str) or found["format"] not in _FORMATS:
        words = ", ".join(sorted(_FORMATS))
        message = f"binsparse format {found['format']!r}: convert it to one of {words}"
        raise UnsupportedFrameError(message)
    return found  # type: ignore[no-any-return] # the caller's own mapping


def from_binsparse(
    matrix: Any, *, direction: Direction = "src_dst"
) -> ArraySparseAdapter:
    """Return a graph over the arrays of whatever speaks `__binsparse__`, shared.

    Args:
        matrix: An object with ``__binsparse_descriptor__`` and ``__binsparse__``.
        direction: Whether rows are sources or targets.

    Raises:
        UnsupportedFrameError: The value does not speak the protocol in version 0.1,
            or its format is none of CSR, CSC and COO.
        SparseInvariantError: Its parts disagree with its description.

    Example:
        >>> graph = ArraySparseAdapter.from_csr([0, 1, 1], [1], [2.0], shape=(2, 2))
        >>> from_binsparse(graph).to_coo().columns.tolist()
        [1]
    """
    from lazycore.data._array_adapter import ArraySparseAdapter as Made

    if not hasattr(matrix, "__binsparse__"):
        kind = kind_of(matrix)
        message = f"{kind} has no __binsparse__: use from_scipy, from_torch or from_coo"
        raise UnsupportedFrameError(message)
    np = library("numpy")
    found, given = _described(matrix), matrix.__binsparse__()
    parts = {
        name: array if isinstance(array, np.ndarray) else np.from_dlpack(array)
        for name, array in given.items()
    }
    if len(found["shape"]) != 2:
        raise SparseInvariantError(f"shape {found['shape']} has not two dimensions")
    shape = (int(found["shape"][0]), int(found["shape"][1]))
    size = int(found["number_of_stored_values"])
    if len(parts["indices_1"]) != size:
        message = f"{len(parts['indices_1'])} elements where {size} are described"
        raise SparseInvariantError(message)
    values = parts.get("values")
    named = str(found["data_types"].get("values", ""))
    if named.startswith("iso["):
        values = np.full(size, values[0]) if values is not None and size else None
    elif named == "bint8" and values is not None:
        values = values.astype(bool, copy=False)
    wanted = _FORMATS[found["format"]]
    if wanted == "coo":
        return Made.from_coo(
            parts["indices_0"],
            parts["indices_1"],
            values,
            shape=shape,
            direction=direction,
        )
    make = Made.from_csr if wanted == "csr" else Made.from_csc
    return make(
        parts["pointers_to_1"],
        parts["indices_1"],
        values,
        shape=shape,
        direction=direction,
    )

"""Recognise Arrow-backed pandas frames."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, Union

from lazycore.data._columns import is_pandas, kind_of
from lazycore.data._errors import DataTierWarning, UnsupportedFrameError
from lazycore.data._libraries import library

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable
    from typing import TypeAlias

    import pandas  # noqa: ICN001 - the annotation names it in full
    import polars  # noqa: ICN001 - as above

    ArrowBackedFrame: TypeAlias = pandas.DataFrame | polars.DataFrame
else:
    # A union of names: usable in annotations without either library.
    ArrowBackedFrame = Union["pandas.DataFrame", "polars.DataFrame"]

__all__ = ["ArrowBackedFrame", "is_arrow_backed_pandas", "pandas_arrow_dtypes"]


def _pandas_frame(frame: object, asked: str) -> Any:
    library("pandas")
    if not is_pandas(frame):
        message = f"{asked} takes a pandas DataFrame, not {kind_of(frame)}"
        raise UnsupportedFrameError(message)
    return frame


def is_arrow_backed_pandas(
    frame: object, *, accept: Collection[str] = ("arrow",)
) -> bool:
    """Tell whether every column of a pandas frame lies in Arrow buffers.

    Args:
        frame: A pandas DataFrame.
        accept: ``"arrow"`` counts ArrowDtype columns, ``"string"`` also pandas'
            own string types over pyarrow (the default ``str`` of pandas 3).

    Returns:
        True when every column counts; a frame without columns counts as true.

    Raises:
        MissingDependencyError: pandas is not installed.
        UnsupportedFrameError: The value is no pandas DataFrame.
        ValueError: ``accept`` holds another word.

    Example:
        >>> import pandas as pd
        >>> is_arrow_backed_pandas(pd.DataFrame({"a": [1]}))
        False
    """
    strangers = set(accept) - {"arrow", "string"}
    if strangers:
        words = ", ".join(sorted(map(repr, strangers)))
        raise ValueError(f"accept holds {words}: it knows 'arrow' and 'string'")
    given = _pandas_frame(frame, "is_arrow_backed_pandas")
    pd = library("pandas")

    def counts(dtype: Any) -> bool:
        if isinstance(dtype, pd.ArrowDtype):
            return "arrow" in accept
        is_text = isinstance(dtype, pd.StringDtype)
        return "string" in accept and is_text and dtype.storage.startswith("pyarrow")

    return all(counts(dtype) for dtype in given.dtypes)


def pandas_arrow_dtypes(
    frame: object, *, keys: Literal["str", "raw"] = "str"
) -> dict[Any, str]:
    """Return the Arrow type of every ArrowDtype column of a pandas frame.

    Args:
        frame: A pandas DataFrame.
        keys: ``"str"`` names columns by their text, ``"raw"`` by the labels
            themselves, which keeps ``1`` apart from ``"1"``.

    Returns:
        A dictionary from name to the text of the Arrow type; other columns are
        left out.

    Warns:
        DataTierWarning: Two labels are equal as text and ``keys`` is ``"str"``.

    Raises:
        MissingDependencyError: pandas is not installed.
        UnsupportedFrameError: The value is no pandas DataFrame.
        ValueError: ``keys`` is another word.

    Example:
        >>> import pandas as pd
        >>> values = pd.array([1], dtype="int64[pyarrow]")
        >>> df = pd.DataFrame({"a": values})
        >>> pandas_arrow_dtypes(df)
        {'a': 'int64'}
    """
    if keys not in ("str", "raw"):
        raise ValueError(f"keys={keys!r}: choose 'str' or 'raw'")
    given = _pandas_frame(frame, "pandas_arrow_dtypes")
    pd = library("pandas")
    found: dict[Hashable, str] = {}
    for label, dtype in zip(given.columns, given.dtypes, strict=True):
        if not isinstance(dtype, pd.ArrowDtype):
            continue
        key = label if keys == "raw" else str(label)
        if key in found:
            message = f"two columns are named {key!r}: the last one counts"
            if keys == "str":
                message += "; keys='raw' may keep them apart"
            warnings.warn(message, DataTierWarning, stacklevel=2)
        found[key] = str(dtype.pyarrow_dtype)
    return found

"""What can go wrong between libraries, as one tree under `DataTierError`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lazycore.data._report import ConversionPlan, CopyReport

__all__ = [
    "ConformanceError",
    "CopyRequiredError",
    "DataTierError",
    "DataTierWarning",
    "HandoffError",
    "LossyConversionError",
    "MediaPipelineError",
    "MissingDependencyError",
    "SparseInvariantError",
    "UnsupportedArrowTypeError",
    "UnsupportedFrameError",
    "ZeroCopyError",
]


class DataTierError(Exception):
    """The root of every error that this slice raises on purpose.

    Example:
        >>> issubclass(DataTierError, Exception)
        True
    """


class DataTierWarning(UserWarning):
    """A conversion lost something that its caller may have wanted.

    Example:
        >>> issubclass(DataTierWarning, UserWarning)
        True
    """


class MissingDependencyError(DataTierError, ImportError):
    """An optional library is absent or older than what is tested.

    Example:
        >>> issubclass(MissingDependencyError, ImportError)
        True
    """


class UnsupportedFrameError(DataTierError, TypeError):
    """The value is no frame of a library that the function reads.

    Example:
        >>> issubclass(UnsupportedFrameError, TypeError)
        True
    """


class ZeroCopyError(DataTierError, TypeError):
    """A strict conversion would copy, change or alias bytes.

    Attributes:
        report: The plan or the proof that led to the refusal, column by column.

    Example:
        >>> ZeroCopyError("column 'a' copies").report is None
        True
    """

    report: ConversionPlan | CopyReport | None

    def __init__(
        self, message: str, *, report: ConversionPlan | CopyReport | None = None
    ) -> None:
        super().__init__(message)
        self.report = report


class LossyConversionError(DataTierError, ValueError):
    """The target cannot hold an index, a name or a value of the source.

    Example:
        >>> issubclass(LossyConversionError, ValueError)
        True
    """


class UnsupportedArrowTypeError(DataTierError, TypeError):
    """The target library cannot hold a column's Arrow type, or would corrupt it.

    Example:
        >>> issubclass(UnsupportedArrowTypeError, TypeError)
        True
    """


class CopyRequiredError(DataTierError, ValueError):
    """``copy=False`` was asked for and cannot be kept.

    Example:
        >>> issubclass(CopyRequiredError, ValueError)
        True
    """


class SparseInvariantError(DataTierError, ValueError):
    """Sparse components contradict each other or the stated shape.

    Example:
        >>> issubclass(SparseInvariantError, ValueError)
        True
    """


class HandoffError(DataTierError, ValueError):
    """A consumer of DLPack would crash on an array, misread it or write to it.

    Example:
        >>> issubclass(HandoffError, ValueError)
        True
    """


class MediaPipelineError(DataTierError, RuntimeError):
    """A run of a media pipeline ended early.

    Example:
        >>> issubclass(MediaPipelineError, RuntimeError)
        True
    """


class ConformanceError(DataTierError, AssertionError):
    """An adapter or a pipeline breaks its contract.

    Example:
        >>> issubclass(ConformanceError, AssertionError)
        True
    """

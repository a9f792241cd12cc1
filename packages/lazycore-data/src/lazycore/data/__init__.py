"""Tables, graphs and media between libraries: shared, copied, lost or refused."""

TYPE_CHECKING = False  # `typing` alone would cost more than this whole module
if TYPE_CHECKING:
    from lazycore.data._array_adapter import ArraySparseAdapter
    from lazycore.data._binsparse import from_binsparse
    from lazycore.data._collate import collate
    from lazycore.data._dlpack import check_dlpack
    from lazycore.data._errors import (
        ConformanceError,
        CopyRequiredError,
        DataTierError,
        DataTierWarning,
        HandoffError,
        LossyConversionError,
        MediaPipelineError,
        MissingDependencyError,
        SparseInvariantError,
        UnsupportedArrowTypeError,
        UnsupportedFrameError,
        ZeroCopyError,
    )
    from lazycore.data._explain import explain
    from lazycore.data._frame import (
        ArrowBackedFrame,
        is_arrow_backed_pandas,
        pandas_arrow_dtypes,
    )
    from lazycore.data._from_polars import (
        from_polars_zero_copy,
        pandas_from_arrow,
        to_arrow_table,
    )
    from lazycore.data._media import DenseMediaPipeline, SupportsDLPack
    from lazycore.data._progress import Batch, Progress, RunStats
    from lazycore.data._prove import prove_zero_copy
    from lazycore.data._receipt import Receipt
    from lazycore.data._report import ColumnReport, ConversionPlan, CopyReport
    from lazycore.data._runner import run_many
    from lazycore.data._seeds import item_random
    from lazycore.data._sparse_adapter import (
        SparseFormat,
        SparseGraphTensorAdapter,
        SparseLayout,
    )
    from lazycore.data._sparse_bridges import (
        from_arrow_edges,
        from_scipy,
        node_counts,
        to_dgl_tuple,
        to_scipy,
    )
    from lazycore.data._stages import Failure, Item
    from lazycore.data._to_polars import to_polars_zero_copy
    from lazycore.data._torch_bridges import (
        from_edge_index,
        from_torch,
        to_pyg,
        to_torch,
    )

_HOMES = {
    "ArraySparseAdapter": "_array_adapter",
    "ArrowBackedFrame": "_frame",
    "Batch": "_progress",
    "ColumnReport": "_report",
    "ConformanceError": "_errors",
    "ConversionPlan": "_report",
    "CopyReport": "_report",
    "CopyRequiredError": "_errors",
    "DataTierError": "_errors",
    "DataTierWarning": "_errors",
    "DenseMediaPipeline": "_media",
    "Failure": "_stages",
    "HandoffError": "_errors",
    "Item": "_stages",
    "LossyConversionError": "_errors",
    "MediaPipelineError": "_errors",
    "MissingDependencyError": "_errors",
    "Progress": "_progress",
    "Receipt": "_receipt",
    "RunStats": "_progress",
    "SparseFormat": "_sparse_adapter",
    "SparseGraphTensorAdapter": "_sparse_adapter",
    "SparseInvariantError": "_errors",
    "SparseLayout": "_sparse_adapter",
    "SupportsDLPack": "_media",
    "UnsupportedArrowTypeError": "_errors",
    "UnsupportedFrameError": "_errors",
    "ZeroCopyError": "_errors",
    "check_dlpack": "_dlpack",
    "collate": "_collate",
    "explain": "_explain",
    "from_arrow_edges": "_sparse_bridges",
    "from_binsparse": "_binsparse",
    "from_edge_index": "_torch_bridges",
    "from_polars_zero_copy": "_from_polars",
    "from_scipy": "_sparse_bridges",
    "from_torch": "_torch_bridges",
    "is_arrow_backed_pandas": "_frame",
    "item_random": "_seeds",
    "node_counts": "_sparse_bridges",
    "pandas_arrow_dtypes": "_frame",
    "pandas_from_arrow": "_from_polars",
    "prove_zero_copy": "_prove",
    "run_many": "_runner",
    "to_arrow_table": "_from_polars",
    "to_dgl_tuple": "_sparse_bridges",
    "to_polars_zero_copy": "_to_polars",
    "to_pyg": "_torch_bridges",
    "to_scipy": "_sparse_bridges",
    "to_torch": "_torch_bridges",
}

__all__ = [
    "ArraySparseAdapter",
    "ArrowBackedFrame",
    "Batch",
    "ColumnReport",
    "ConformanceError",
    "ConversionPlan",
    "CopyReport",
    "CopyRequiredError",
    "DataTierError",
    "DataTierWarning",
    "DenseMediaPipeline",
    "Failure",
    "HandoffError",
    "Item",
    "LossyConversionError",
    "MediaPipelineError",
    "MissingDependencyError",
    "Progress",
    "Receipt",
    "RunStats",
    "SparseFormat",
    "SparseGraphTensorAdapter",
    "SparseInvariantError",
    "SparseLayout",
    "SupportsDLPack",
    "UnsupportedArrowTypeError",
    "UnsupportedFrameError",
    "ZeroCopyError",
    "check_dlpack",
    "collate",
    "explain",
    "from_arrow_edges",
    "from_binsparse",
    "from_edge_index",
    "from_polars_zero_copy",
    "from_scipy",
    "from_torch",
    "is_arrow_backed_pandas",
    "item_random",
    "node_counts",
    "pandas_arrow_dtypes",
    "pandas_from_arrow",
    "prove_zero_copy",
    "run_many",
    "to_arrow_table",
    "to_dgl_tuple",
    "to_polars_zero_copy",
    "to_pyg",
    "to_scipy",
    "to_torch",
]


def __getattr__(name: str) -> object:
    """Import the module that holds a public name when the name is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})

"""Conformance kits: run them on your own adapter or pipeline, with any test runner."""

from lazycore.data.testing._media import check_media_pipeline
from lazycore.data.testing._sparse import check_sparse_adapter

__all__ = ["check_media_pipeline", "check_sparse_adapter"]

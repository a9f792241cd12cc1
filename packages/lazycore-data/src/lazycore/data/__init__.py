"""Arrow-backed pandas and Polars with proof of zero copy, sparse graph adapters, dense media pipelines."""

__all__: list[str] = []

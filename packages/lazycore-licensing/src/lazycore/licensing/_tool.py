"""The name and the version under which this slice writes its outputs."""

from __future__ import annotations

from typing import Final

NAME: Final = "lazycore-licensing"


def version() -> str:
    """Return the installed version; one number, kept in the distribution alone."""
    import importlib.metadata

    return importlib.metadata.version(NAME)

"""The built-in studies that `lazycore-experiments demo` runs."""

from lazycore.experiments._demos._catalog import DEMOS, Demo, prepare

__all__ = ["DEMOS", "Demo", "prepare"]

"""The built-in studies that `lazycore-experiments demo` runs."""

from lazycore.experiments._demos._catalog import DEMOS, Demo, prepare
from lazycore.experiments._demos._showcase import licence_lines, watch_spans

__all__ = ["DEMOS", "Demo", "licence_lines", "prepare", "watch_spans"]

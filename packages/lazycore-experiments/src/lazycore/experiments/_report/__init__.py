"""The report of a run: one HTML file that needs nothing but a browser."""

from lazycore.experiments._report._write import write_report

__all__ = ["write_report"]

"""Write lines that neither steer a terminal nor break its encoding."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from lazycore.experiments._numbers import MINUS

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["on_rich_terminal", "printable", "safe"]

_PLAIN_SIGNS = {MINUS: "-", "\N{MULTIPLICATION SIGN}": "x", "\N{EM DASH}": "-"}


def on_rich_terminal(stream: TextIO) -> bool:
    """Return whether rich is installed and the stream is a terminal that moves."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return False
    return importlib.util.find_spec("rich") is not None


def safe(line: str, stream: TextIO) -> str:
    """Return a line that neither steers the terminal nor breaks its encoding."""
    shown = printable(line)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        shown.encode(encoding)
    except UnicodeEncodeError:
        for sign, plain in _PLAIN_SIGNS.items():
            shown = shown.replace(sign, plain)
        shown = shown.encode(encoding, "backslashreplace").decode(encoding)
    return shown


def printable(line: str) -> str:
    """Return a line with every control character written out."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in line
    )

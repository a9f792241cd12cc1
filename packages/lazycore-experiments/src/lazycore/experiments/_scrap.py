"""Remove a folder that a worker could write to, whatever it left there."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["remove_tree"]


def remove_tree(root: Path) -> None:
    """Remove a folder without recursion and without following links.

    A hostile process can nest folders deeper than Python's own removal may recurse,
    so each folder's content is moved up and removed there. Nothing may write to the
    folder any more.
    """
    numbers = count()
    with suppress(OSError):
        root.chmod(0o700)
        todo = True
        while todo:
            todo = False
            with os.scandir(root) as entries:
                found = list(entries)
            for entry in found:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)  # noqa: PTH108 - a path as scandir gives it
                    continue
                todo = True
                os.chmod(entry.path, 0o700)  # noqa: PTH101 - as above
                for name in os.listdir(entry.path):  # noqa: PTH208 - names only
                    os.rename(  # noqa: PTH104 - as above
                        os.path.join(entry.path, name),  # noqa: PTH118 - as above
                        root / f".scrap-{next(numbers)}",
                    )
                os.rmdir(entry.path)  # noqa: PTH106 - as above
        root.rmdir()

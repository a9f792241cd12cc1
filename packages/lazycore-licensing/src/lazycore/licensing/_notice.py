"""Collect the licence texts of an environment for a notice file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.licensing._files import FolderFiles
from lazycore.licensing._metadata import read_metadata
from lazycore.licensing._resolve import license_texts, resolve
from lazycore.licensing._sources import metadata_folders

if TYPE_CHECKING:
    import os


def notice(path: str | os.PathLike[str] | None = None) -> str:
    """Return the text of a notice file: every package with its own licence texts.

    Args:
        path: Environment or ``site-packages``; None for the running interpreter's.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as empty:
        ...     notice(empty)
        ''
    """
    sections = []
    for folder in metadata_folders(path):
        files = FolderFiles(str(folder))
        metadata = read_metadata(files.read("METADATA") or files.read("PKG-INFO") or "")
        own, extra = license_texts(files, metadata, files.read("RECORD") or "")
        finding = resolve(folder, bundled=False)
        # Metadata that can't be read still has a folder with the name.
        name = finding.name or folder.name.partition("-")[0]
        title = f"{name} {finding.version}".strip()
        parts = [f"{'=' * 72}\n{title}\n{finding.expression or 'licence unknown'}\n"]
        for name, text in sorted({**own, **extra}.items()):
            parts.append(f"--- {name}\n{text.strip()}\n")
        sections.append("\n".join(parts))
    return "\n".join(sections)

"""Read the distributions that are installed in an environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.licensing._errors import SourceError
from lazycore.licensing._policy import normalize_name

if TYPE_CHECKING:
    import os

    from lazycore.licensing._decision import Usage
    from lazycore.licensing._findings import LicenseFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package to judge.

    Attributes:
        name: Normalised name.
        version: Empty when the input has none.
        usages: How the input says that it is used.
        finding: Its licence, when the input knows it.
        where: File, or file and line, that names it; empty for what is installed.

    Examples:
        >>> Package(name="numpy", version="2.4.0").finding is None
        True
    """

    name: str
    version: str = ""
    usages: tuple[Usage, ...] = ()
    finding: LicenseFinding | None = None
    where: str = ""


def read_environment(path: str | os.PathLike[str] | None = None) -> list[Package]:
    """Resolve every distribution of an environment or of a ``site-packages``.

    Args:
        path: Root of a virtual environment, a ``site-packages`` folder, or None
            for the running interpreter's own.

    Raises:
        SourceError: There is no distribution.

    Examples:
        >>> names = [package.name for package in read_environment()]
        >>> "lazycore-licensing" in names
        True
    """
    from lazycore.licensing._resolve import resolve  # not for locks

    found: dict[str, Package] = {}
    for entry in metadata_folders(path):
        finding = resolve(entry)
        name = normalize_name(finding.name or entry.name.split("-")[0])
        # The first on the path is the one that would be imported.
        found.setdefault(
            name, Package(name=name, version=finding.version, finding=finding)
        )
    if not found:
        where = ", ".join(map(str, _site_folders(path)))
        raise SourceError(
            f"no installed distribution in {where}; give the root of an environment "
            "or its site-packages"
        )
    return [found[name] for name in sorted(found)]


def metadata_folders(path: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the metadata folders of an environment, in order of the path."""
    return [
        entry
        for folder in _site_folders(path)
        if folder.is_dir()
        for entry in sorted(folder.iterdir(), key=lambda item: item.name)
        if entry.name.endswith((".dist-info", ".egg-info"))
    ]


def _site_folders(path: str | os.PathLike[str] | None) -> list[Path]:
    if path is None:
        import sys

        return [Path(entry) for entry in sys.path if entry]
    root = Path(path)
    if root.is_file():  # an interpreter
        root = root.parent.parent
    inner = [
        *sorted(root.glob("lib/python3*/site-packages")),
        root / "Lib/site-packages",
    ]
    return [folder for folder in inner if folder.is_dir()] or [root]

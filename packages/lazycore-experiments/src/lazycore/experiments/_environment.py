"""Pin the packages that workers can import, by the content of their files.

A RECORD file says what a wheel installed, not what lies there now. So every file
is read: those a distribution owns under its name, all others under ``unowned``.
Bytecode caches are left out: no worker reads them, its own are made from the
sources that are hashed.
"""

from __future__ import annotations

import base64
import os
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import digest
from lazycore.experiments._interpreter import hash_file

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["difference", "package_folders", "pin_environment"]


def package_folders() -> tuple[Path, ...]:
    """Return the folders of installed packages that workers see, in order."""
    folders = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    unique = dict.fromkeys(Path(folder).resolve() for folder in folders)
    return tuple(folder for folder in unique if folder.is_dir())


def pin_environment(
    folders: tuple[Path, ...] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Hash every installed file, grouped by the distribution that owns it.

    Args:
        folders: Package folders; those of this interpreter when None.
        progress: Called with files done and files in all.

    Returns:
        ``distributions``: name to version, content digest and whether a file
        differs from its RECORD; ``unowned``: digest of all other files.
    """
    roots = package_folders() if folders is None else folders
    files = [(root, path) for root in roots for path in _files(root)]
    hashes: dict[Path, str] = {}
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        paths = [root / path for root, path in files]
        for done, (path, value) in enumerate(
            zip(paths, pool.map(hash_file, paths), strict=True), 1
        ):
            hashes[path] = value
            if progress is not None and (done % 500 == 0 or done == len(paths)):
                progress(done, len(paths))
    owned: set[Path] = set()
    distributions: dict[str, Any] = {}
    for found in metadata.distributions(path=[str(root) for root in roots]):
        pin, paths_of = _pin_distribution(found, hashes)
        owned |= paths_of
        distributions[_name(found)] = pin
    unowned = sorted(
        [path.as_posix(), hashes[root / path]]
        for root, path in files
        if root / path not in owned
    )
    return {
        "distributions": distributions,
        "unowned": {"files": len(unowned), "sha256": digest(unowned)},
    }


def difference(locked: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Name each distribution that differs between two pins, with what happened."""
    ours, theirs = locked["distributions"], found["distributions"]
    changes = []
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in theirs:
            changes.append(f"{name} {ours[name]['version']} removed")
        elif name not in ours:
            changes.append(f"{name} {theirs[name]['version']} added")
        elif ours[name]["version"] != theirs[name]["version"]:
            changes.append(
                f"{name} {ours[name]['version']} became {theirs[name]['version']}"
            )
        elif ours[name] != theirs[name]:
            changes.append(f"{name} {ours[name]['version']} has edited files")
    if locked["unowned"] != found["unowned"]:
        changes.append("files that no distribution owns changed")
    return changes


def _files(root: Path) -> list[Path]:
    found = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name != "__pycache__")
        for name in sorted(files):
            path = Path(folder, name)
            if path.is_file():
                found.append(path.relative_to(root))
    return found


def _name(found: metadata.Distribution) -> str:
    return (found.metadata["Name"] or "?").lower().replace("_", "-")


def _pin_distribution(
    found: metadata.Distribution, hashes: dict[Path, str]
) -> tuple[dict[str, Any], set[Path]]:
    owned: set[Path] = set()
    rows: list[list[str]] = []
    altered = False
    for file in found.files or ():
        path = Path(os.path.normpath(str(file.locate())))
        value = hashes.get(path)
        if value is None:  # scripts outside the folders, caches, removed files
            continue
        owned.add(path)
        # Installers add these after the wheel's own RECORD was written.
        if file.name in {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"}:
            continue
        rows.append([str(file).replace(os.sep, "/"), value])
        if file.hash is not None and file.hash.mode == "sha256":
            stated = base64.urlsafe_b64decode(
                file.hash.value + "=" * (-len(file.hash.value) % 4)
            )
            altered = altered or stated.hex() != value
    return (
        {
            "version": found.version,
            "sha256": digest(sorted(rows)),
            "files": len(rows),
            "altered": altered,
        },
        owned,
    )

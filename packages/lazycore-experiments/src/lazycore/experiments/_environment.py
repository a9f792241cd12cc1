"""Pin the packages that workers can import, by the content of their files.

A RECORD file says what a wheel installed, not what lies there now. So every file
is read: those a distribution owns under its name, all others under ``unowned``.
Bytecode caches are left out: no worker reads them, its own are made from the
sources that are hashed.
"""

from __future__ import annotations

import base64
import csv
import os
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import digest
from lazycore.experiments._file_hashes import hash_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["difference", "package_folders", "pin_environment"]

_ADDED_BY_INSTALLERS = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"}


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
    trees = [
        hash_tree(root, skipped={"__pycache__"}, progress=progress) for root in roots
    ]
    owned: set[str] = set()
    hashes = {
        f"{root}/{name}": value
        for root, tree in zip(roots, trees, strict=True)
        for name, value in tree.items()
    }
    distributions: dict[str, Any] = {}
    for found in metadata.distributions(path=[str(root) for root in roots]):
        name, pin, paths = _pin_distribution(found, hashes)
        owned |= paths
        distributions[name] = pin
    unowned = sorted(
        [name, value]
        for root, tree in zip(roots, trees, strict=True)
        for name, value in tree.items()
        if f"{root}/{name}" not in owned
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


def _pin_distribution(
    found: metadata.Distribution, hashes: Mapping[str, str]
) -> tuple[str, dict[str, Any], set[str]]:
    owned: set[str] = set()
    rows: list[list[str]] = []
    altered = False
    root = str(found.locate_file(""))
    for name, stated in _recorded(found):
        path = f"{root}/{name}"
        if path not in hashes:  # an absolute name, or one that climbs
            path = os.path.normpath(os.path.join(root, name))  # noqa: PTH118
        value = hashes.get(path)
        if value is None:  # scripts outside the folders, caches, removed files
            continue
        owned.add(path)
        # Installers add these after the wheel's own RECORD was written.
        if name.rpartition("/")[2] in _ADDED_BY_INSTALLERS:
            continue
        rows.append([name, value])
        algorithm, _, encoded = stated.partition("=")
        if algorithm == "sha256":
            altered = altered or _hexadecimal(encoded) != value
    about = found.metadata
    return (
        (about["Name"] or "?").lower().replace("_", "-"),
        {
            "version": about["Version"],
            "sha256": digest(sorted(rows)),
            "files": len(rows),
            "altered": altered,
        },
        owned,
    )


def _recorded(found: metadata.Distribution) -> Iterator[tuple[str, str]]:
    """Yield each file that a distribution lists, with the digest it states."""
    record = found.read_text("RECORD")
    if record is None:  # an egg: its lists state no digests
        yield from ((str(file), "") for file in found.files or ())
        return
    for row in csv.reader(record.splitlines()):
        if row:
            yield row[0].replace(os.sep, "/"), row[1] if len(row) > 1 else ""


def _hexadecimal(encoded: str) -> str:
    try:
        return base64.urlsafe_b64decode(f"{encoded}==").hex()
    except ValueError:
        return ""

"""Find the licence of an installed distribution and say how sure that is."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from lazycore.licensing import _weigh
from lazycore.licensing._bundled import find_bundled
from lazycore.licensing._files import (
    DistributionFiles,
    FolderFiles,
    is_license_name,
    is_third_party_name,
    record_paths,
)
from lazycore.licensing._findings import BundledLicense, LicenseFinding
from lazycore.licensing._metadata import Metadata, read_metadata

MAX_OTHER_TEXTS = 40

if TYPE_CHECKING:
    import os
    from importlib.metadata import Distribution

    from lazycore.licensing._files import Files


def resolve(
    dist: Distribution | str | os.PathLike[str], *, bundled: bool = True
) -> LicenseFinding:
    """Find the licence of a distribution from its own metadata and files.

    Strongest first: a valid ``License-Expression``, a ``License`` that names one
    licence, a licence file, a precise classifier, the README. Evidence that
    disagrees is listed; the stricter reading then holds.

    Args:
        dist: A distribution, the name of an installed one, or the path of its
            ``.dist-info`` folder.
        bundled: Also look for works of other origin.

    Raises:
        importlib.metadata.PackageNotFoundError: No such distribution is installed.

    Examples:
        >>> resolve("lazycore-licensing").expression
        'MIT'
    """
    from importlib.metadata import Distribution, distribution

    if isinstance(dist, Distribution):
        return resolve_files(DistributionFiles(dist), "", bundled=bundled)
    place = str(dist)
    if isinstance(dist, str) and not place.endswith((".dist-info", ".egg-info")):
        reader = DistributionFiles(distribution(dist))
        return resolve_files(reader, "", bundled=bundled)
    return resolve_files(FolderFiles(place), place, bundled=bundled)


def resolve_files(files: Files, folder: str, *, bundled: bool) -> LicenseFinding:
    """Resolve a distribution through a reader of its files."""
    text = files.read("METADATA") or files.read("PKG-INFO") or files.read("") or ""
    metadata = read_metadata(text)
    record = files.read("RECORD") or files.read("installed-files.txt") or ""
    own, extra = license_texts(files, metadata, record)
    decision = _weigh.weigh(metadata, own, lambda: _notices(files, record))
    found: tuple[BundledLicense, ...] = ()
    if bundled:
        own_folder = folder.replace("\\", "/").rpartition("/")[2] or _own(record)
        found = find_bundled(files, record, own_folder, extra)
        found = (*decision.bundled, *found)
    digest = None
    if own:
        body = "\0".join(f"{name}\0{own[name]}" for name in sorted(own))
        digest = hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()
    return LicenseFinding(
        name=metadata.first("name"),
        version=metadata.first("version"),
        expression=decision.expression,
        source=decision.source,
        confidence=decision.confidence,
        evidence=decision.evidence,
        conflicts=decision.conflicts,
        bundled=found,
        text_sha256=digest,
    )


def _own(record: str) -> str:
    for path in record_paths(record):
        folder, _, name = path.partition("/")
        if name == "METADATA" and folder.endswith(".dist-info"):
            return folder
    return ""


def license_texts(
    files: Files, metadata: Metadata, record: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return (own, other) licence texts by path.

    A file is the distribution's own when it lies at the top of the licence folder
    and its name does not speak of third parties.
    """
    names = [name for name in files.metadata_names() if is_license_name(name)]
    for name in metadata.all("license-file"):
        known = name in names or f"licenses/{name}" in names
        if not known and (is_license_name(name) or not names):
            names.append(name if files.read(name) else f"licenses/{name}")
    level = min((_depth(name) for name in names), default=0)
    own: dict[str, str] = {}
    extra: dict[str, str] = {}
    for name in sorted(set(names)):
        foreign = is_third_party_name(name) and len(names) > 1
        target = extra if foreign or _depth(name) > level else own
        if target is extra and len(extra) >= MAX_OTHER_TEXTS:
            continue
        text = files.read(name)
        if text and text.strip():
            target[name] = text
    if not own:
        for path in _package_level(record):
            text = files.read_installed(path)
            if text and text.strip():
                own[path] = text
    return own, extra


def _depth(name: str) -> int:
    return name.removeprefix("licenses/").count("/")


def _package_level(record: str) -> list[str]:
    """Return licence files that older wheels put beside or into the package."""
    return [
        path
        for path in record_paths(record)
        if path.count("/") <= 1
        and ".dist-info" not in path
        and not path.startswith("..")
        and is_license_name(path)
        and not is_third_party_name(path)
    ][:4]


def _notices(files: Files, record: str) -> str:
    """Return the heads of top modules, where GNU notices say "or later"."""
    tops = [
        path
        for path in record_paths(record)
        if path.count("/") <= 1 and path.endswith(".py") and "/_" not in path[:-12]
    ]
    tops.sort(key=lambda path: (not path.endswith("__init__.py"), path))
    return "\n".join((files.read_installed(path) or "")[:3000] for path in tops[:3])

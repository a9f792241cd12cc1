"""Read what states licences itself: bills of materials and conda environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from lazycore.licensing._components import stated_license
from lazycore.licensing._errors import SourceError
from lazycore.licensing._expression import normalize
from lazycore.licensing._findings import Confidence, Evidence, LicenseFinding
from lazycore.licensing._names import from_names
from lazycore.licensing._policy import normalize_name
from lazycore.licensing._sources import Package, metadata_folders

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

MAX_JSON_BYTES: Final = 256 * 1024 * 1024
# CycloneDX types that are no work of their own to be licensed.
_NO_WORK: Final = frozenset(("device", "data", "cryptographic-asset"))


def _json(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise SourceError(f"{path}: more than {MAX_JSON_BYTES} bytes")
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: not JSON: {error}") from error


def _name(row: dict[str, Any]) -> str:
    name = row.get("name")
    return name if isinstance(name, str) else ""


def read_cyclonedx(path: str | os.PathLike[str]) -> list[Package]:
    """Read the components of a CycloneDX JSON file with their licences.

    Components inside components count; the component that the document is about
    does not. A ``group`` stays before the name, as in ``@scope/name``.

    Raises:
        SourceError: The file is no CycloneDX JSON document or lists no component.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bom = Path(folder, "bom.json")
        ...     _ = bom.write_text(
        ...         '{"bomFormat": "CycloneDX", "components": [{"name": "a",'
        ...         ' "licenses": [{"license": {"id": "MIT"}}]}]}'
        ...     )
        ...     read_cyclonedx(bom)[0].finding.expression
        'MIT'
    """
    place = Path(path)
    if place.suffix.lower() == ".xml":
        raise SourceError(f"{place}: CycloneDX is read as JSON; export it so")
    document = _json(place)
    if not isinstance(document, dict) or document.get("bomFormat") != "CycloneDX":
        raise SourceError(f"{place}: no CycloneDX document (bomFormat is missing)")
    found = []
    for component in _components(document):
        name = _name(component)
        if not name or component.get("type") in _NO_WORK:
            continue
        group = component.get("group")
        full = f"{group}/{name}" if isinstance(group, str) and group else name
        stated = stated_license(component)
        package = _stated(
            full,
            str(component.get("version", "")),
            stated.expression,
            Evidence(kind="sbom", where=str(place), says=stated.says),
            conflicts=stated.conflicts,
            purl=str(component.get("purl") or ""),
        )
        found.append(package)
    if not found:
        raise SourceError(f"{place}: it lists no component; nothing was judged")
    return sorted(found, key=lambda package: (package.name, package.version))


def _components(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    work = [document]
    while work:
        listed = work.pop().get("components")
        inner = listed if isinstance(listed, list) else []
        rows = [row for row in inner if isinstance(row, dict)]
        yield from rows
        work += rows


def read_conda(path: str | os.PathLike[str]) -> list[Package]:
    """Read the packages of a conda environment, and what pip put beside them.

    Records are read from ``conda-meta``. A distribution in the environment's
    ``site-packages`` that no record lists is resolved from its own files.

    Args:
        path: The environment or its ``conda-meta``.

    Raises:
        SourceError: There is no such folder, it lists nothing, or a record in it
            can't be read.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Path(folder, "conda-meta").mkdir()
        ...     record = Path(folder, "conda-meta", "zlib-1.3-0.json")
        ...     _ = record.write_text('{"name": "zlib", "license": "Zlib"}')
        ...     read_conda(folder)[0].finding.expression
        'Zlib'
    """
    folder = Path(path)
    if folder.name != "conda-meta":
        folder /= "conda-meta"
    found = []
    recorded: set[str] = set()
    for place in sorted(folder.glob("*.json")):
        record = _json(place)
        if not isinstance(record, dict) or not _name(record):
            raise SourceError(f"{place}: no record of a conda package")
        files = record.get("files")
        recorded.update(map(str, files if isinstance(files, list) else ()))
        stated = str(record.get("license") or "")
        expression = normalize(stated)
        text = str(expression) if expression else from_names(stated)
        evidence = Evidence(
            kind="conda", where=place.name, says=stated[:200] or "nothing"
        )
        version = str(record.get("version", ""))
        purl = f"pkg:conda/{quote(_name(record))}@{quote(version)}"
        found.append(_stated(_name(record), version, text, evidence, purl=purl))
    if not found:
        raise SourceError(f"{folder}: no conda package is recorded there")
    found += _beside(folder.parent, recorded)
    return sorted(found, key=lambda package: (package.name, package.version))


def _beside(root: Path, recorded: set[str]) -> Iterator[Package]:
    from lazycore.licensing._resolve import resolve

    owned = {file.rpartition("/")[0] for file in recorded}
    for folder in metadata_folders(root):
        if folder.relative_to(root).as_posix() not in owned:
            finding = resolve(folder)
            name = normalize_name(finding.name or folder.name.split("-")[0])
            yield Package(name=name, version=finding.version, finding=finding)


def _stated(
    name: str,
    version: str,
    expression: str | None,
    evidence: Evidence,
    *,
    conflicts: tuple[str, ...] = (),
    purl: str = "",
) -> Package:
    finding = LicenseFinding(
        name=name,
        version=version,
        expression=expression,
        source=evidence.kind if expression else "none",
        confidence=Confidence.DERIVED if expression else Confidence.GUESS,
        evidence=(evidence,),
        conflicts=conflicts,
        purl=purl,
    )
    return Package(name=normalize_name(name), version=version, finding=finding)

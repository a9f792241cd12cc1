"""Read what is to be audited: environments, lock files, bills of materials."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lazycore.licensing._bundled import component_license
from lazycore.licensing._errors import SourceError
from lazycore.licensing._expression import normalize
from lazycore.licensing._findings import Confidence, Evidence, LicenseFinding
from lazycore.licensing._names import from_names
from lazycore.licensing._policy import Policy, normalize_name
from lazycore.licensing._resolve import resolve
from lazycore.licensing._toml import TomlFile

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from lazycore.licensing._decision import Usage

MAX_JSON_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package to judge.

    Attributes:
        name: Normalised name.
        version: Empty when the input has none.
        usages: How the input says that it is used.
        finding: Its licence, when the input knows it.
    """

    name: str
    version: str = ""
    usages: tuple[Usage, ...] = ()
    finding: LicenseFinding | None = None


def read_environment(path: str | os.PathLike[str] | None = None) -> list[Package]:
    """Resolve every distribution of an environment or of a ``site-packages``.

    Args:
        path: Root of a virtual environment, a ``site-packages`` folder, or None
            for the running interpreter's own.

    Raises:
        SourceError: There is no distribution.
    """
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


def read_lock(path: str | os.PathLike[str], policy: Policy) -> list[Package]:
    """Read ``uv.lock``, ``pylock*.toml``, ``poetry.lock``, ``pdm.lock``, requirements.

    Raises:
        SourceError: The file is none of them.
    """
    place = Path(path)
    if place.suffix in {".txt", ".in"}:
        return _requirements(place, policy)
    file = TomlFile(place, SourceError)
    data = file.data
    rows = data.get("packages" if "lock-version" in data else "package")
    if not isinstance(rows, list):
        raise SourceError(
            f"{place}: it lists no packages; locks of uv, pip, Poetry, PDM do"
        )
    rows = [row for row in rows if isinstance(row, dict) and _name(row)]
    if (
        "lock-version" not in data
        and any("source" in row for row in rows)
        and ("requires-python" in data and "version" in data)
    ):
        return _uv(rows, policy)
    return sorted(
        (
            Package(
                name=normalize_name(_name(row)),
                version=str(row.get("version", "")),
                usages=_group_usages(row, policy),
            )
            for row in rows
        ),
        key=lambda package: (package.name, package.version),
    )


def _name(row: dict[str, Any]) -> str:
    name = row.get("name")
    return name if isinstance(name, str) else ""


def _group_usages(row: dict[str, Any], policy: Policy) -> tuple[Usage, ...]:
    """Read the groups that Poetry 2 and PDM write beside each package."""
    groups = row.get("groups", [row["category"]] if "category" in row else [])
    found = []
    for group in groups if isinstance(groups, list) else ():
        plain = {"main", "default"}
        found.append(
            policy.default_usage
            if group in plain
            else policy.groups.get(
                group, policy.extras.get(group, policy.default_usage)
            )
        )
    return tuple(dict.fromkeys(found)) or (policy.default_usage,)


def _uv(rows: list[dict[str, Any]], policy: Policy) -> list[Package]:
    """Walk the edges of ``uv.lock`` from each workspace member."""
    edges: dict[str, list[str]] = {}
    roots: list[dict[str, Any]] = []
    for row in rows:
        name = normalize_name(_name(row))
        edges.setdefault(name, []).extend(_names(row.get("dependencies")))
        extras = row.get("optional-dependencies")
        source = row.get("source")
        if isinstance(source, dict) and {"virtual", "editable"} & set(source):
            roots.append(row)
        elif isinstance(extras, dict):
            for listed in extras.values():
                edges[name] += _names(listed)
    usages: dict[str, list[Usage]] = {}
    for row in roots:
        starts = [(policy.default_usage, _names(row.get("dependencies")))]
        for key, table in (
            ("dev-dependencies", policy.groups),
            ("optional-dependencies", policy.extras),
        ):
            listed = row.get(key)
            for name, names in listed.items() if isinstance(listed, dict) else ():
                usage = table.get(name, policy.default_usage)
                starts.append((usage, _names(names)))
        for usage, names in starts:
            _reach(usage, names, edges, usages)
    own = {normalize_name(_name(row)) for row in roots}
    return sorted(
        (
            Package(
                name=name,
                version=str(row.get("version", "")),
                usages=tuple(usages.get(name, [policy.default_usage])),
            )
            for row in rows
            if (name := normalize_name(_name(row))) not in own
        ),
        key=lambda package: (package.name, package.version),
    )


def _names(listed: object) -> list[str]:
    rows = listed if isinstance(listed, list) else []
    return [normalize_name(_name(row)) for row in rows if isinstance(row, dict)]


def _reach(
    usage: Usage,
    names: Iterable[str],
    edges: dict[str, list[str]],
    usages: dict[str, list[Usage]],
) -> None:
    work, seen = list(names), set()
    while work:
        name = work.pop()
        if name in seen:
            continue
        seen.add(name)
        known = usages.setdefault(name, [])
        if usage not in known:
            known.append(usage)
        work += edges.get(name, [])


_REQUIREMENT = re.compile(
    r"^\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?:==\s*([^\s;\\#,]+))?"
)


def _requirements(path: Path, policy: Policy) -> list[Package]:
    text = path.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith(("#", "-")):
            continue
        match = _REQUIREMENT.match(line)
        if match is None:
            raise SourceError(f"{path}: {line.strip()[:60]!r} is no requirement")
        found.append(
            Package(
                name=normalize_name(match[1]),
                version=match[2] or "",
                usages=(policy.default_usage,),
            )
        )
    if not found:
        raise SourceError(f"{path}: holds no requirements")
    return sorted(found, key=lambda package: package.name)


def _json(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise SourceError(f"{path}: more than {MAX_JSON_BYTES} bytes")
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: not JSON: {error}") from error


def read_cyclonedx(path: str | os.PathLike[str]) -> list[Package]:
    """Read the components of a CycloneDX JSON file with their licences.

    Raises:
        SourceError: The file is no CycloneDX document.
    """
    place = Path(path)
    document = _json(place)
    if not isinstance(document, dict) or document.get("bomFormat") != "CycloneDX":
        raise SourceError(f"{place}: no CycloneDX document (bomFormat is missing)")
    found = []
    components = document.get("components", [])
    for component in components if isinstance(components, list) else ():
        if not isinstance(component, dict) or not _name(component):
            continue
        name = _name(component)
        version = str(component.get("version", ""))
        expression = component_license(component)
        found.append(_stated(name, version, expression, "sbom", str(place)))
    return sorted(found, key=lambda package: (package.name, package.version))


def read_conda(path: str | os.PathLike[str]) -> list[Package]:
    """Read the packages of a conda environment from its ``conda-meta`` folder.

    Raises:
        SourceError: There is no such folder or it lists nothing.
    """
    folder = Path(path)
    if folder.name != "conda-meta":
        folder /= "conda-meta"
    found = []
    for place in sorted(folder.glob("*.json")):
        record = _json(place)
        if isinstance(record, dict) and _name(record):
            stated = str(record.get("license") or "")
            expression = normalize(stated) if len(stated) < 300 else None
            text = str(expression) if expression else from_names(stated)
            version = str(record.get("version", ""))
            found.append(_stated(_name(record), version, text, "conda", place.name))
    if not found:
        raise SourceError(f"{folder}: no conda package is recorded there")
    return sorted(found, key=lambda package: package.name)


def _stated(
    name: str, version: str, expression: str | None, source: str, where: str
) -> Package:
    finding = LicenseFinding(
        name=name,
        version=version,
        expression=expression,
        source=source if expression else "none",
        confidence=Confidence.DERIVED if expression else Confidence.GUESS,
        evidence=(Evidence(kind=source, where=where, says=expression or "nothing"),),
    )
    return Package(name=normalize_name(name), version=version, finding=finding)

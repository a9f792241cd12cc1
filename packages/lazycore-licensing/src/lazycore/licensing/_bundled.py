"""Find what a distribution ships of other origin, by its own file list."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from lazycore.licensing._components import component_license
from lazycore.licensing._expression import normalize
from lazycore.licensing._files import is_license_name
from lazycore.licensing._findings import BundledLicense
from lazycore.licensing._metadata import read_metadata
from lazycore.licensing._names import from_names
from lazycore.licensing._texts import identify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazycore.licensing._files import Files

MAX_ITEMS: Final = 200
MAX_TEXTS: Final = 12
# Each path that is suspicious holds one of these; most lists hold none.
_NEEDLES: Final = (
    *(".libs/", ".dylibs/", ".so", ".dylib", ".dll", ".exe", "/sboms/"),
    *("/bin/", "/binaries/", "/exe/", "/vendor", "/_vendor"),
    *("/third-party/", "/third_party/", "/extern", "/PKG-INFO"),
)
# A distribution may list 100,000 files, and a hostile one a path of a megabyte: no
# pattern may look at a character from more than one start.
_SUSPICIOUS_PATH: Final = re.compile(
    r"""\.(?:dy)?libs/.                          # auditwheel, delvewheel, delocate
      | [^/]\.(?:dist-info|egg-info)/(?:METADATA|PKG-INFO)\Z
      | /(?:bin|binaries|exe)/[^/.]+(?:-v?[\d.]+)?\Z          # an executable
      | /_?vendor(?:ed)?/
      | /(?:third[-_]party|extern(?:al)?s?)/
      | \.dist-info/sboms/.
    """,
    re.VERBOSE,
)
_SUSPICIOUS_NAME: Final = re.compile(
    r"\Alib.*\.(?:so|dylib|dll)\Z"  # a plain library
    r"|\.so\.\d"  # a versioned one
    r"|\.exe\Z"
)
_LIBRARY = re.compile(r"(?:^|/)lib[^/]*\.(?:so|dylib|dll)\Z")


def find_bundled(
    files: Files, record: str, own_metadata: str, extra_texts: dict[str, str]
) -> tuple[BundledLicense, ...]:
    """Return what is shipped beside the distribution's own code, sorted by path.

    Args:
        files: Where to read.
        record: Text of RECORD.
        own_metadata: Folder name of the distribution's own metadata.
        extra_texts: Licence files that are not the distribution's own.
    """
    found: dict[str, BundledLicense] = {}
    for path, text in list(extra_texts.items())[:MAX_TEXTS]:
        report = identify(text)
        if not report.matches:
            found[path] = BundledLicense(
                path=path, reason="license-file", expression=None
            )
        for match in report.matches:
            found[f"{path}#{match.id}"] = BundledLicense(
                path=path, reason="license-file", expression=match.id
            )
    for path in _suspicious(record):
        if len(found) >= MAX_ITEMS:
            break
        _suspect(files, path, own_metadata, found)
    return tuple(found[key] for key in sorted(found))


def _suspicious(record: str) -> Iterator[str]:
    """Yield the listed paths that may be of other origin."""
    # Its own METADATA is the one that every list has.
    if record.count("/METADATA") < 2 and not any(
        needle in record for needle in _NEEDLES
    ):
        return
    for line in record.splitlines():
        quoted = line.startswith('"')
        path = line[1:].partition('"')[0] if quoted else line.partition(",")[0]
        if _SUSPICIOUS_PATH.search(path) or _SUSPICIOUS_NAME.search(
            path.rpartition("/")[2]
        ):
            yield path


def _suspect(
    files: Files, path: str, own_metadata: str, found: dict[str, BundledLicense]
) -> None:
    folder = path.partition("/")[0]
    if ".dist-info/sboms/" in path:
        if folder == own_metadata and path.endswith(".json"):
            _from_sbom(files, path, found)
        return
    if path.endswith(("/METADATA", "/PKG-INFO")):
        if folder != own_metadata:
            inner = path.rpartition("/")[0]
            expression = _nested(files.read_installed(path) or "")
            found[inner] = BundledLicense(
                path=inner, reason="nested-distribution", expression=expression
            )
        return
    if folder.endswith((".dist-info", ".data")) or path.startswith("../"):
        return
    reason, key = _reason(path)
    if reason is not None:
        found.setdefault(key, BundledLicense(path=key, reason=reason, expression=None))


def _reason(path: str) -> tuple[str | None, str]:
    if (
        ".libs/" in path
        or ".dylibs/" in path
        or ".so." in path
        or _LIBRARY.search(path)
    ):
        return "shared-library", path
    vendored = re.search(
        r"/(_?vendor(?:ed)?|third[-_]party|extern(?:al)?s?)/([^/]+)", path
    )
    if vendored is not None:
        # One line per vendored package, and licence texts only beside it.
        inner = path[: vendored.end()]
        if inner.endswith(("__init__.py", ".pyi")) or "__pycache__" in inner:
            return None, inner
        return "vendored", inner
    if is_license_name(path) or path.endswith((".py", ".pyc", ".pyi", ".txt", ".md")):
        return None, path
    return "executable", path


def _nested(text: str) -> str | None:
    metadata = read_metadata(text)
    stated = metadata.first("license-expression") or metadata.first("license")
    expression = normalize(stated) if len(stated) < 300 else None
    if expression is not None:
        return str(expression)
    names = [
        from_names(line.rpartition("::")[2].strip())
        for line in metadata.all("classifier")
        if line.startswith("License ::")
    ]
    exact = sorted({name for name in names if name})
    return " AND ".join(exact) or None


def _from_sbom(files: Files, path: str, found: dict[str, BundledLicense]) -> None:
    """Read a CycloneDX file that the wheel carries (PEP 770)."""
    text = files.read_installed(path)
    try:
        document = json.loads(text or "")
        components = document.get("components", [])
    except (ValueError, AttributeError, RecursionError):
        found[path] = BundledLicense(path=path, reason="sbom", expression=None)
        return
    for component in components if isinstance(components, list) else ():
        if len(found) >= MAX_ITEMS or not isinstance(component, dict):
            break
        name = f"{path}#{component.get('name')}"
        found[name] = BundledLicense(
            path=name, reason="sbom", expression=component_license(component)
        )

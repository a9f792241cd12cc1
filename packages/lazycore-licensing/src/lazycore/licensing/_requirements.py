"""Read requirements files, as pip, uv, Poetry and PDM write them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from lazycore.licensing._errors import SourceError
from lazycore.licensing._markers import Marker
from lazycore.licensing._policy import normalize_name
from lazycore.licensing._sources import Package

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from lazycore.licensing._policy import Policy

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_FILES: Final = 100
MAX_LINE_CHARACTERS: Final = 4_000  # without hashes
_REQUIREMENT: Final = re.compile(
    r"""(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*
        (?:\[[^\]]*\])?\s*
        (?: @\s*(?P<url>[^\s;]+(?:\s+;)?)
          | \(?(?P<versions>[^;@]*?)\)?
        )?\s*
        (?:;\s*(?P<marker>.+))?\Z""",
    re.VERBOSE,
)
_VERSIONS: Final = re.compile(r"\s*(?:(?:===|==|~=|!=|<=|>=|<|>)\s*[^\s,]+\s*,?\s*)*\Z")
_EXACT: Final = re.compile(r"={2,3}\s*([^\s,*]+)\s*\Z")
_WHEEL: Final = re.compile(r"([^-]+)-([^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")
_NAMED: Final = re.compile(r"[A-Za-z0-9][\w.-]*\s*(?:\[[^\]]*\])?\s*@")
_ARCHIVES: Final = (".whl", ".tar.gz", ".zip")
_OPTION: Final = re.compile(r"(--?[A-Za-z-]+)(?:[=\s]+(.*))?\Z", re.DOTALL)


class _Line(NamedTuple):
    text: str
    path: Path
    number: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.number}"


def read_requirements(
    path: str | os.PathLike[str],
    policy: Policy,
    *,
    environment: Mapping[str, str] | None = None,
) -> list[Package]:
    """Read a requirements file and the files that it includes by ``-r``.

    Nothing is skipped in silence: a line that names no package is refused, except
    options that change only where packages come from.

    Raises:
        SourceError: A line can't be read; file and line are named.
    """
    found: dict[tuple[str, str], Package] = {}
    for line in _lines(Path(path)):
        package = _package(line, policy, environment)
        if package is not None:
            found.setdefault((package.name, package.version), package)
    if not found:
        raise SourceError(f"{path}: holds no requirements")
    return [found[key] for key in sorted(found)]


def _lines(start: Path) -> Iterator[_Line]:
    """Yield logical lines without comments, of included files in their place."""
    seen: set[Path] = set()
    work = [iter(_logical(start, seen))]
    while work:
        line = next(work[-1], None)
        if line is None:
            work.pop()
            continue
        option = _OPTION.match(line.text)
        if option is None or option[1] not in {"-r", "--requirement"}:
            yield line
            continue
        included = line.path.parent / (option[2] or "").strip().strip("'\"")
        if included.resolve() in seen:
            continue
        if len(seen) >= MAX_FILES:
            raise SourceError(f"{line.where}: more than {MAX_FILES} included files")
        try:
            work.append(iter(_logical(included, seen)))
        except OSError as error:
            raise SourceError(
                f"{line.where}: {included} can't be read: {error.strerror}"
            ) from error


def _logical(path: Path, seen: set[Path]) -> list[_Line]:
    seen.add(path.resolve())
    raw = path.read_bytes()
    if len(raw) > MAX_BYTES:
        raise SourceError(f"{path}: more than {MAX_BYTES} bytes")
    found: list[_Line] = []
    parts: list[str] = []
    start = 1
    text = raw.decode("utf-8-sig", "replace")
    for number, line in enumerate(text.splitlines(), 1):
        if not parts:
            start = number
        plain = re.sub(r"(^|\s)#.*$", "", line)
        parts.append(plain.removesuffix("\\"))
        if plain == line and line.endswith("\\"):
            continue
        joined = " ".join(parts).strip()
        parts = []
        if joined:
            found.append(_Line(joined, path, start))
    if joined := " ".join(parts).strip():
        found.append(_Line(joined, path, start))
    return found


def _package(
    line: _Line, policy: Policy, environment: Mapping[str, str] | None
) -> Package | None:
    text = line.text
    option = _OPTION.match(text)
    if option is not None:
        if option[1] not in {"-e", "--editable"}:
            return None  # indexes, constraints, binaries: no package by itself
        text = (option[2] or "").strip().strip("'\"")
        if "://" not in text and not text.startswith("git+"):
            return None  # a folder: the project itself
    text = re.sub(r"\s--(?:hash|config-settings?|global-option)[=\s].*$", "", text)
    if len(text) > MAX_LINE_CHARACTERS:
        raise SourceError(f"{line.where}: a requirement of {len(text)} characters")
    name, version, marker = _parts(text.strip(), line)
    if marker and not _applies(marker, line, environment):
        return None
    return Package(
        name=normalize_name(name),
        version=version,
        usages=(policy.default_usage,),
        where=line.where,
    )


def _parts(text: str, line: _Line) -> tuple[str, str, str]:
    """Return name, exact version or nothing, and marker of a requirement."""
    if not _NAMED.match(text) and ("://" in text or text.endswith(_ARCHIVES)):
        return *_from_url(text, line), ""
    match = _REQUIREMENT.match(text)
    versions = (match["versions"] or "").strip() if match else ""
    if match is None or not _VERSIONS.match(versions):
        raise SourceError(
            f"{line.where}: {text[:60]!r} names no package; write NAME==VERSION or "
            "NAME @ URL"
        )
    exact = _EXACT.match(versions)
    if match["url"]:
        wheel = _wheel(match["url"])
        return match["name"], wheel[2] if wheel else "", match["marker"] or ""
    return match["name"], exact[1] if exact else "", match["marker"] or ""


def _from_url(text: str, line: _Line) -> tuple[str, str]:
    """Read the name out of a wheel's file name or of ``#egg=NAME``."""
    address = text.split(maxsplit=1)[0]
    egg = re.search(r"[#&]egg=([\w.-]+)", address)
    if egg is not None:
        return egg[1], ""
    wheel = _wheel(address)
    if wheel is None:
        raise SourceError(
            f"{line.where}: the address {address[:60]!r} names no package; write "
            "NAME @ URL"
        )
    return wheel[1], wheel[2]


def _wheel(address: str) -> re.Match[str] | None:
    """Take the name of a wheel apart: name, version and the rest."""
    return _WHEEL.fullmatch(unquote(urlsplit(address).path).rpartition("/")[2])


def _applies(marker: str, line: _Line, environment: Mapping[str, str] | None) -> bool:
    try:
        return Marker.parse(marker).may_hold(environment=environment)
    except SourceError as error:
        raise SourceError(f"{line.where}: {error}") from error

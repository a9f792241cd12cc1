"""Keep licences in a file, so that a gate needs neither install nor network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lazycore.licensing._errors import SourceError
from lazycore.licensing._expression import normalize
from lazycore.licensing._findings import BundledLicense, Confidence, LicenseFinding
from lazycore.licensing._policy import normalize_name
from lazycore.licensing._toml import TomlFile, toml_string, toml_value

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from lazycore.licensing._sources import Package

HARMLESS: Final = frozenset(("version", "removed"))
_KEYS = (
    *("name", "version", "expression", "source", "confidence", "text-sha256"),
    *("conflicts", "bundled"),
)


def snapshot(packages: Iterable[Package]) -> str:
    """Return the text of a ``licences.lock``: one table per package, sorted.

    Args:
        packages: From `read_environment`, `read_cyclonedx` or `read_conda`.

    Examples:
        >>> from lazycore.licensing import Package, resolve
        >>> found = resolve("lazycore-licensing")
        >>> snapshot([Package(name="x", finding=found)]).splitlines()[3]
        'name = "x"'
    """
    lines = ["schema = 1"]
    known = {p.name: p.finding for p in packages if p.finding is not None}
    for name in sorted(known):
        finding = known[name]
        lines += ["", "[[package]]", f"name = {toml_string(name)}"]
        lines.append(f"version = {toml_string(finding.version)}")
        if finding.expression:
            lines.append(f"expression = {toml_string(finding.expression)}")
        lines.append(f"source = {toml_string(finding.source)}")
        lines.append(f"confidence = {toml_string(finding.confidence)}")
        if finding.text_sha256:
            lines.append(f"text-sha256 = {toml_string(finding.text_sha256)}")
        if finding.conflicts:
            lines.append(f"conflicts = {toml_value(list(finding.conflicts))}")
        # What states no licence can't change a verdict; it would only be noise.
        bundled = {(b.path, b.reason, b.expression) for b in finding.bundled}
        stated = sorted(row for row in bundled if row[2])
        if stated:
            lines.append("bundled = [")
            lines += [f"  {toml_value(list(row))}," for row in stated]
            lines.append("]")
    return "\n".join(lines) + "\n"


def read_snapshot(path: str | os.PathLike[str]) -> dict[str, LicenseFinding]:
    r"""Read a ``licences.lock`` -> finding by normalised name.

    Raises:
        SourceError: Unknown key or wrong value, with file and line.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     place = Path(folder, "licences.lock")
        ...     _ = place.write_text(
        ...         "schema = 1\n[[package]]\nname = 'x'\nexpression = 'MIT'"
        ...     )
        ...     read_snapshot(place)["x"].expression
        'MIT'
    """
    file = TomlFile(path, SourceError)
    file.check_keys(file.data, ("schema", "package"))
    if file.data.get("schema") != 1:
        raise file.fault("schema = 1 is the only schema", key="schema")
    rows = file.data.get("package", [])
    if not isinstance(rows, list):
        raise file.fault("write each package as [[package]]", key="package")
    found = {}
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            raise file.fault("write each package as [[package]]", key="package")
        file.check_keys(row, _KEYS, table="package", index=index)
        try:
            finding = _finding(row)
        except (ValueError, TypeError) as error:
            raise file.fault(
                f"broken package: {error}", table="package", index=index
            ) from error
        name = normalize_name(finding.name)
        if name in found:
            raise file.fault(f"{name} is listed twice", table="package", index=index)
        found[name] = finding
    return found


def _finding(row: dict[str, Any]) -> LicenseFinding:
    stated = _text(row, "expression", None)
    return LicenseFinding(
        name=_text(row, "name") or "",
        version=_text(row, "version", "") or "",
        expression=None if stated is None else _expression(stated),
        source=_text(row, "source", "none") or "none",
        confidence=Confidence(row.get("confidence", "guess")),
        text_sha256=_text(row, "text-sha256", None),
        conflicts=_texts(row.get("conflicts", [])),
        bundled=tuple(
            BundledLicense(path=path, reason=reason, expression=_expression(part))
            for path, reason, part in map(_texts, row.get("bundled", []))
        ),
    )


def _expression(text: str) -> str:
    found = normalize(text)
    if found is None:
        message = f"{text[:80]!r} is no expression"
        raise ValueError(message)
    return str(found)


def _text(row: dict[str, Any], key: str, *default: str | None) -> str | None:
    value = row.get(key, *default)
    if value is None and default == (None,):
        return None
    if not isinstance(value, str) or (not default and not value):
        message = f"{key} must be a text"
        raise TypeError(message)
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        message = f"a list of texts is wanted, not {str(value)[:60]}"
        raise TypeError(message)
    return tuple(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LicenseChange:
    """One difference between two snapshots.

    Attributes:
        name: Normalised name.
        kind: ``added``, ``removed``, ``license``, ``text``, ``bundled`` or
            ``version``.
        old: What was; empty for an addition.
        new: What is; empty for a removal.

    Examples:
        >>> LicenseChange(name="x", kind="license", old="MIT", new="SSPL-1.0").kind
        'license'
    """

    name: str
    kind: str
    old: str
    new: str


def diff(
    old: Mapping[str, LicenseFinding], new: Mapping[str, LicenseFinding]
) -> tuple[LicenseChange, ...]:
    """Return what changed, by name: the gravest change of each package.

    Examples:
        >>> from lazycore.licensing import resolve
        >>> diff({}, {"lazycore-licensing": resolve("lazycore-licensing")})[0].kind
        'added'
    """
    changes = []
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        if was is None or now is None:
            kind = "added" if was is None else "removed"
            changes.append(
                LicenseChange(name=name, kind=kind, old=_title(was), new=_title(now))
            )
        elif was.expression != now.expression:
            changes.append(
                LicenseChange(
                    name=name, kind="license", old=_title(was), new=_title(now)
                )
            )
        elif was.text_sha256 != now.text_sha256:
            changes.append(
                LicenseChange(name=name, kind="text", old=_title(was), new=_title(now))
            )
        elif _bundled(was) != _bundled(now):
            changes.append(
                LicenseChange(
                    name=name,
                    kind="bundled",
                    old=" AND ".join(_bundled(was)) or "nothing stated",
                    new=" AND ".join(_bundled(now)) or "nothing stated",
                )
            )
        elif was.version != now.version:
            changes.append(
                LicenseChange(
                    name=name, kind="version", old=was.version, new=now.version
                )
            )
    return tuple(changes)


def _bundled(finding: LicenseFinding) -> list[str]:
    return sorted({part.expression for part in finding.bundled if part.expression})


def _title(finding: LicenseFinding | None) -> str:
    if finding is None:
        return ""
    return f"{finding.version} {finding.expression or 'unknown'}".strip()

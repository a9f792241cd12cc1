"""Read a licence policy: clarifications, exceptions with expiry, own classes."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lazycore.licensing import _versions
from lazycore.licensing._classes import LicenseClass
from lazycore.licensing._decision import Usage, Verdict
from lazycore.licensing._errors import ExpressionError, PolicyError
from lazycore.licensing._expression import parse
from lazycore.licensing._toml import TomlFile

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_TOP: Final = (
    *("schema", "project-license", "default-usage", "groups", "extras"),
    *("unknown", "bundled", "clarify", "exception", "classes"),
)
_CLARIFY: Final = ("package", "version", "expression", "text-sha256", "reason")
_EXCEPTION: Final = (
    *("package", "version", "allow", "usage", "reason", "owner", "expires"),
)
TABLE: Final = "tool.lazycore.licensing"


def normalize_name(name: str) -> str:
    """Return a distribution name in the form by which they are compared (PEP 503).

    Examples:
        >>> normalize_name("Foo.Bar_baz")
        'foo-bar-baz'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clarification:
    """A fact about a package's licence, bound to the text that was read.

    Attributes:
        package: Normalised distribution name.
        expression: Canonical SPDX text.
        text_sha256: Hash of its licence files; the fact is void when it differs.
            None for a package without a licence file, then `version` is exact.
        version: Version or range it is limited to; empty for any.
        line: Where it was written.

    Examples:
        >>> fact = Clarification(
        ...     package="x", expression="MIT", text_sha256=None, version="==1.0"
        ... )
        >>> Policy(clarifications=(fact,)).clarifications[0].expression
        'MIT'
    """

    package: str
    expression: str
    text_sha256: str | None
    version: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyException:
    """A permission for one package; it adds to the table and must expire.

    Attributes:
        package: Normalised distribution name.
        allow: Licences that are admitted beside those the table allows, or whole
            expressions; what is bundled counts too.
        usages: Uses it holds for; empty means every use.
        reason: Why.
        owner: Who answers for it.
        expires: From this day on it is ignored and reported.
        version: Version or range it is limited to; empty for any.
        line: Where it was written.

    Examples:
        >>> one = PolicyException(
        ...     package="x",
        ...     allow=("GPL-3.0-only",),
        ...     usages=(Usage.BUILD_TIME,),
        ...     reason="a tool",
        ...     owner="ada",
        ...     expires=dt.date(2027, 3, 31),
        ... )
        >>> one.usages[0].value
        'build-time'
    """

    package: str
    allow: tuple[str, ...]
    usages: tuple[Usage, ...]
    reason: str
    owner: str
    expires: dt.date
    version: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What an audit is held against; the empty policy is the decision table.

    Attributes:
        default_usage: Use of whatever no group or extra speaks of.
        groups: Dependency group -> use.
        extras: Extra -> use.
        unknown: Verdict for packages without a known licence; None leaves it to
            the table.
        bundled: Least verdict when something bundled is stricter than the rest.
        clarifications: Facts.
        exceptions: Permissions.
        classes: Class by casefolded ``LicenseRef-`` id.
        project_license: SPDX text of the project itself, for reports.
        path: File it was read from.

    Examples:
        >>> Policy().default_usage.value, Policy().bundled.value
        ('runtime-internal', 'review')
    """

    default_usage: Usage = Usage.RUNTIME_INTERNAL
    groups: Mapping[str, Usage] = field(default_factory=dict)
    extras: Mapping[str, Usage] = field(default_factory=dict)
    unknown: Verdict | None = None
    bundled: Verdict = Verdict.REVIEW
    clarifications: tuple[Clarification, ...] = ()
    exceptions: tuple[PolicyException, ...] = ()
    classes: Mapping[str, LicenseClass] = field(default_factory=dict)
    project_license: str | None = None
    path: str = ""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read ``licensing.toml`` or the table in a ``pyproject.toml``.

        Raises:
            PolicyError: Unknown key or wrong value, with file and line.
            OSError: The file can't be read.
        """
        return _Reader(TomlFile(path, PolicyError)).policy()

    @classmethod
    def discover(cls, start: str | os.PathLike[str] = ".") -> Policy | None:
        """Find the policy of a project: in ``start`` or the nearest parent.

        ``licensing.toml`` comes before the table in ``pyproject.toml``; the search
        ends at a folder that holds ``.git``. None when there is no policy.
        """
        here = Path(start).resolve()
        for folder in (here, *here.parents):
            own = folder / "licensing.toml"
            if own.is_file():
                return cls.load(own)
            project = folder / "pyproject.toml"
            if project.is_file():
                file = TomlFile(project, PolicyError)
                if _table(file.data) is not None:
                    return _Reader(file).policy()
            if (folder / ".git").exists():
                return None
        return None


def _table(data: Mapping[str, Any]) -> dict[str, Any] | None:
    found: Any = data
    for key in TABLE.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


class _Reader:
    """Turn one file into a policy."""

    def __init__(self, file: TomlFile) -> None:
        self.file = file
        self.prefix = ""
        data = file.data
        if file.path.name == "pyproject.toml":
            self.prefix = f"{TABLE}."
            data = _table(data) or {}
        self.data = data

    def fault(
        self, message: str, table: str = "", index: int = 0, key: str = ""
    ) -> Exception:
        name = f"{self.prefix}{table}".rstrip(".")
        return self.file.fault(message, table=name, index=index, key=key)

    def policy(self) -> Policy:
        self.file.check_keys(self.data, _TOP, table=self.prefix.rstrip("."))
        if self.data.get("schema") != 1:
            raise self.fault("schema = 1 is the only schema", key="schema")
        unknown = self.data.get("unknown")
        project = self.data.get("project-license")
        return Policy(
            default_usage=self.usage(
                self.data.get("default-usage", Usage.RUNTIME_INTERNAL), "default-usage"
            ),
            groups=self.usages("groups"),
            extras=self.usages("extras"),
            unknown=None if unknown is None else self.verdict(unknown, "unknown"),
            bundled=self.verdict(self.data.get("bundled", "review"), "bundled"),
            clarifications=tuple(
                self.clarification(index, row)
                for index, row in enumerate(self.rows("clarify", _CLARIFY))
            ),
            exceptions=tuple(
                self.exception(index, row)
                for index, row in enumerate(self.rows("exception", _EXCEPTION))
            ),
            classes=self.classes(),
            project_license=None
            if project is None
            else self.expression(project, "", 0, "project-license"),
            path=str(self.file.path),
        )

    def usage(self, value: object, key: str, table: str = "", index: int = 0) -> Usage:
        try:
            return Usage(str(value))
        except ValueError:
            known = ", ".join(Usage)
            raise self.fault(
                f"{key}: no usage {value!r}: use one of {known}", table, index, key
            ) from None

    def verdict(self, value: object, key: str) -> Verdict:
        try:
            return Verdict(str(value))
        except ValueError:
            raise self.fault(f"{key} is allow, review or deny", key=key) from None

    def usages(self, table: str) -> dict[str, Usage]:
        rows = self.data.get(table, {})
        if not isinstance(rows, dict):
            raise self.fault(f"{table} is a table of usages", key=table)
        return {key: self.usage(value, key, table) for key, value in rows.items()}

    def expression(self, value: object, table: str, index: int, key: str) -> str:
        try:
            return str(parse(value if isinstance(value, str) else ""))
        except ExpressionError as error:
            raise self.fault(f"{key}: {error}", table, index, key) from error

    def classes(self) -> dict[str, LicenseClass]:
        rows = self.data.get("classes", {})
        if not isinstance(rows, dict):
            raise self.fault("classes is a table of classes", key="classes")
        by_slug = {kind.slug: kind for kind in LicenseClass}
        found = {}
        for key, value in rows.items():
            if not key.casefold().startswith("licenseref-"):
                raise self.fault(
                    f"{key}: only LicenseRef- ids take a class of their own; the SPDX "
                    "table is fixed",
                    "classes",
                    0,
                    key,
                )
            if not isinstance(value, str) or value not in by_slug:
                raise self.fault(
                    f"{key}: no class {value!r}: use one of {', '.join(by_slug)}",
                    "classes",
                    0,
                    key,
                )
            found[key.casefold()] = by_slug[value]
        return found

    def rows(self, table: str, keys: tuple[str, ...]) -> list[dict[str, Any]]:
        rows = self.data.get(table, [])
        if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
            raise self.fault(f"write each one as [[{self.prefix}{table}]]", key=table)
        for index, row in enumerate(rows):
            name = f"{self.prefix}{table}"
            self.file.check_keys(row, keys, table=name, index=index)
        return rows

    def text(self, row: dict[str, Any], key: str, table: str, index: int) -> str:
        value = row.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(f"{table} needs {key}, a text", table, index, key)
        return value.strip()

    def version(self, row: dict[str, Any], table: str, index: int) -> str:
        value = row.get("version", "")
        if not isinstance(value, str):
            raise self.fault("version is a text", table, index, "version")
        try:
            _versions.check(value.strip())
        except (ValueError, ImportError) as error:
            message = f"version: {error}"
            raise self.fault(message, table, index, "version") from error
        return value.strip()

    def place(self, table: str, index: int) -> str:
        line = self.file.line(f"{self.prefix}{table}", index)
        return f"{self.file.path}:{line}"

    def clarification(self, index: int, row: dict[str, Any]) -> Clarification:
        version = self.version(row, "clarify", index)
        digest = None
        if "text-sha256" in row or _versions.exact(version) is None:
            digest = row.get("text-sha256")
            if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
                raise self.fault(
                    "clarify needs text-sha256, 64 lower-case hexadecimal digits; "
                    "`lazycore-licensing explain PACKAGE` prints it; a package "
                    "without a licence file is bound to its exact version instead",
                    "clarify",
                    index,
                    "text-sha256",
                )
        return Clarification(
            package=normalize_name(self.text(row, "package", "clarify", index)),
            expression=self.expression(
                row.get("expression"), "clarify", index, "expression"
            ),
            text_sha256=digest,
            version=version,
            line=self.place("clarify", index),
        )

    def exception(self, index: int, row: dict[str, Any]) -> PolicyException:
        table = "exception"
        expires = row.get("expires")
        if not isinstance(expires, dt.date) or isinstance(expires, dt.datetime):
            raise self.fault(
                "an exception needs expires, a date such as 2027-03-31", table, index
            )
        allow = row.get("allow", [])
        usage = row.get("usage", [])
        if not isinstance(allow, list) or not allow or not isinstance(usage, list):
            raise self.fault(
                "an exception needs allow, a list of expressions", table, index, "allow"
            )
        return PolicyException(
            package=normalize_name(self.text(row, "package", table, index)),
            allow=tuple(self.expression(one, table, index, "allow") for one in allow),
            usages=tuple(self.usage(one, "usage", table, index) for one in usage),
            reason=self.text(row, "reason", table, index),
            owner=self.text(row, "owner", table, index),
            expires=expires,
            version=self.version(row, table, index),
            line=self.place(table, index),
        )

"""Read lock files: which packages they pin, and for which use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lazycore.licensing._errors import SourceError
from lazycore.licensing._lock_uv import read_graph
from lazycore.licensing._markers import Marker, normal
from lazycore.licensing._policy import Policy, normalize_name
from lazycore.licensing._requirements import read_requirements
from lazycore.licensing._sources import Package
from lazycore.licensing._toml import TomlFile

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from lazycore.licensing._decision import Usage

MAX_LOCK_BYTES: Final = 64 * 1024 * 1024
_OWN_GROUPS: Final = frozenset(("main", "default"))


class _Lock:
    """One lock file: its rows, their lines, and what each row is used for."""

    def __init__(
        self,
        file: TomlFile,
        rows: list[dict[str, Any]],
        policy: Policy,
        environment: Mapping[str, str] | None,
    ) -> None:
        self.file = file
        self.rows = rows
        self.policy = policy
        self.environment = environment

    def packages(
        self, table: str, usages: Callable[[dict[str, Any]], list[Usage]]
    ) -> list[Package]:
        """Return one package for each name and version, with all of its uses."""
        found: dict[tuple[str, str], Package] = {}
        for row, where in zip(self.rows, self._places(table), strict=True):
            try:
                uses = usages(row)
            except SourceError as error:
                raise SourceError(f"{where}: {error}") from error
            key = normalize_name(row["name"]), str(row.get("version", ""))
            known = found.get(key)  # a row for each extra, or for each platform
            if known is not None:
                uses = [*known.usages, *uses]
            if uses:
                found[key] = Package(
                    name=key[0],
                    version=key[1],
                    usages=tuple(dict.fromkeys(uses)),
                    where=known.where if known else where,
                )
        return [found[key] for key in sorted(found)]

    def _places(self, table: str) -> list[str]:
        path = self.file.path
        lines = self.file.headers(table)
        if len(lines) != len(self.rows):  # rows in inline tables
            return [str(path)] * len(self.rows)
        return [f"{path}:{line}" for line in lines]

    def of_group(self, name: str) -> Usage:
        """Return the use of a dependency group; the project's own when unmapped."""
        if name in _OWN_GROUPS:
            return self.policy.default_usage
        known = {normal(group): usage for group, usage in self.policy.groups.items()}
        return known.get(normal(name), self.of_extra(name))

    def of_extra(self, name: str) -> Usage:
        """Return the use of an extra; the project's own when unmapped."""
        known = {normal(extra): usage for extra, usage in self.policy.extras.items()}
        return known.get(normal(name), self.policy.default_usage)

    def by_marker(self, text: str, base: Usage) -> list[Usage]:
        """Return the uses for which a marker may hold: base, extras, groups."""
        marker = Marker.parse(text)
        place = self.environment
        extras = (*marker.mentioned("extras"), *marker.mentioned("extra"))
        groups = marker.mentioned("dependency_groups")
        uses = [base] if marker.may_hold(environment=place) else []
        uses += [
            self.of_extra(name)
            for name in extras
            if marker.may_hold(extras=(name,), environment=place)
        ]
        uses += [
            self.of_group(name)
            for name in groups
            if marker.may_hold(groups=(name,), environment=place)
        ]
        if not uses and marker.may_hold(extras=None, groups=None, environment=place):
            # Only several together ask for it: it is used as any of them is.
            uses = [*map(self.of_extra, extras), *map(self.of_group, groups)] or [base]
        return uses

    def pylock(self, row: dict[str, Any]) -> list[Usage]:
        """PEP 751: the marker of a package also speaks of extras and groups."""
        marker = row.get("marker")
        if not isinstance(marker, str):
            return [self.policy.default_usage]
        return self.by_marker(marker, self.policy.default_usage)

    def grouped(self, row: dict[str, Any]) -> list[Usage]:
        """Poetry and PDM: groups, and a marker for all or for each group."""
        old = [row["category"]] if "category" in row else ["main"]
        groups = row.get("groups", old)
        markers = row.get("markers", row.get("marker"))
        uses: list[Usage] = []
        for group in groups if isinstance(groups, list) else old:
            usage = self.of_group(str(group))
            text = markers.get(group) if isinstance(markers, dict) else markers
            uses += self.by_marker(text, usage) if isinstance(text, str) else [usage]
        return uses


def read_lock(
    path: str | os.PathLike[str],
    policy: Policy | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> list[Package]:
    r"""Read ``uv.lock``, ``pylock*.toml``, ``poetry.lock``, ``pdm.lock``, requirements.

    Extras and dependency groups become uses by the policy's tables. A package that
    is locked for some platform or Python only counts, unless an environment is given.
    The project's own members are left out.

    Args:
        path: The file; its kind is told by its content, requirements by ``.txt``.
        policy: Which use each group and extra has; every package has the default
            use when None.
        environment: Marker variables, such as from
            ``packaging.markers.default_environment()``: packages whose marker fails
            there are left out. Needs the extra ``versions``.

    Raises:
        SourceError: The file is none of them, or one of its entries can't be read.
        MissingExtraError: ``environment`` without ``packaging``.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lock = Path(folder, "requirements.txt")
        ...     _ = lock.write_text("numpy==2.4.0 --hash=sha256:00\n")
        ...     [(one.name, one.version) for one in read_lock(lock)]
        [('numpy', '2.4.0')]
    """
    place = Path(path)
    rules = policy or Policy()
    if place.suffix in {".txt", ".in"}:
        return read_requirements(place, rules, environment=environment)
    file = TomlFile(place, SourceError, max_bytes=MAX_LOCK_BYTES)
    data = file.data
    table = "packages" if "lock-version" in data else "package"
    rows = data.get(table)
    if not isinstance(rows, list):
        raise SourceError(
            f"{place}: it lists no packages; locks of uv, pip, Poetry, PDM do"
        )
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise SourceError(f"{place}: an entry of {table} has no name")
    lock = _Lock(file, rows, rules, environment)
    own: set[str] = set()
    if table == "packages":
        _check_version(place, data["lock-version"])
        own = {normalize_name(row["name"]) for row in rows if _is_own_folder(row)}
        found = lock.packages(table, lock.pylock)
    elif "metadata" in data:
        found = lock.packages(table, lock.grouped)
    elif "version" in data:
        try:
            graph = read_graph(
                data,
                group_usage=lock.of_group,
                extra_usage=lock.of_extra,
                default=rules.default_usage,
                environment=environment,
            )
        except SourceError as error:
            raise SourceError(f"{place}: {error}") from error
        own = set(graph.members)
        # What nothing leads to is judged all the same, unless it is left out.
        loose = [rules.default_usage] if environment is None else []
        found = lock.packages(
            table, lambda row: graph.usages.get(normalize_name(row["name"]), loose)
        )
    else:
        raise SourceError(f"{place}: no lock of uv, pip, Poetry or PDM")
    return [package for package in found if package.name not in own]


def _check_version(place: Path, version: object) -> None:
    # PEP 751 asks tools to refuse a major version that they don't know.
    if not isinstance(version, str) or not re.fullmatch(r"1\.\d+", version):
        raise SourceError(f"{place}: lock-version {version!r} is not read, only 1.x")


def _is_own_folder(row: dict[str, Any]) -> bool:
    """Tell whether a row is the project itself.

    It is an editable folder or, as pip writes it, the folder of the lock.
    """
    folder = row.get("directory")
    if not isinstance(folder, dict):
        return False
    return folder.get("editable") is True or folder.get("path") in {".", "./"}

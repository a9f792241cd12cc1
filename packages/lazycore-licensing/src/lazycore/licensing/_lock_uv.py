"""Walk the graph of ``uv.lock`` to learn what each package is used for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazycore.licensing._markers import Marker
from lazycore.licensing._policy import normalize_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lazycore.licensing._decision import Usage

# A package, or one of its extras.
_Node = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UvGraph:
    """What a ``uv.lock`` says about its packages.

    Attributes:
        members: Names of the project's own packages.
        usages: Uses by package name; a package that nothing leads to is absent.
    """

    members: frozenset[str]
    usages: Mapping[str, list[Usage]]


def read_graph(
    data: Mapping[str, Any],
    *,
    group_usage: Callable[[str], Usage],
    extra_usage: Callable[[str], Usage],
    default: Usage,
    environment: Mapping[str, str] | None,
) -> UvGraph:
    """Walk the graph of a lock from each member and each of its groups and extras.

    Without an environment every edge counts: a lock is for every platform.

    Raises:
        SourceError: An edge has a marker that can't be read.
        MissingExtraError: An environment is given and ``packaging`` is absent.
    """
    edges = _Edges(environment)
    rows = [row for row in data["package"] if isinstance(row, dict)]
    members = _members(data, rows)
    starts: list[tuple[Usage, list[_Node]]] = []
    for row in rows:
        name = normalize_name(row["name"])
        plain = edges.targets(row.get("dependencies"))
        edges.add((name, ""), plain)
        extras = edges.tables(row.get("optional-dependencies"))
        for extra, listed in extras.items():
            edges.add((name, extra), [(name, ""), *listed])
        if name not in members:
            continue
        starts.append((default, plain))
        starts += [(extra_usage(extra), listed) for extra, listed in extras.items()]
        groups = edges.tables(row.get("dev-dependencies"))
        starts += [(group_usage(group), listed) for group, listed in groups.items()]
    manifest = data.get("manifest")
    if isinstance(manifest, dict):  # a script, or a workspace root that is no package
        starts.append((default, edges.targets(manifest.get("requirements"))))
        groups = edges.tables(manifest.get("dependency-groups"))
        starts += [(group_usage(group), listed) for group, listed in groups.items()]
    usages: dict[str, list[Usage]] = {}
    for usage, nodes in starts:
        for name in edges.reachable(nodes):
            known = usages.setdefault(name, [])
            if usage not in known:
                known.append(usage)
    return UvGraph(members=frozenset(members), usages=usages)


class _Edges:
    """Who needs whom, as far as the markers hold."""

    def __init__(self, environment: Mapping[str, str] | None) -> None:
        self.environment = environment
        self.known: dict[_Node, list[_Node]] = {}

    def add(self, node: _Node, targets: list[_Node]) -> None:
        self.known.setdefault(node, []).extend(targets)

    def targets(self, listed: object) -> list[_Node]:
        """Return the nodes that a list of dependencies points at."""
        found: list[_Node] = []
        for row in listed if isinstance(listed, list) else ():
            if not isinstance(row, dict) or not isinstance(row.get("name"), str):
                continue
            if self.environment is not None and not self._holds(row.get("marker")):
                continue
            name = normalize_name(row["name"])
            extras = row.get("extra", row.get("extras"))
            found.append((name, ""))
            found += [
                (name, extra)
                for extra in (extras if isinstance(extras, list) else ())
                if isinstance(extra, str)
            ]
        return found

    def _holds(self, marker: object) -> bool:
        # uv writes conflicting extras as names of its own; they may hold.
        return not isinstance(marker, str) or Marker.parse(marker).may_hold(
            extras=None, groups=None, environment=self.environment
        )

    def tables(self, tables: object) -> dict[str, list[_Node]]:
        rows = tables if isinstance(tables, dict) else {}
        return {key: self.targets(listed) for key, listed in rows.items()}

    def reachable(self, nodes: Iterable[_Node]) -> dict[str, None]:
        """Return the names of all that the nodes lead to, in a fixed order."""
        work, seen = list(nodes), set()
        names: dict[str, None] = {}
        while work:
            node = work.pop()
            if node in seen:
                continue
            seen.add(node)
            names[node[0]] = None
            work += self.known.get(node, [])
        return names


def _members(data: Mapping[str, Any], rows: list[dict[str, Any]]) -> set[str]:
    manifest = data.get("manifest")
    listed = manifest.get("members") if isinstance(manifest, dict) else None
    if isinstance(listed, list):
        return {normalize_name(name) for name in listed if isinstance(name, str)}
    return {
        normalize_name(row["name"])
        for row in rows
        if isinstance(row.get("source"), dict)
        and {"virtual", "editable"} & set(row["source"])
    }

"""Walk the graph of ``uv.lock`` to learn what each package is used for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.licensing._policy import normalize_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lazycore.licensing._decision import Usage

# A package, or one of its extras.
_Node = tuple[str, str]
_Edges = dict[_Node, list[_Node]]


def uv_usages(
    data: Mapping[str, Any],
    group_usage: Callable[[str], Usage],
    extra_usage: Callable[[str], Usage],
    default: Usage,
) -> tuple[set[str], dict[str, list[Usage]]]:
    """Return the names of the project's own members, and uses by package name.

    Markers on edges are taken as true: a lock is for every platform.
    """
    rows = [row for row in data["package"] if isinstance(row, dict)]
    members = _members(data, rows)
    edges: _Edges = {}
    starts: list[tuple[Usage, list[_Node]]] = []
    for row in rows:
        name = normalize_name(row["name"])
        plain = list(_targets(row.get("dependencies")))
        edges.setdefault((name, ""), []).extend(plain)
        extras = _tables(row.get("optional-dependencies"))
        for extra, listed in extras.items():
            edges.setdefault((name, extra), []).extend([(name, ""), *listed])
        if name not in members:
            continue
        starts.append((default, plain))
        starts += [(extra_usage(extra), listed) for extra, listed in extras.items()]
        groups = _tables(row.get("dev-dependencies"))
        starts += [(group_usage(group), listed) for group, listed in groups.items()]
    manifest = data.get("manifest")
    if isinstance(manifest, dict):  # a script, or a workspace root that is no package
        starts.append((default, list(_targets(manifest.get("requirements")))))
        groups = _tables(manifest.get("dependency-groups"))
        starts += [(group_usage(group), listed) for group, listed in groups.items()]
    usages: dict[str, list[Usage]] = {}
    for usage, nodes in starts:
        for name in _reachable(nodes, edges):
            known = usages.setdefault(name, [])
            if usage not in known:
                known.append(usage)
    return members, usages


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


def _targets(listed: object) -> Iterator[_Node]:
    """Return the nodes that a list of dependencies points at."""
    for row in listed if isinstance(listed, list) else ():
        if isinstance(row, dict) and isinstance(row.get("name"), str):
            name = normalize_name(row["name"])
            yield name, ""
            extras = row.get("extra", row.get("extras"))
            for extra in extras if isinstance(extras, list) else ():
                if isinstance(extra, str):
                    yield name, extra


def _tables(tables: object) -> dict[str, list[_Node]]:
    rows = tables if isinstance(tables, dict) else {}
    return {key: list(_targets(listed)) for key, listed in rows.items()}


def _reachable(nodes: Iterable[_Node], edges: _Edges) -> dict[str, None]:
    """Return the names of everything that the nodes lead to, in a fixed order."""
    work, seen = list(nodes), set()
    names: dict[str, None] = {}
    while work:
        node = work.pop()
        if node in seen:
            continue
        seen.add(node)
        names[node[0]] = None
        work += edges.get(node, [])
    return names

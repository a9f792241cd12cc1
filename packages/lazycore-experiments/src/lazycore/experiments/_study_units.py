"""Read a study's benchmarks: their units, inline or from a file, and their groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazycore.experiments._errors import CanonicalError
from lazycore.experiments._frozen import freeze
from lazycore.experiments._strict_json import parse
from lazycore.experiments._study import Benchmark

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lazycore.experiments._strict_table import StrictTable

__all__ = ["read_benchmarks"]


def read_benchmarks(root: StrictTable, folder: Path | None) -> tuple[Benchmark, ...]:
    """Take the benchmarks of a study document, units and groups from their files.

    Args:
        root: The document.
        folder: Where the files lie; None for a lock, which holds them inline.

    Raises:
        StudyError: Anything is missing, doubled, or in no group or two.
    """
    benchmarks: list[Benchmark] = []
    for table in root.tables("benchmarks"):
        identifier = table.name("id")
        units = _units(table, folder)
        benchmark = Benchmark(
            id=identifier,
            title=table.take("title", str, identifier),
            units=units,
            groups=_groups(table, folder, units),
            block_size=table.number("block_size", int, 1, above=0),
            parameters=table.parameters("parameters"),
        )
        table.done()
        if identifier in {known.id for known in benchmarks}:
            raise table.error("id", f"benchmark {identifier!r} is declared twice")
        benchmarks.append(benchmark)
    if not benchmarks:
        raise root.error("benchmarks", "want at least one [[benchmarks]]")
    return tuple(benchmarks)


def _units(table: StrictTable, folder: Path | None) -> tuple[str, ...]:
    inline = table.array("units", str, ())
    file = table.relative("units_file", "")
    if bool(inline) == bool(file):
        raise table.error("units", "want either 'units' or 'units_file', not empty")
    units = inline
    if file:
        if folder is None:
            raise table.error("units_file", "a lock holds its units inline")
        units = _file(table, "units_file", folder / file)
        if not isinstance(units, list) or not units:
            raise table.error("units_file", f"{file}: want a JSON array of unit ids")
    return tuple(_names(table, "units", units))


def _groups(
    table: StrictTable, folder: Path | None, units: tuple[str, ...]
) -> Mapping[str, tuple[str, ...]]:
    """Take groups of units: together they hold every unit, each in one group."""
    groups: Any = table.take("groups", dict, {})
    file = table.relative("groups_file", "")
    if file:
        if folder is None or groups:
            raise table.error("groups_file", "want either 'groups' or 'groups_file'")
        groups = _file(table, "groups_file", folder / file)
        if not isinstance(groups, dict):
            raise table.error("groups_file", f"{file}: want a JSON object of arrays")
    if not groups:
        return {}
    _names(table, "groups", list(groups))
    found: list[object] = []
    for name, members in groups.items():
        if not isinstance(members, list | tuple) or not members:
            raise table.error("groups", f"{name[:80]!r}: want an array of units")
        found += members
    grouped = _names(table, "groups", found)
    missing = sorted(set(units) - set(grouped))
    unknown = sorted(set(grouped) - set(units))
    if missing or unknown:
        raise table.error(
            "groups",
            f"want every unit in one group; without one: {missing[:5]}, no unit: "
            f"{[name[:80] for name in unknown[:5]]}",
        )
    frozen: Mapping[str, tuple[str, ...]] = freeze(groups)
    return frozen


def _file(table: StrictTable, key: str, path: Path) -> Any:  # its JSON
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise table.error(key, f"{path}: {error.strerror}") from error
    except CanonicalError as error:
        raise table.error(key, f"{path}: {error}") from error


def _names(table: StrictTable, key: str, names: list[Any]) -> list[str]:
    """Return unit or group names that are checked, and each there once."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise table.error(key, f"item {index} is no string")
        if not name.strip() or len(name) > 256 or not name.isprintable():
            raise table.error(key, f"{name[:80]!r}: want 1 to 256 printable characters")
        if name in seen:
            raise table.error(key, f"{name!r} is listed twice; keep one")
        seen.add(name)
    return names

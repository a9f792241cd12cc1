"""The namespace rules that only a built wheel or sdist can break."""

from __future__ import annotations

import configparser
import hashlib
import re
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Built


def declared(built: Built, extra: str | None = None) -> list[str]:
    if extra is None:
        values = built.project.get("dependencies", [])
    else:
        extras = built.project["optional-dependencies"]
        assert isinstance(extras, dict)
        values = extras[extra]
    assert isinstance(values, list)
    return sorted(str(Requirement(value)) for value in values)


def shipped(built: Built, extra: str | None = None) -> list[str]:
    found = []
    for text in built.metadata().get_all("Requires-Dist") or []:
        requirement = Requirement(text)
        marker = str(requirement.marker) if requirement.marker else None
        wanted = None if extra is None else f'extra == "{extra}"'
        if marker == wanted:
            requirement.marker = None
            found.append(str(requirement))
    return sorted(found)


def test_metadata_carries_every_declared_requirement(built: Built) -> None:
    assert shipped(built) == declared(built)
    extras = built.project.get("optional-dependencies", {})
    assert isinstance(extras, dict)
    for extra in extras:
        assert shipped(built, extra) == declared(built, extra)
    total = sum(len(v) for v in extras.values()) + len(declared(built))
    assert len(built.metadata().get_all("Requires-Dist") or []) == total


def test_metadata_names_python_licence_and_namespace(built: Built) -> None:
    metadata = built.metadata()
    assert metadata["Name"] == built.name
    assert SpecifierSet(metadata["Requires-Python"]) == SpecifierSet(">=3.11")
    assert metadata["License-Expression"] == "MIT"
    assert metadata["License-File"] == "LICENSE"
    assert metadata.get_payload(), "the long description is lost"
    if built.name != "lazycore":
        slice_name = built.name.removeprefix("lazycore-")
        assert metadata.get_all("Import-Name") == [f"lazycore.{slice_name}"]
        assert metadata.get_all("Import-Namespace") == ["lazycore"]


def test_wheel_holds_the_slice_and_nothing_else(built: Built) -> None:
    allowed = [f"{built.wheel.name.split('-py3')[0]}.dist-info/"]
    if built.name != "lazycore":
        allowed.append(f"lazycore/{built.name.removeprefix('lazycore-')}/")
    strays = [n for n in built.wheel_names() if not n.startswith(tuple(allowed))]
    assert strays == []


def test_wheel_carries_its_type_marker_and_licence(built: Built) -> None:
    names = built.wheel_names()
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in names)
    if built.name != "lazycore":
        slice_name = built.name.removeprefix("lazycore-")
        assert f"lazycore/{slice_name}/py.typed" in names


def test_wheel_ships_every_tracked_file_of_the_slice(built: Built, root: Path) -> None:
    if built.name == "lazycore":
        return
    source = root / "packages" / built.name / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - set(built.wheel_names()) == set()


def test_wheel_is_pure_python_for_any_platform(built: Built) -> None:
    assert built.wheel.name.endswith("-py3-none-any.whl")


def test_scripts_are_the_declared_ones(built: Built) -> None:
    wanted = built.project.get("scripts", {})
    assert isinstance(wanted, dict)
    names = [n for n in built.wheel_names() if n.endswith("/entry_points.txt")]
    if not wanted:
        assert names == []
        return
    parser = configparser.ConfigParser()
    with zipfile.ZipFile(built.wheel) as archive:
        parser.read_string(archive.read(names[0]).decode())
    assert parser.sections() == ["console_scripts"]
    assert dict(parser["console_scripts"]) == wanted


def test_sdist_carries_the_tests_and_no_links(built: Built, root: Path) -> None:
    members = built.sdist_members()
    assert [m.name for m in members if m.issym() or m.islnk()] == []
    names = {re.sub(r"^[^/]+/", "", m.name) for m in members}
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names
    if built.name == "lazycore":
        return
    tests = root / "tests" / built.name.removeprefix("lazycore-")
    wanted = {
        f"tests/{path.relative_to(tests).as_posix()}" for path in tests.rglob("*.py")
    }
    assert wanted
    assert wanted - names == set()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["lazycore", "lazycore-data"])
def test_wheel_from_source_is_the_wheel_from_the_sdist(
    name: str, root: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d"]
    subprocess.run(
        [*command, str(tmp_path / "out")],
        cwd=root / "packages" / name,
        check=True,
        capture_output=True,
        timeout=60,
    )
    stem = name.replace("-", "_")
    fresh = next((tmp_path / "out").glob("*.whl"))
    built = next((root / "dist").glob(f"{stem}-[0-9]*.whl"))
    assert digest(fresh) == digest(built)


def test_sdist_unpacks_under_the_strict_extraction_filter(
    built: Built, tmp_path: Path
) -> None:
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    assert next(tmp_path.iterdir()).name.startswith(built.name.replace("-", "_"))

"""The namespace rules that hold before anything is built."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SLICES = ("data", "experiments", "licensing", "sandbox", "telemetry")
NAMES = ("lazycore", *(f"lazycore-{name}" for name in SLICES))


def pyproject(name: str) -> dict[str, dict[str, object]]:
    text = (ROOT / "packages" / name / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@pytest.mark.parametrize("name", SLICES)
def test_nothing_lies_in_the_namespace_root_but_the_slice(name: str) -> None:
    namespace = ROOT / "packages" / f"lazycore-{name}" / "src" / "lazycore"
    entries = {entry.name for entry in namespace.iterdir()} - {"__pycache__"}
    assert entries == {name}
    assert [entry.name for entry in namespace.parent.iterdir()] == ["lazycore"]


def test_no_other_folder_is_called_lazycore() -> None:
    allowed = {ROOT / "packages" / "lazycore"} | {
        ROOT / "packages" / f"lazycore-{name}" / "src" / "lazycore" for name in SLICES
    }
    found = {
        path
        for top in ("packages", "tests", "docs", "examples", "benchmarks")
        for path in (ROOT / top).rglob("lazycore")
        if path.is_dir() and "_build" not in path.parts
    }
    assert found - allowed == set()


@pytest.mark.parametrize("name", SLICES)
def test_the_slice_is_typed(name: str) -> None:
    package = ROOT / f"packages/lazycore-{name}/src/lazycore/{name}"
    assert (package / "py.typed").is_file()


def test_all_distributions_carry_one_version() -> None:
    versions = {name: pyproject(name)["project"]["version"] for name in NAMES}
    assert len(set(versions.values())) == 1, versions


def test_meta_package_pins_every_slice_to_that_version() -> None:
    project = pyproject("lazycore")["project"]
    version = project["version"]
    assert project["dependencies"] == [f"lazycore-{n}=={version}" for n in SLICES]


def test_meta_package_has_no_code_no_scripts_no_extras() -> None:
    table = pyproject("lazycore")
    assert {
        "scripts",
        "gui-scripts",
        "entry-points",
        "optional-dependencies",
    }.isdisjoint(table["project"])
    assert "import-names" not in table["project"]
    assert not list((ROOT / "packages/lazycore").rglob("*.py"))


@pytest.mark.parametrize("name", SLICES)
def test_slices_depend_on_slices_by_range_within_the_minor(name: str) -> None:
    project = pyproject(f"lazycore-{name}")["project"]
    major, minor, _ = str(project["version"]).split(".")
    wanted = f">={major}.{minor},<{major}.{int(minor) + 1}"
    dependencies = project["dependencies"]
    assert isinstance(dependencies, list)
    for requirement in dependencies:
        assert not re.match(r"lazycore([^-]|$)", requirement), requirement
        if requirement.startswith("lazycore-"):
            assert requirement.endswith(wanted), requirement


@pytest.mark.parametrize("name", SLICES)
def test_wheel_table_selects_exactly_the_slice(name: str) -> None:
    text = (ROOT / f"packages/lazycore-{name}/pyproject.toml").read_text("utf-8")
    wheel = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"sources": ["src"], "only-include": [f"src/lazycore/{name}"]}


@pytest.mark.parametrize("name", NAMES)
def test_licence_file_is_a_real_copy(name: str) -> None:
    copy = ROOT / "packages" / name / "LICENSE"
    assert not copy.is_symlink()
    assert copy.read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_readme_opens_with_its_import_line(name: str) -> None:
    lines = (ROOT / "packages" / name / "README.md").read_text("utf-8").splitlines()
    assert lines[0] == f"# {name}"
    if name != "lazycore":
        slice_name = name.removeprefix("lazycore-")
        block = "\n".join(lines[1:8])
        assert re.search(rf"```python\n(from|import) lazycore\.{slice_name}\b", block)


@pytest.mark.parametrize("name", NAMES)
def test_supported_pythons_are_declared(name: str) -> None:
    project = pyproject(name)["project"]
    assert project["requires-python"] == ">=3.11"
    classifiers = project["classifiers"]
    assert isinstance(classifiers, list)
    declared = [c.rsplit(" ", 1)[1] for c in classifiers if ":: Python :: 3." in c]
    assert declared == ["3.11", "3.12", "3.13"]


def test_every_script_is_also_a_module_that_runs() -> None:
    for name in SLICES:
        scripts = pyproject(f"lazycore-{name}")["project"].get("scripts", {})
        assert isinstance(scripts, dict)
        package = ROOT / f"packages/lazycore-{name}/src/lazycore/{name}"
        if scripts:
            assert (package / "__main__.py").is_file(), name


@pytest.mark.parametrize("name", SLICES)
def test_init_holds_no_logic(name: str) -> None:
    path = ROOT / f"packages/lazycore-{name}/src/lazycore/{name}/__init__.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    # PEP 562 names (`__getattr__`, `__dir__`) are the one exception: they are how
    # an import stays cheap.
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert functions <= {"__getattr__", "__dir__"}
    allowed = (
        ast.AnnAssign,
        ast.Assign,
        ast.Expr,
        ast.FunctionDef,
        ast.If,
        ast.Import,
        ast.ImportFrom,
    )
    for node in tree.body:
        assert isinstance(node, allowed), ast.dump(node)
        if isinstance(node, ast.If):
            assert isinstance(node.test, ast.Name)
            assert node.test.id == "TYPE_CHECKING"


def test_no_slice_uses_a_name_that_says_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
    found = [
        path
        for path in (ROOT / "packages").rglob("*.py")
        if path.stem.strip("_") in vague
    ]
    assert found == []


@pytest.mark.parametrize("name", SLICES)
def test_no_slice_imports_the_opentelemetry_sdk(name: str) -> None:
    found = []
    for path in (ROOT / f"packages/lazycore-{name}/src").rglob("*.py"):
        if "_demos" in path.parts:
            continue  # a demo plays the application, which chooses whether there is one
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            found += [path for one in names if one.startswith("opentelemetry.sdk")]
    assert found == []


@pytest.mark.parametrize("name", SLICES)
def test_the_version_is_written_in_the_distribution_alone(name: str) -> None:
    project = pyproject(f"lazycore-{name}")["project"]
    own = re.compile(rf"lazycore-{name}[/= \"]+{re.escape(str(project['version']))}")
    assigned = re.compile(rf"VERSION[^=\n]*= \"{re.escape(str(project['version']))}\"")
    found = [
        path
        for path in (ROOT / f"packages/lazycore-{name}/src").rglob("*.py")
        for pattern in (own, assigned)
        if pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []

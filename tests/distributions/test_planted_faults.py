"""Plant each fault that fails silently and see the rule that names it go red.

A check that can't fail proves nothing; these run the real checks, unchanged,
against a copy of the tree or of a wheel that carries one fault.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("packages", "tests", "dist", "LICENSE", "pyproject.toml")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    target = tmp_path / "copy"
    target.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", ".hypothesis")
            shutil.copytree(source, target / name, ignore=ignore)
        else:
            shutil.copy2(source, target / name)
    for name in ("docs", "examples", "benchmarks"):
        (target / name).mkdir()
    return target


def run_checks(copy: Path, *arguments: str, **env: str) -> tuple[int, str]:
    """Run pytest over the copy's own checks and return (exit status, output)."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--config-file={copy / 'pyproject.toml'}",
            f"--rootdir={copy}",
            *arguments,
        ],
        cwd=copy.parent,
        env={k: v for k, v in os.environ.items() if k != "LAZYCORE_SLICE"} | env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def source_checks(copy: Path) -> tuple[int, str]:
    return run_checks(copy, str(copy / "tests/distributions/test_source_tree.py"))


def isolation_checks(copy: Path, name: str) -> tuple[int, str]:
    """Run the isolation checks over a slice of the copy, installed for the run."""
    purelib = Path(sysconfig.get_path("purelib"))
    wheel = next((copy / "dist").glob(f"lazycore_{name}-[0-9]*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        tops = {Path(member).parts[0] for member in archive.namelist()}
        assert not any((purelib / top).exists() for top in tops)
        archive.extractall(purelib)
    try:
        shutil.copytree(
            copy / f"packages/lazycore-{name}/src/lazycore",
            purelib / "lazycore",
            dirs_exist_ok=True,
        )
        return run_checks(
            copy,
            str(copy / "tests/isolation/test_slice_alone.py"),
            # This environment holds what builds wheels as well.
            "-k",
            "not environment_holds_only",
            LAZYCORE_SLICE=name,
        )
    finally:
        for top in tops:
            shutil.rmtree(purelib / top)


def test_untouched_copy_passes(copy: Path) -> None:
    status, output = source_checks(copy)
    assert status == 0, output


def test_stray_namespace_init_is_caught(copy: Path) -> None:
    stray = copy / "packages/lazycore-data/src/lazycore/__init__.py"
    stray.write_text("", encoding="utf-8")
    status, output = source_checks(copy)
    assert status == 1
    assert "test_nothing_lies_in_the_namespace_root_but_the_slice[data]" in output


def test_pin_out_of_step_is_caught(copy: Path) -> None:
    path = copy / "packages/lazycore/pyproject.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("lazycore-sandbox==", "lazycore-sandbox>="), "utf-8")
    status, output = source_checks(copy)
    assert status == 1
    assert "test_meta_package_pins_every_slice_to_that_version" in output


def test_pin_lost_from_the_built_meta_wheel_is_caught(copy: Path) -> None:
    wheel = next((copy / "dist").glob("lazycore-[0-9]*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members.items():
            lines = content.splitlines(keepends=True)
            kept = [x for x in lines if not x.startswith(b"Requires-Dist: lazycore-da")]
            archive.writestr(name, b"".join(kept))
    status, output = run_checks(
        copy, str(copy / "tests/distributions/test_built_files.py"), "-k", "metadata"
    )
    assert status == 1
    assert "test_metadata_carries_every_declared_requirement[lazycore]" in output


def test_untouched_slice_passes_the_isolation_checks(copy: Path) -> None:
    status, output = isolation_checks(copy, "licensing")
    assert status == 0, output


def test_undeclared_sibling_import_is_caught(copy: Path) -> None:
    init = copy / "packages/lazycore-licensing/src/lazycore/licensing/__init__.py"
    text = init.read_text(encoding="utf-8")
    init.write_text(f"{text}\nimport lazycore.telemetry\n", encoding="utf-8")
    status, output = isolation_checks(copy, "licensing")
    assert status == 1
    assert "No module named 'lazycore.telemetry'" in output


def test_heavy_import_at_module_level_is_caught(copy: Path) -> None:
    # A stand-in that costs nothing to install; the check goes by name.
    stand_in = Path(sysconfig.get_path("purelib")) / "pandas.py"
    stand_in.write_text("", encoding="utf-8")
    init = copy / "packages/lazycore-licensing/src/lazycore/licensing/__init__.py"
    text = init.read_text(encoding="utf-8")
    init.write_text(f"{text}\nimport pandas\n", encoding="utf-8")
    try:
        status, output = isolation_checks(copy, "licensing")
    finally:
        stand_in.unlink()
    assert status == 1
    assert "test_import_is_silent_and_touches_nothing" in output
    assert "assert ['pandas'] == []" in output


def test_file_opened_at_import_is_caught(copy: Path) -> None:
    init = copy / "packages/lazycore-licensing/src/lazycore/licensing/__init__.py"
    text = init.read_text(encoding="utf-8")
    init.write_text(f"{text}\nopen('/etc/hostname').close()\n", encoding="utf-8")
    status, output = isolation_checks(copy, "licensing")
    assert status == 1
    assert "open /etc/hostname" in output

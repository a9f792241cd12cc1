"""Executors shared by the tests, and a way to run a script as a plain user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lazycore.sandbox
from lazycore.sandbox import (
    BaseSandboxExecutor,
    Guarantee,
    LandlockSandboxExecutor,
    LinuxNamespaceSandboxExecutor,
)

PackageRoot = Path(next(iter(lazycore.sandbox.__path__))).parents[1]
RunScript = Callable[..., subprocess.CompletedProcess[str]]


def _available(backend: type[BaseSandboxExecutor]) -> None:
    report = backend.probe_for(frozenset())
    if not report.available:
        pytest.skip(f"the backend {backend.name} cannot run here: {report.reason}")


@pytest.fixture(scope="session")
def namespace_executor() -> Iterator[LinuxNamespaceSandboxExecutor]:
    _available(LinuxNamespaceSandboxExecutor)
    with LinuxNamespaceSandboxExecutor() as executor:
        yield executor


@pytest.fixture(scope="session")
def landlock_executor() -> Iterator[LandlockSandboxExecutor]:
    _available(LandlockSandboxExecutor)
    degraded = {
        Guarantee.FS_METADATA,
        Guarantee.PROCESSES,
        Guarantee.DENY_IN_ALLOW,
        Guarantee.EXEC_LIST,
    }
    with LandlockSandboxExecutor(allow_degraded=degraded) as executor:
        yield executor


@pytest.fixture(params=["linux-namespace", "landlock"])
def executor(request: pytest.FixtureRequest) -> BaseSandboxExecutor:
    """Give each Linux backend in turn."""
    name = {
        "linux-namespace": "namespace_executor",
        "landlock": "landlock_executor",
    }[request.param]
    chosen: BaseSandboxExecutor = request.getfixturevalue(name)
    return chosen


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a directory whose path goes through no symbolic link."""
    return tmp_path.resolve()


def _plain_interpreter() -> str | None:
    """Find a Python 3.11 or later that the user nobody may start."""
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    for candidate in (sys.executable, shutil.which("python3", path="/usr/bin")):
        if not candidate:
            continue
        try:
            done = subprocess.run(
                [candidate, "-I", "-c", check],
                user="nobody",
                group=pwd.getpwnam("nobody").pw_gid,
                extra_groups=[],
                cwd="/",
                capture_output=True,
                check=False,
            )
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    return None


@pytest.fixture(scope="session")
def as_plain_user() -> RunScript:
    """Run a script as a user without privileges, whoever runs the tests."""
    interpreter = sys.executable if os.geteuid() else _plain_interpreter()
    if interpreter is None or not os.access(PackageRoot, os.R_OK):
        pytest.skip("no Python that a plain user can start")

    def run(
        script: str, *words: str, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        nobody = pwd.getpwnam("nobody")
        root = os.geteuid() == 0
        return subprocess.run(
            [interpreter, "-B", "-c", textwrap.dedent(script), *words],
            env={"PYTHONPATH": str(PackageRoot), "PATH": "/usr/bin:/bin"},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            user=nobody.pw_uid if root else None,
            group=nobody.pw_gid if root else None,
            extra_groups=[] if root else None,
        )

    return run

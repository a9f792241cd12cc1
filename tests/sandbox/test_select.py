"""Backends are chosen by what they guarantee, and refusals say what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, ClassVar

import pytest

import lazycore.sandbox
from lazycore.sandbox import (
    BackendReport,
    BaseSandboxExecutor,
    Guarantee,
    ResourceLimits,
    SandboxBackendUnavailableError,
    SandboxPolicy,
    _select,
    diagnose,
    get_default_executor,
    required_guarantees,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_each_backend_reports_itself() -> None:
    reports = diagnose()
    assert reports
    for report in reports:
        assert report.available or (report.reason and not report.guarantees)


def test_the_strongest_backend_that_holds_is_chosen() -> None:
    with get_default_executor() as executor:
        held = executor.probe_for(frozenset()).guarantees
        assert required_guarantees(SandboxPolicy()) <= held


@pytest.mark.once
@pytest.mark.parametrize("spelled", ["dots", "link"])
def test_however_the_interpreter_is_spelled_the_same_backends_run(
    folder: Path, spelled: str
) -> None:
    package = os.path.dirname(os.path.dirname(lazycore.sandbox.__path__[0]))
    real = os.path.realpath(sys.executable)
    if spelled == "dots":
        # sys.executable then leads through directories that no run sees.
        started = os.path.relpath(real, folder)
    else:
        started = "./python"
        (folder / "python").symlink_to(real)
    script = (
        "from lazycore.sandbox import *\n"
        "from lazycore.sandbox._system import interpreter\n"
        "print(interpreter())\n"
        "print([each.backend for each in diagnose() if each.available])\n"
    )
    done = subprocess.run(
        [started, "-c", script],
        cwd=folder,
        env={"PYTHONPATH": package},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    followed, available = done.stdout.splitlines()
    assert ".." not in followed
    assert os.path.realpath(followed) == real
    assert available == str([each.backend for each in diagnose() if each.available])


@pytest.mark.parametrize(
    ("policy", "guarantee"),
    [
        (SandboxPolicy(), Guarantee.NO_NETWORK),
        (SandboxPolicy(), Guarantee.NO_UNIX_SOCKET),
        (SandboxPolicy(), Guarantee.PROCESSES),
        (SandboxPolicy(denied_paths=["/x"]), Guarantee.DENY_IN_ALLOW),
        (SandboxPolicy(allowed_executables=[]), Guarantee.EXEC_LIST),
        (SandboxPolicy(limits=ResourceLimits(memory_bytes=1)), Guarantee.MEMORY),
        (SandboxPolicy(limits=ResourceLimits(cpu_s=1)), Guarantee.CPU),
        (SandboxPolicy(limits=ResourceLimits(workspace_bytes=1)), Guarantee.DISK),
    ],
)
def test_a_policy_needs_what_it_says(
    policy: SandboxPolicy, guarantee: Guarantee
) -> None:
    assert guarantee in required_guarantees(policy)


def test_what_a_policy_opens_it_does_not_need_closed() -> None:
    policy = SandboxPolicy(
        allow_network=True,
        allow_unix_sockets=True,
        limits=ResourceLimits(processes=None),
    )
    assert not required_guarantees(policy) & {
        Guarantee.NO_NETWORK,
        Guarantee.NO_UNIX_SOCKET,
        Guarantee.PROCESSES,
    }


class _Weak(BaseSandboxExecutor):
    """A backend of this test: it holds little and says so."""

    name: ClassVar[str] = "weak"

    @classmethod
    def probe(cls) -> BackendReport:
        return BackendReport(
            backend=cls.name,
            available=True,
            guarantees=frozenset(Guarantee) - {Guarantee.FS_METADATA},
        )

    def _run(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        raise AssertionError(args, kwargs)


class _Absent(_Weak):
    name: ClassVar[str] = "absent"

    @classmethod
    def probe(cls) -> BackendReport:
        return BackendReport(
            backend=cls.name,
            available=False,
            reason="the kernel says no",
            remedy="say yes",
        )


def test_a_weaker_backend_is_offered_and_never_taken_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_select, "backends", lambda: (_Absent, _Weak))
    with pytest.raises(SandboxBackendUnavailableError) as caught:
        get_default_executor()
    text = str(caught.value)
    for part in ("the kernel says no", "say yes", "weak: lacks fs-metadata"):
        assert part in text
    assert "allow_degraded={Guarantee.FS_METADATA}" in text
    chosen = get_default_executor(allow_degraded={Guarantee.FS_METADATA})
    assert isinstance(chosen, _Weak)
    assert chosen.allow_degraded == {Guarantee.FS_METADATA}


def test_a_system_without_backends_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_select, "_SYSTEM", "plan9")
    with pytest.raises(SandboxBackendUnavailableError, match="no backend exists"):
        get_default_executor()


def test_a_misspelt_guarantee_is_no_guarantee() -> None:
    with pytest.raises(ValueError, match="fs-metdata"):
        get_default_executor(allow_degraded=["fs-metdata"])  # type: ignore[list-item]


def test_every_public_name_resolves_and_is_listed() -> None:
    assert lazycore.sandbox.__all__ == sorted(lazycore.sandbox.__all__)
    for name in lazycore.sandbox.__all__:
        assert getattr(lazycore.sandbox, name) is not None
    assert set(lazycore.sandbox._HOMES) == set(lazycore.sandbox.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lazycore.sandbox.no_such_name


def test_importing_loads_nothing_of_the_mechanism() -> None:
    script = (
        "import sys, lazycore.sandbox as s\n"
        "print([m for m in ('ctypes', 'asyncio', 'socket', 'subprocess', 'json') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"

"""The attack corpus, run live against every backend of this host.

A row that cannot run is broken and fails: it is never taken for a refusal. And the
corpus itself is held to account: without a sandbox its rows do get through.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from lazycore.sandbox import BaseSandboxExecutor, Guarantee
from lazycore.sandbox._attacks import _siblings
from lazycore.sandbox._attacks._attack import Inside, Outcome, row
from lazycore.sandbox._attacks._corpus import (
    CORPUS,
    Finding,
    run_attack,
    run_corpus,
)
from lazycore.sandbox._attacks._stage import Stage
from lazycore.sandbox._guarantees import BackendReport
from lazycore.sandbox._linux._cgroup_tree import places
from lazycore.sandbox._result import SandboxResult
from lazycore.sandbox._select import backends

if TYPE_CHECKING:
    from lazycore.sandbox._executor import Order
    from lazycore.sandbox._preflight import CheckedPolicy

BACKENDS = [backend.name for backend in backends()]
Findings = dict[tuple[str, str], Finding]

# What gets through knowingly, and why: the README lists these.
RESIDUALS = {
    "linux-namespace": {"28"},
    "bubblewrap": {
        *("25", "26", "27"),  # exec-list
        "28",  # by design
        *(() if "memory" in places()[0] else ("69", "69b")),  # memory
        "70b",  # disk
        # Processes: only a group limits root's.
        *(() if os.geteuid() or "pids" in places()[0] else ("68",)),
    },
    "landlock": {
        *("02", "06", "06b", "06c", "06d", "17b"),  # fs-metadata
        *("12", "12b"),  # deny-in-allow
        *("25", "26"),  # exec-list
        "28",  # by design
        *(() if "pids" in places()[0] else ("68",)),  # processes
    },
}


class PlainExecutor(BaseSandboxExecutor):
    """No sandbox at all: the control that shows what an attack does unhindered."""

    name: ClassVar[str] = "plain"

    @classmethod
    def probe(cls) -> BackendReport:
        everything = frozenset(Guarantee)
        return BackendReport(backend="plain", available=True, guarantees=everything)

    def _run(
        self, argv: tuple[str, ...], checked: CheckedPolicy, order: Order
    ) -> SandboxResult:
        read, write = os.pipe()
        boot = (
            "import os,sys;fd=int(sys.argv[1]);os.dup2(fd,3);fd == 3 or os.close(fd);"
            "os.execv(sys.argv[2],sys.argv[2:])"
        )
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", boot, str(write), *argv],
            env={**os.environ, **checked.policy.env},
            pass_fds=[write],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            os.close(write)
            reply = os.read(read, 1 << 16)
            os.close(read)
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
        return SandboxResult(
            argv=argv,
            backend="plain",
            returncode=process.returncode,
            stdout=stdout,
            stderr=stderr,
            reply=reply,
            duration_s=time.monotonic() - order.started,
        )


def gather(backend: type[BaseSandboxExecutor], into: Findings) -> None:
    with backend(allow_degraded=frozenset(Guarantee)) as engine:
        if engine.probe().available:
            for finding in run_corpus(engine):
                into[backend.name, finding.attack.id] = finding


@pytest.fixture(scope="module")
def findings() -> Findings:
    """Run the corpus against every backend, all of them at once."""
    found: Findings = {}
    threads = [
        threading.Thread(target=gather, args=(backend, found)) for backend in backends()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def of_backend(findings: Findings, backend: str) -> list[Finding]:
    found = [each for (name, _), each in findings.items() if name == backend]
    if not found:
        pytest.skip(f"the backend {backend} cannot run here")
    return found


@pytest.mark.once
@pytest.mark.parametrize("attack", [attack.id for attack in CORPUS])
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_backend_promises_to_stop_is_stopped(
    findings: Findings, backend: str, attack: str
) -> None:
    of_backend(findings, backend)
    finding = findings[backend, attack]
    assert not finding.breach, (finding.attack.name, finding.verdict.detail)


@pytest.mark.once
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_residuals_are_the_documented_ones(
    findings: Findings, backend: str
) -> None:
    found = of_backend(findings, backend)
    assert {each.attack.id for each in found if each.residual} == RESIDUALS[backend]


@pytest.mark.once
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_outlives_the_corpus(findings: Findings, backend: str) -> None:
    of_backend(findings, backend)
    left = [
        pid
        for pid in filter(str.isdigit, os.listdir("/proc"))
        if b"def attack():" in _cmdline(pid)
    ]
    # Those of another test session on this machine end soon; survivors would not.
    end = time.monotonic() + 30
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left = [pid for pid in left if b"def attack():" in _cmdline(pid)]
    assert left == []


def _cmdline(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


CONTROLS = [attack for attack in CORPUS if attack.works_unconfined]


@pytest.fixture(scope="module")
def unconfined() -> dict[str, Finding]:
    with Stage() as stage, PlainExecutor() as engine:
        return {attack.id: run_attack(attack, stage, engine) for attack in CONTROLS}


@pytest.mark.once
@pytest.mark.parametrize("attack", CONTROLS, ids=lambda attack: attack.id)
def test_without_a_sandbox_the_row_gets_through(
    unconfined: dict[str, Finding], attack: object
) -> None:
    finding = unconfined[attack.id]  # type: ignore[attr-defined] # an Attack
    if finding.verdict.outcome is Outcome.ABSENT:
        pytest.skip(f"this host lacks what the row needs: {finding.verdict.detail}")
    assert finding.verdict.outcome is Outcome.THROUGH, finding.verdict.detail


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("def attack():\n    return 'loot'\n", Outcome.THROUGH),
        ("def attack():\n    raise PermissionError\n", Outcome.HELD),
        ("def attack():\n    return ''\n", Outcome.HELD),
        ("def attack():\n    raise Absent('x')\n", Outcome.ABSENT),
        ("def attack():\n    undefined\n", Outcome.BROKEN),
        ("syntax error", Outcome.BROKEN),
        ("def attack():\n    os._exit(0)\n", Outcome.BROKEN),
        ("def attack():\n    os.write(3, b'garbage'); os._exit(0)\n", Outcome.BROKEN),
        ("def attack():\n    write(a['shown'] + '/file')\n", Outcome.THROUGH),
        ("def attack():\n    os.unlink(a['secret'])\n", Outcome.THROUGH),
        ("def attack():\n    os.kill(a['victim'], 9)\n", Outcome.THROUGH),
    ],
)
def test_an_attack_is_judged_by_what_it_did(body: str, outcome: Outcome) -> None:
    attack = row("00", "a test", "-", (), Inside(body=body))
    with Stage() as stage, PlainExecutor() as engine:
        finding = run_attack(attack, stage, engine)
    assert finding.verdict.outcome is outcome
    assert finding.breach == (outcome in {Outcome.THROUGH, Outcome.BROKEN})


@pytest.mark.parametrize("place", ["/tmp", "own"])
def test_what_a_run_leaves_behind_would_be_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    for name in ("HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(folder))
    look = Inside(body=_siblings._LOOK)
    with Stage() as stage, PlainExecutor() as engine:
        assert look(stage, engine).outcome is Outcome.HELD
        left = Path(folder if place == "own" else place, f"lazycore-{stage.token[:12]}")
        left.touch()
        try:
            assert look(stage, engine).outcome is Outcome.THROUGH
        finally:
            left.unlink()


def test_without_a_sandbox_a_run_beside_is_reached(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(folder))
    with Stage() as stage, PlainExecutor() as engine:
        verdict = _siblings.beside_another(stage, engine)
    assert verdict.outcome is Outcome.THROUGH
    assert "its process" in verdict.detail


def test_an_attack_that_raises_is_broken() -> None:
    def explode(stage: Stage, engine: BaseSandboxExecutor) -> object:
        del stage, engine
        raise RuntimeError("bug")

    attack = row("00", "a test", "-", (), explode)  # type: ignore[arg-type] # never returns
    with Stage() as stage, PlainExecutor() as engine:
        finding = run_attack(attack, stage, engine)
    assert finding.breach
    assert "bug" in finding.verdict.detail


def test_the_ids_are_unique_and_every_row_says_what_stops_it() -> None:
    ids = [attack.id for attack in CORPUS]
    assert len(set(ids)) == len(ids) > 100
    for attack in CORPUS:
        assert attack.mechanism
        assert attack.expected in {"refused", "contained", "by design"}
        assert bool(attack.reason) == (attack.expected == "by design")

"""A session on a backend that keeps no server: the same promises, no warmth."""

from __future__ import annotations

import operator
import threading
import time
from typing import TYPE_CHECKING

import pytest

from lazycore.sandbox import (
    BubblewrapSandboxExecutor,
    Guarantee,
    SandboxCallableError,
    SandboxError,
    SandboxLaunchError,
    SandboxLostError,
    SandboxPolicy,
    SandboxPolicyError,
    SandboxSession,
    SandboxTimeoutError,
)
from lazycore.sandbox._fresh_session import FreshSession

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def backend() -> Iterator[BubblewrapSandboxExecutor]:
    report = BubblewrapSandboxExecutor.probe()
    if not report.available:
        pytest.skip(f"the backend bubblewrap cannot run here: {report.reason}")
    degraded = {Guarantee.PROCESSES, Guarantee.SURVIVES_ROOT}
    with BubblewrapSandboxExecutor(allow_degraded=degraded) as executor:
        yield executor


def test_calls_and_commands_run_apart_under_one_policy(
    backend: BubblewrapSandboxExecutor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "lazycore_fresh_state.py").write_text(
        "import os\ncount = 0\n"
        "def bump():\n    global count\n    count += 1\n"
        "    return [count, sorted(filter(str.isdigit, os.listdir('/proc')))]\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    bump = __import__("lazycore_fresh_state").bump
    (folder / "lazycore_only_preloaded.py").write_text("VALUE = 7\n")
    policy = SandboxPolicy(allowed_read_paths=[folder])
    with SandboxSession(
        policy, backend, preload=["lazycore_only_preloaded"], path=[folder]
    ) as session:
        assert isinstance(session._engine, FreshSession)
        assert session.executor is backend
        first, second = (session.run_callable(bump).value for _ in range(2))
        assert first == second
        assert isinstance(first, list)
        assert first[0] == 1
        loaded = "'lazycore_only_preloaded' in __import__('sys').modules"
        known = session.run_callable(eval, loaded)
        assert known.value is True
        assert session.run_command(["cat"], input=b"in").stdout == b"in"
    backend.run_command(["true"], policy).check()


def test_a_module_that_cannot_be_imported_is_told_when_the_session_opens(
    backend: BubblewrapSandboxExecutor, folder: Path
) -> None:
    (folder / "lazycore_broken.py").write_text("raise RuntimeError('broken here')\n")
    policy = SandboxPolicy(allowed_read_paths=[folder])
    with pytest.raises(SandboxLaunchError, match="broken here"):
        SandboxSession(policy, backend, preload=["lazycore_broken"], path=[folder])
    with pytest.raises(SandboxLaunchError, match="lazycore_nowhere"):
        SandboxSession(policy, backend, preload=["lazycore_nowhere"])
    missing = SandboxPolicy(allowed_read_paths=[folder / "no"])
    with pytest.raises(SandboxPolicyError):
        SandboxSession(missing, backend)


def test_a_call_over_its_time_or_killed_leaves_the_session_usable(
    backend: BubblewrapSandboxExecutor,
) -> None:
    with SandboxSession(SandboxPolicy(timeout_s=3), backend) as session:
        with pytest.raises(SandboxTimeoutError):
            session.run_callable(time.sleep, 60)
        with pytest.raises(SandboxCallableError, match="signal 9"):
            session.run_callable(exec, "import os; os.kill(os.getpid(), 9)")
        assert session.run_callable(abs, -2).value == 2


def test_closing_a_session_ends_its_calls_and_leaves_the_executor(
    backend: BubblewrapSandboxExecutor, folder: Path
) -> None:
    policy = SandboxPolicy(allowed_write_paths=[folder])
    session = SandboxSession(policy, backend)
    raised: list[type[BaseException]] = []

    def run() -> None:
        try:
            session.run_command(["sh", "-c", f"touch {folder}/up; sleep 60"])
        except SandboxError as error:
            raised.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    end = time.monotonic() + 20
    while not (folder / "up").exists() and time.monotonic() < end:
        time.sleep(0.01)
    session.close()
    session.close()
    thread.join(20)
    assert raised == [SandboxLostError]
    with pytest.raises(SandboxError, match="closed"):
        session.run_callable(operator.add, 1, 1)
    assert backend.run_callable(operator.add, SandboxPolicy(), (1, 1)).value == 2

"""Nothing survives: not a run, not its caller, not a launcher, not a leak."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lazycore.sandbox import (
    Guarantee,
    LandlockSandboxExecutor,
    LinuxNamespaceSandboxExecutor,
    SandboxError,
    SandboxLostError,
    SandboxPolicy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.sandbox._linux._native import NativeExecutor

BACKENDS: dict[str, type[NativeExecutor]] = {
    "linux-namespace": LinuxNamespaceSandboxExecutor,
    "landlock": LandlockSandboxExecutor,
}


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> type[NativeExecutor]:
    chosen: type[NativeExecutor] = BACKENDS[request.param]
    report = chosen.probe_for(frozenset())
    if not report.available:
        pytest.skip(f"the backend {chosen.name} cannot run here: {report.reason}")
    return chosen


def marked(mark: str) -> list[int]:
    """Return the host's processes whose arguments hold a mark."""
    found = []
    for name in os.listdir("/proc"):
        try:
            words = (
                Path(f"/proc/{name}/cmdline").read_bytes() if name.isdigit() else b""
            )
        except OSError:
            continue
        if mark.encode() in words and int(name) != os.getpid():
            found.append(int(name))
    return found


def wait_until(condition: Callable[[], bool], *, limit_s: float = 20) -> bool:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def launcher_pid(executor: NativeExecutor) -> int:
    owned = executor._launcher._owned
    assert owned is not None
    return int(owned.process.pid)


def open_executor(backend: type[NativeExecutor]) -> NativeExecutor:
    return backend(allow_degraded=frozenset(Guarantee))


@pytest.mark.once
def test_a_killed_launcher_is_replaced_for_the_next_run(
    backend: type[NativeExecutor],
) -> None:
    with open_executor(backend) as executor:
        executor.run_command(["true"], SandboxPolicy())
        for _ in range(2):
            first = launcher_pid(executor)
            os.kill(first, signal.SIGKILL)
            assert executor.run_command(["true"], SandboxPolicy()).returncode == 0
            assert launcher_pid(executor) != first


@pytest.mark.once
def test_a_launcher_killed_during_a_run_takes_the_run_with_it(
    backend: type[NativeExecutor],
) -> None:
    mark = f"60.{random.randrange(10**9)}"
    failed: list[BaseException] = []

    def run(executor: NativeExecutor) -> None:
        try:
            executor.run_command(["sh", "-c", f"sleep {mark} & wait"], SandboxPolicy())
        except SandboxError as error:
            failed.append(error)

    with open_executor(backend) as executor:
        thread = threading.Thread(target=run, args=(executor,))
        thread.start()
        assert wait_until(lambda: len(marked(f"sleep\0{mark}")) == 1)
        os.kill(launcher_pid(executor), signal.SIGKILL)
        thread.join(20)
        assert not thread.is_alive()
        assert not failed or isinstance(failed[0], SandboxLostError)
        assert wait_until(lambda: not marked(mark))


@pytest.mark.once
def ancestry(pid: int, *, up_to: int) -> list[int]:
    """Return a process's ancestors, the nearest first, up to one of them."""
    found: list[int] = []
    while pid != up_to:
        text = Path(f"/proc/{pid}/stat").read_text()
        pid = int(text.rpartition(")")[2].split()[1])
        found.append(pid)
    return found


@pytest.mark.parametrize("spared", [None, 0, 1])
def test_whichever_of_our_processes_are_killed_at_once_the_run_ends(
    backend: type[NativeExecutor], spared: int | None
) -> None:
    mark = f"60.{random.randrange(10**9)}"
    script = f"setsid sleep {mark} & (setsid sh -c 'sleep {mark} & wait' &) ; wait"
    with open_executor(backend) as executor:
        thread = threading.Thread(
            target=lambda: _quiet(
                lambda: executor.run_command(["sh", "-c", script], SandboxPolicy())
            )
        )
        thread.start()
        assert wait_until(lambda: len(marked(f"sleep\0{mark}")) == 2)
        shell = next(pid for pid in marked(script))
        ours = ancestry(shell, up_to=launcher_pid(executor))
        if spared is not None:
            del ours[spared]
        elif backend is LandlockSandboxExecutor:
            # Of three one must be left: the kernel has no object that would do it.
            ours.pop()
        # Stopped first, so that none can act between two of the signals.
        for how in (signal.SIGSTOP, signal.SIGKILL):
            for pid in ours:
                # A guardian ends a slot that it sees stopped.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
        assert wait_until(lambda: not marked(mark))
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.once
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGUSR1, signal.SIGKILL])
def test_a_signal_to_a_slot_without_namespaces_ends_its_run(
    how: signal.Signals,
) -> None:
    # While the thread that started it lives, a target can send one: a stopped slot
    # would hold no limit.
    mark = f"60.{random.randrange(10**9)}"
    lost = []
    with open_executor(LandlockSandboxExecutor) as executor:

        def run() -> None:
            with pytest.raises(SandboxLostError):
                executor.run_command(["sleep", mark], SandboxPolicy(timeout_s=60))
            lost.append(True)

        thread = threading.Thread(target=run)
        thread.start()
        assert wait_until(lambda: len(marked(f"sleep\0{mark}")) == 1)
        slot = ancestry(marked(mark)[0], up_to=launcher_pid(executor))[0]
        os.kill(slot, how)
        thread.join(10)
        assert lost
        assert not marked(mark)
        after = executor.run_command(["echo", "on"], SandboxPolicy())
        assert after.stdout == b"on\n"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_caller_that_dies_takes_its_runs_with_it(
    backend: type[NativeExecutor], how: signal.Signals
) -> None:
    mark = f"60.{random.randrange(10**9)}"
    script = f"""
        from lazycore.sandbox import *
        from lazycore.sandbox import Guarantee
        executor = {backend.__name__}(allow_degraded=frozenset(Guarantee))
        executor.run_command(["sh", "-c", "setsid sleep {mark} & sleep {mark}"],
                             SandboxPolicy())
    """
    caller = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])
    try:
        assert wait_until(lambda: len(marked(f"sleep\0{mark}")) == 2)
    finally:
        caller.send_signal(how)
        caller.wait()
    assert wait_until(lambda: not marked(mark))


@pytest.mark.once
@pytest.mark.parametrize("end", ["normal", "timeout"])
def test_a_chain_of_forks_ends_with_the_run(
    backend: type[NativeExecutor], end: str
) -> None:
    # No list of children ever holds the one that lives: it has forked and is gone.
    mark = f"60.{random.randrange(10**9)}"
    code = (
        "import os, sys, time\n"
        "if os.fork():\n"
        f"    time.sleep({60 if end == 'timeout' else 0.1})\n"
        "    os._exit(0)\n"
        "while True:\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        "    os.setsid()\n"
    )
    policy = SandboxPolicy(timeout_s=0.5 if end == "timeout" else 60)
    with open_executor(backend) as executor:
        argv = [sys.executable, "-I", "-S", "-B", "-c", code, mark]
        result = executor.run_command(argv, policy)
    assert result.timed_out == (end == "timeout")
    assert not marked(mark)


@pytest.mark.once
def test_closing_ends_what_still_runs(backend: type[NativeExecutor]) -> None:
    mark = f"60.{random.randrange(10**9)}"
    executor = open_executor(backend)

    def run() -> None:
        with pytest.raises(SandboxError):
            executor.run_command(["sh", "-c", f"exec sleep {mark}"], SandboxPolicy())

    thread = threading.Thread(target=lambda: _quiet(run))
    thread.start()
    assert wait_until(lambda: len(marked(f"sleep\0{mark}")) == 1)
    executor.close()
    thread.join(20)
    assert not thread.is_alive()
    assert not marked(mark)


def _quiet(work: Callable[[], object]) -> None:
    try:
        work()
    except BaseException:  # noqa: BLE001 - the run may end as a result instead
        return


@pytest.mark.once
def test_an_executor_that_is_dropped_ends_its_launcher(
    backend: type[NativeExecutor],
) -> None:
    executor = open_executor(backend)
    executor.run_command(["true"], SandboxPolicy())
    pid = launcher_pid(executor)
    del executor
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.once
def test_an_interrupt_ends_the_run(backend: type[NativeExecutor]) -> None:
    mark = f"60.{random.randrange(10**9)}"
    with open_executor(backend) as executor:
        executor.run_command(["true"], SandboxPolicy())
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))

        def interrupted() -> None:
            timer.start()  # in here: a starved thread may be interrupted at once
            executor.run_command(["sh", "-c", f"sleep {mark} & wait"], SandboxPolicy())

        # A shell starts background jobs with the interrupt ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                interrupted()
            timer.join()
        finally:
            signal.signal(signal.SIGINT, before)
        assert wait_until(lambda: not marked(f"sleep\0{mark}"))
        assert executor.run_command(["true"], SandboxPolicy()).returncode == 0


_SPOILT_CALLER = """
import operator, signal
from lazycore.sandbox import *
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
script = "grep -E 'SigBlk|SigIgn' /proc/self/status; (sleep 0.01; exit 3)"
policy = SandboxPolicy(timeout_s=20)
classes = (
    LinuxNamespaceSandboxExecutor, LandlockSandboxExecutor, BubblewrapSandboxExecutor
)
for backend in classes:
    with backend(allow_degraded=frozenset(Guarantee)) as executor:
        if not executor.is_available():
            continue
        result = executor.run_command(["sh", "-c", script], policy)
        words = result.stdout_text.split()
        # glibc ignores 32 and 33 in what posix_spawn starts.
        ignored = {int(word, 16) & ~(0b11 << 31) for word in words[1::2]}
        with SandboxSession(policy, executor) as session:
            three = session.run_callable(operator.add, 1, 2).value
        print(backend.name, result.returncode, ignored - {0}, three)
"""


@pytest.mark.once
def test_a_caller_that_ignores_and_blocks_signals_is_served_like_any_other(
    backend: type[NativeExecutor],
) -> None:
    words = [sys.executable, "-c", _SPOILT_CALLER]
    told = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    lines = told.stdout.splitlines()
    assert backend.name in told.stdout
    assert all(line.endswith(" 3 set() 3") for line in lines), told.stdout


@pytest.mark.parametrize(
    ("method", "name"), [("spawn", "landlock"), ("forkserver", "linux-namespace")]
)
def test_multiprocessing_children_run_sandboxes(
    method: str, name: str, folder: Path
) -> None:
    backend = BACKENDS[name]
    if not backend.is_available():
        pytest.skip(f"the backend {name} cannot run here: see its report")
    script = folder / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing
            from lazycore.sandbox import *
            def work(_):
                degraded = frozenset(Guarantee)
                with {backend.__name__}(allow_degraded=degraded) as executor:
                    argv = ["sh", "-c", "exit 5"]
                    return executor.run_command(argv, SandboxPolicy()).returncode
            if __name__ == "__main__":
                with multiprocessing.get_context({method!r}).Pool(2) as pool:
                    print(pool.map(work, range(3)))
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "[5, 5, 5]\n", done.stderr


def test_a_forked_caller_gets_a_launcher_of_its_own(
    backend: type[NativeExecutor],
) -> None:
    with open_executor(backend) as executor:
        executor.run_command(["true"], SandboxPolicy())
        parent = launcher_pid(executor)
        pid = os.fork()
        if not pid:
            status = 1
            try:
                result = executor.run_command(["true"], SandboxPolicy())
                own = launcher_pid(executor)
                executor.close()
                status = 0 if result.returncode == 0 and own != parent else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert launcher_pid(executor) == parent
        assert executor.run_command(["true"], SandboxPolicy()).returncode == 0


def soak(backend: type[NativeExecutor], *, runs: int, seed: int) -> None:
    """Run with random timeouts, ends and kills; compare the host before and after."""
    chance = random.Random(seed)
    mark = f"60.{chance.randrange(10**9)}"
    before = _host_state()
    with open_executor(backend) as executor:
        for _ in range(runs):
            timeout_s = chance.choice([0.01, 0.03, 0.1, 5])
            script = chance.choice(
                [
                    "true",
                    "exit 7",
                    f"sleep {mark}",
                    f"setsid sleep {mark} & exit 0",
                    f"(setsid sh -c 'sleep {mark} & sleep {mark}') & kill -9 $$",
                    "while :; do :; done",
                    "cat /dev/zero",
                ]
            )
            if timeout_s == 5 and ("while" in script or script.startswith(("s", "c"))):
                timeout_s = 0.05
            policy = SandboxPolicy(timeout_s=timeout_s)
            argv = ["sh", "-c", script]
            if chance.random() < 0.1:
                _run_and_kill_caller(backend, argv, chance.random() * 0.3)
            elif chance.random() < 0.1:
                timer = threading.Timer(
                    chance.random() * 0.05, _kill_launcher, (executor,)
                )
                timer.start()
                with contextlib.suppress(SandboxLostError):
                    executor.run_command(argv, policy)
                timer.join()
            else:
                executor.run_command(argv, policy)
    assert wait_until(lambda: not marked(mark)), marked(mark)
    assert wait_until(lambda: _host_state() == before), (before, _host_state())


def _kill_launcher(executor: NativeExecutor) -> None:
    try:
        os.kill(launcher_pid(executor), signal.SIGKILL)
    except (AttributeError, ProcessLookupError):
        return


def _run_and_kill_caller(
    backend: type[NativeExecutor], argv: list[str], after_s: float
) -> None:
    script = (
        "from lazycore.sandbox import *\n"
        f"e = {backend.__name__}(allow_degraded=frozenset(Guarantee))\n"
        f"e._held = frozenset()\ne._require = lambda policy: None\n"
        f"e.run_command({argv!r}, SandboxPolicy(timeout_s=30))\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", script])
    try:
        caller.wait(after_s)
    except subprocess.TimeoutExpired:
        caller.kill()
        caller.wait()


def _host_state() -> tuple[object, ...]:
    return (
        Path("/proc/self/mountinfo").read_text(),
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
    )


@pytest.mark.once
def test_forty_random_ends_leave_nothing(backend: type[NativeExecutor]) -> None:
    soak(backend, runs=20, seed=20)


@pytest.mark.slow
def test_a_thousand_random_ends_leave_nothing(
    backend: type[NativeExecutor],
) -> None:
    soak(backend, runs=500, seed=1000)


@pytest.mark.once
def test_scratch_directories_are_not_left(folder: Path) -> None:
    report = LandlockSandboxExecutor.probe_for(frozenset())
    if not report.available:
        pytest.skip(f"the backend landlock cannot run here: {report.reason}")
    script = textwrap.dedent(
        """
        from lazycore.sandbox import *
        with LandlockSandboxExecutor(allow_degraded=frozenset(Guarantee)) as e:
            for _ in range(3):
                e.run_command(["sh", "-c", "mkdir x; echo > x/y; sleep 9"],
                              SandboxPolicy(timeout_s=0.05))
        """
    )
    env = {**os.environ, "TMPDIR": str(folder)}
    subprocess.run([sys.executable, "-c", script], env=env, check=True)
    assert os.listdir(folder) == []


@pytest.mark.once
def test_closing_leaves_a_thread_that_asks_for_a_run_its_socket(
    backend: type[NativeExecutor],
) -> None:
    executor = backend()
    executor._launcher._running()[1].close()
    _, control = executor._launcher._running()
    started = time.monotonic()
    executor.close()
    # Of the 20 s after which a launcher that does not end is killed.
    assert time.monotonic() - started < 15
    with control, pytest.raises(BrokenPipeError):
        control.send(b"C")

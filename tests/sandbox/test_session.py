"""A warm server, one fresh confined child per call."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import operator
import os
import secrets
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.sandbox import (
    BaseSandboxExecutor,
    ResourceLimits,
    SandboxCallableError,
    SandboxError,
    SandboxLaunchError,
    SandboxLostError,
    SandboxPolicy,
    SandboxPolicyError,
    SandboxResult,
    SandboxSession,
    SandboxTimeoutError,
)
from lazycore.sandbox._linux._native import NativeExecutor
from lazycore.sandbox._linux._session_client import NativeSession

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def functions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a module that remembers; return its folder."""
    place = folder / "code"
    place.mkdir()
    (place / "lazycore_test_state.py").write_text(
        """
import os, signal
count = 0
loaded_in = os.getpid()

def bump():
    global count
    count += 1
    return count

def see():
    return [os.getpid(), loaded_in]

def pids():
    return sorted(name for name in os.listdir("/proc") if name.isdigit())

def harm():
    told = []
    for pid in range(1, 400):
        if pid == os.getpid():
            continue
        try:
            os.kill(pid, signal.SIGKILL)
            told.append(pid)
        except OSError:
            pass
    return told

def leave(path):
    with open(path, "w") as file:
        file.write("x")
    return sorted(os.listdir(os.path.dirname(path)))

def memory_holds(first, second):
    # Two halves, so that the search does not find itself.
    first, second = first.encode(), second.encode()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            if "r" not in rights or "[v" in line:
                continue
            start, end = (int(number, 16) for number in span.split("-"))
            memory.seek(start)
            parts = memory.read(end - start).split(first)
            if any(part.startswith(second) for part in parts[1:]):
                return True
    return False

def keep(word):
    return len(word), memory_holds(word[:24], word[24:])

def descriptors():
    return sorted(int(name) for name in os.listdir("/proc/self/fd"))

def start_daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            import time
            time.sleep(600)
        os._exit(0)
    os.wait()
    return pids()

def listen():
    import socket
    global kept
    kept = socket.create_server(("127.0.0.1", 0))
    return kept.getsockname()[1]

def connect(port):
    import socket
    return socket.socket().connect_ex(("127.0.0.1", port))

def main_thread():
    import asyncio, signal, threading
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    asyncio.run(asyncio.sleep(0))
    return threading.current_thread() is threading.main_thread()

def down(number):
    # A frame of C each time: a thread's small stack would not hold 450 of them.
    return number and max([number - 1], key=down)

def limits():
    import resource
    names = ("RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CPU", "RLIMIT_CORE")
    return [resource.getrlimit(getattr(resource, name)) for name in names]

def dispositions():
    import signal
    numbers = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    changed = [n for n in numbers if signal.getsignal(n) not in (signal.SIG_DFL, None)]
    return sorted(changed), sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))

def scratch():
    here = os.environ["TMPDIR"]
    before = sorted(os.listdir(here))
    open(here + "/left", "w").close()
    return before
"""
    )
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delitem(sys.modules, "lazycore_test_state", raising=False)
    return place


@pytest.fixture
def session(executor: BaseSandboxExecutor, functions: Path) -> Iterator[SandboxSession]:
    policy = SandboxPolicy(allowed_read_paths=[functions], timeout_s=30)
    with SandboxSession(policy, executor, preload=["lazycore_test_state"]) as opened:
        yield opened


def _module() -> object:
    return __import__("lazycore_test_state")


def test_calls_and_commands_run_in_the_session(session: SandboxSession) -> None:
    assert session.run_callable(operator.mul, 6, 7).value == 42
    assert session.run_command(["echo", "hi"]).stdout == b"hi\n"
    data = session.run_command(["cat"], input=b"in", reply_limit_bytes=5)
    assert (data.stdout, data.reply) == (b"in", b"")


def test_each_call_starts_from_the_same_memory(session: SandboxSession) -> None:
    bump = _module().bump  # type: ignore[attr-defined]
    assert [session.run_callable(bump).value for _ in range(3)] == [1, 1, 1]


def test_each_call_has_scratch_space_of_its_own(session: SandboxSession) -> None:
    scratch = _module().scratch  # type: ignore[attr-defined]
    for _ in range(2):
        found = session.run_callable(scratch).value
        assert isinstance(found, list)
        assert "left" not in found


def test_a_call_harms_neither_the_server_nor_another_call(
    session: SandboxSession,
) -> None:
    harm = _module().harm  # type: ignore[attr-defined]
    assert session.run_callable(harm).value == []
    assert session.run_callable(operator.add, 1, 1).value == 2


@pytest.mark.once
def test_a_call_sees_no_other_process(
    namespace_executor: BaseSandboxExecutor, functions: Path
) -> None:
    policy = SandboxPolicy(allowed_read_paths=[functions])
    with SandboxSession(
        policy, namespace_executor, preload=["lazycore_test_state"]
    ) as session:
        pids = _module().pids  # type: ignore[attr-defined]
        seen = session.run_callable(pids).value
        assert isinstance(seen, list)
        # Pid 1, which the call is a copy of, is there, but shut.
        assert len(seen) == 1
        assert seen[0] != "1"


@pytest.fixture
def namespace_session(
    namespace_executor: BaseSandboxExecutor, functions: Path
) -> Iterator[SandboxSession]:
    policy = SandboxPolicy(
        allowed_read_paths=[functions],
        limits=ResourceLimits(open_files=64, file_size_bytes=1 << 20, cpu_s=30),
    )
    preload = ["lazycore_test_state"]
    with SandboxSession(policy, namespace_executor, preload=preload) as opened:
        yield opened


def value_of(result: SandboxResult) -> Any:  # what the module returns
    return result.value


def test_the_arguments_of_one_call_are_in_no_other_ones_memory(
    namespace_session: SandboxSession,
) -> None:
    module: Any = _module()
    word = secrets.token_hex(24)
    size, found = value_of(namespace_session.run_callable(module.keep, word))
    assert (size, found) == (48, True)  # the search can find it
    namespace_session.run_command(["echo", word])
    search = namespace_session.run_callable(module.memory_holds, word[:24], word[24:])
    assert search.value is False


def test_a_call_has_no_descriptor_but_its_own(
    namespace_session: SandboxSession,
) -> None:
    module: Any = _module()
    found = value_of(namespace_session.run_callable(module.descriptors))
    # The last one lists the others.
    assert found == [0, 1, 2, 3, 4]


def test_nothing_that_a_call_started_is_there_for_the_next(
    namespace_session: SandboxSession,
) -> None:
    module: Any = _module()
    left = value_of(namespace_session.run_callable(module.start_daemon))
    assert len(left) == 2
    seen = [value_of(namespace_session.run_callable(module.pids)) for _ in range(2)]
    assert seen[0] == seen[1]
    assert len(seen[0]) == 1


def test_a_port_of_one_call_is_closed_to_the_next(
    namespace_session: SandboxSession,
) -> None:
    module: Any = _module()
    port = value_of(namespace_session.run_callable(module.listen))
    refused = value_of(namespace_session.run_callable(module.connect, port))
    assert refused == errno.ECONNREFUSED


def test_a_call_runs_in_a_main_thread_with_a_whole_stack(
    session: SandboxSession,
) -> None:
    module: Any = _module()
    assert session.run_callable(module.main_thread).value is True
    assert session.run_callable(module.down, 450).value == 449


def test_a_call_starts_with_the_policys_limits_and_no_handler(
    namespace_session: SandboxSession,
) -> None:
    module: Any = _module()
    *bounds, core = value_of(namespace_session.run_callable(module.limits))
    assert [hard for _, hard in bounds] == [64, 1 << 20, 31]
    assert tuple(core) == (0, 0)
    changed, blocked = value_of(namespace_session.run_callable(module.dispositions))
    assert (changed, blocked) == ([], [])


_FORKS = """
import os, time
made = 0
try:
    while made < 40:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made + 1, flush=True)
os.killpg(0, 9)
"""


@pytest.mark.once
def test_a_call_has_exactly_the_processes_of_the_policy(
    namespace_executor: BaseSandboxExecutor,
) -> None:
    policy = SandboxPolicy(limits=ResourceLimits(processes=20))
    with SandboxSession(policy, namespace_executor) as session:
        for _ in range(2):
            counted = session.run_command([sys.executable, "-c", _FORKS])
            assert counted.stdout == b"20\n"


def test_what_is_preloaded_was_imported_once_before_the_calls(
    session: SandboxSession,
) -> None:
    see = _module().see  # type: ignore[attr-defined]
    values = [session.run_callable(see).value for _ in range(2)]
    assert all(isinstance(value, list) for value in values)
    own = [value[0] for value in values if isinstance(value, list)]
    loaded = {value[1] for value in values if isinstance(value, list)}
    assert len(loaded) == 1
    assert loaded.isdisjoint(own)


def test_path_entries_come_first_for_preload(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "lazycore_only_here.py").write_text("VALUE = 7\n")
    policy = SandboxPolicy(allowed_read_paths=[folder])
    with SandboxSession(
        policy, executor, preload=["lazycore_only_here"], path=[folder]
    ) as session:
        assert session.run_callable(operator.add, 1, 2).value == 3
    with pytest.raises(SandboxLaunchError, match="lazycore_only_here"):
        SandboxSession(policy, executor, preload=["lazycore_only_here"])


def test_a_preload_that_raises_is_told_with_its_traceback(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "lazycore_broken.py").write_text("raise RuntimeError('broken here')\n")
    policy = SandboxPolicy(allowed_read_paths=[folder])
    with pytest.raises(SandboxLaunchError, match="broken here"):
        SandboxSession(policy, executor, preload=["lazycore_broken"], path=[folder])


@pytest.mark.once
@pytest.mark.parametrize(
    "board",
    [
        "mmap.mmap(-1, 4096)",
        "mmap.mmap(file(), 4096, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)",
    ],
    ids=["writable", "of a file open for writing"],
)
def test_memory_that_all_calls_would_share_is_refused(
    executor: BaseSandboxExecutor, folder: Path, board: str
) -> None:
    (folder / "lazycore_shared.py").write_text(
        f"""
import mmap, os
def file():
    fd = os.memfd_create("board")
    os.ftruncate(fd, 4096)
    return fd
board = {board}
"""
    )
    policy = SandboxPolicy(allowed_read_paths=[folder])
    with pytest.raises(SandboxLaunchError, match="all calls would share"):
        SandboxSession(policy, executor, preload=["lazycore_shared"], path=[folder])


@pytest.mark.once
def test_a_preload_that_maps_a_file_to_read_is_fine(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "lazycore_reads.py").write_text(
        """
import mmap
with open(__file__, "rb") as file:
    text = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
"""
    )
    policy = SandboxPolicy(allowed_read_paths=[folder])
    with SandboxSession(
        policy, executor, preload=["lazycore_reads"], path=[folder]
    ) as session:
        assert session.run_callable(operator.add, 1, 2).value == 3


@pytest.mark.once
def test_a_preload_may_spoil_signals_warnings_and_start_threads(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "lazycore_spoils.py").write_text(
        """
import signal, threading, warnings
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
warnings.simplefilter("error")
threading.Thread(target=threading.Event().wait, daemon=True).start()
threading.stack_size(1 << 20)
"""
    )
    policy = SandboxPolicy(allowed_read_paths=[folder], timeout_s=20)
    with SandboxSession(
        policy, executor, preload=["lazycore_spoils"], path=[folder]
    ) as session:
        for _ in range(2):
            assert session.run_callable(os.getpid).value
            # It ends its slot, or itself: the next call finds another.
            ended = session.run_command(["sh", "-c", "kill -9 $$"])
            assert ended.signal == signal.SIGKILL
        assert session.run_callable(threading.stack_size).value == 0


@pytest.mark.once
def test_a_preload_that_hangs_runs_into_the_timeout(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "lazycore_slow.py").write_text("import time; time.sleep(60)\n")
    policy = SandboxPolicy(allowed_read_paths=[folder], timeout_s=0.5)
    with pytest.raises(SandboxTimeoutError):
        SandboxSession(policy, executor, preload=["lazycore_slow"], path=[folder])


@pytest.mark.once
def test_imported_code_is_confined_already(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "code").mkdir()
    (folder / "secret").write_text("secret")
    (folder / "code" / "lazycore_thief.py").write_text(
        f"""
try:
    found = open({str(folder / "secret")!r}).read()
except OSError:
    found = "nothing"
for path in ("/etc/shadow", {str(folder / "code" / "x")!r}, "/usr/x"):
    try:
        open(path, "a").close()
    except OSError:
        continue
    raise RuntimeError("opened " + path)
if found != "nothing":
    raise RuntimeError(found)
"""
    )
    policy = SandboxPolicy(allowed_read_paths=[folder / "code"])
    with SandboxSession(
        policy, executor, preload=["lazycore_thief"], path=[folder / "code"]
    ) as session:
        assert session.run_callable(abs, -1).value == 1


@pytest.mark.once
def test_writes_of_one_call_are_there_for_the_next(
    executor: BaseSandboxExecutor, functions: Path, folder: Path
) -> None:
    (folder / "work").mkdir()
    policy = SandboxPolicy(
        allowed_read_paths=[functions], allowed_write_paths=[folder / "work"]
    )
    with SandboxSession(policy, executor) as session:
        leave = _module().leave  # type: ignore[attr-defined]
        first = session.run_callable(leave, str(folder / "work" / "a")).value
        second = session.run_callable(leave, str(folder / "work" / "b")).value
    assert (first, second) == (["a"], ["a", "b"])
    assert (folder / "work" / "b").read_text() == "x"


@pytest.mark.once
def test_denied_paths_stay_closed_in_a_session(
    namespace_executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "work" / "in").mkdir(parents=True)
    (folder / "work" / "in" / "key").write_text("secret")
    policy = SandboxPolicy(
        allowed_write_paths=[folder / "work"],
        denied_paths=[folder / "work" / "in" / "key"],
        cwd=folder / "work",
    )
    with SandboxSession(policy, namespace_executor) as session:
        script = "cat in/key; mv in out; cat out/key; echo x > in/key; echo y > new"
        assert session.run_command(["sh", "-c", script]).stdout == b""
    assert (folder / "work" / "in" / "key").read_text() == "secret"
    assert (folder / "work" / "new").exists()


@pytest.mark.once
def test_a_call_over_its_time_leaves_the_session_usable(
    executor: BaseSandboxExecutor,
) -> None:
    import time

    with SandboxSession(SandboxPolicy(timeout_s=0.5), executor) as session:
        with pytest.raises(SandboxTimeoutError):
            session.run_callable(time.sleep, 60)
        with pytest.raises(SandboxCallableError, match="signal 9"):
            session.run_callable(os.kill, 0, signal.SIGKILL)
        assert session.run_callable(abs, -2).value == 2


def test_threads_share_a_session(executor: BaseSandboxExecutor) -> None:
    got: list[object] = []
    with SandboxSession(SandboxPolicy(), executor) as session:

        def work(number: int) -> None:
            for turn in range(3):
                value = session.run_callable(operator.add, number, turn).value
                got.append(value == number + turn)

        threads = [threading.Thread(target=work, args=(n * 10,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == [True] * 24


def test_the_async_twins_await(executor: BaseSandboxExecutor) -> None:
    async def both(session: SandboxSession) -> list[object]:
        value = await session.arun_callable(abs, -3)
        command = await session.arun_command(["echo", "x"])
        return [value.value, command.stdout]

    with SandboxSession(SandboxPolicy(), executor) as session:
        assert asyncio.run(both(session)) == [3, b"x\n"]


def test_a_killed_server_makes_the_call_raise(executor: BaseSandboxExecutor) -> None:
    with SandboxSession(SandboxPolicy(), executor) as session:
        server = session._engine
        assert isinstance(server, NativeSession)
        signal.pidfd_send_signal(server._pidfd, signal.SIGKILL)
        select.select([server._pidfd], [], [], 10)
        with pytest.raises(SandboxLostError):
            session.run_callable(abs, -1)


def test_a_closed_session_does_not_run(executor: BaseSandboxExecutor) -> None:
    session = SandboxSession(SandboxPolicy(), executor)
    session.close()
    session.close()
    with pytest.raises(SandboxError, match="closed"):
        session.run_callable(abs, -1)


def test_a_bad_policy_is_refused_when_the_session_opens(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(SandboxPolicyError):
        SandboxSession(SandboxPolicy(allowed_read_paths=[folder / "no"]), executor)
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_session_of_its_own_executor_closes_it() -> None:
    with SandboxSession(SandboxPolicy()) as session:
        inner = session.executor
        assert session.run_callable(abs, -1).value == 1
    assert isinstance(inner, NativeExecutor)
    with pytest.raises(SandboxError, match="closed"):
        inner.run_command(["true"], SandboxPolicy())


@pytest.mark.parametrize("wrong", [{"preload": "json"}, {"path": "/srv"}])
def test_one_name_instead_of_a_list_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="lists"):
        SandboxSession(SandboxPolicy(), **wrong)  # type: ignore[arg-type]


@pytest.mark.once
def test_closing_waits_for_the_threads_that_still_run(
    executor: BaseSandboxExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()
    finish = type(executor).finish_run  # type: ignore[attr-defined]

    def slow(*args: object, **kwargs: object) -> object:
        begun.set()
        try:
            return finish(*args, **kwargs)
        finally:
            time.sleep(0.2)
            over.set()

    session = SandboxSession(SandboxPolicy(), executor)
    monkeypatch.setattr(type(executor), "finish_run", slow)

    def run() -> None:
        with contextlib.suppress(SandboxError):
            session.run_command(["sleep", "30"])

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    session.close()
    assert over.is_set()
    thread.join()

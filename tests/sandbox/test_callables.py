"""Python calls: values come back as data, errors as text."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import os
import sys
from pathlib import Path

import pytest

from lazycore.sandbox import (
    BaseSandboxExecutor,
    SandboxCallableError,
    SandboxFrameError,
    SandboxPolicy,
    SandboxTimeoutError,
    _callables,
    _frames,
)

POLICY = SandboxPolicy()


@pytest.fixture
def module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SandboxPolicy:
    """Write a module of hostile and harmless functions; return a policy for it."""
    name = "lazycore_test_functions"
    (folder / f"{name}.py").write_text(
        """
import os, sys

class Evil:
    def __reduce__(self):
        return (os.system, ("touch /tmp/pwned",))

class EvilError(Exception):
    def __str__(self):
        return "\\x1b[2J" + "x" * 10
    def __reduce__(self):
        return (os.system, ("touch /tmp/pwned",))

def echo(*args, **kwargs):
    return [list(args), kwargs]

def talk():
    print("out"); print("err", file=sys.stderr); os.write(1, b"raw\\n")
    return 1

def evil():
    return Evil()

def fail():
    raise EvilError

def forge():
    os.write(3, b"garbage"); os._exit(0)

def silent():
    os._exit(0)

def crash():
    os.kill(os.getpid(), 11)

def big():
    return b"x" * (100 << 20)

def deep():
    value = []
    for _ in range(100_000): value = [value]
    return value

def cyclic():
    value = []; value.append(value)
    return value

def secrets():
    return [dict(os.environ), sys.argv, sorted(sys.modules)]

def main_name():
    return sys.modules["__main__"].__name__
"""
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return SandboxPolicy(allowed_read_paths=[folder], timeout_s=30)


def call(
    executor: BaseSandboxExecutor, name: str, policy: SandboxPolicy, *args: object
) -> object:
    functions = __import__("lazycore_test_functions")
    return executor.run_callable(getattr(functions, name), policy, args).value


def test_a_value_comes_back(executor: BaseSandboxExecutor) -> None:
    result = executor.run_callable(operator.add, POLICY, (1, 2))
    assert result.value == 3
    assert result.argv == ("_operator.add",)
    assert result.policy_digest == POLICY.digest


def test_arguments_of_both_kinds_arrive(
    executor: BaseSandboxExecutor, module: SandboxPolicy
) -> None:
    functions = __import__("lazycore_test_functions")
    result = executor.run_callable(functions.echo, module, (1, "a"), {"k": b"v"})
    assert result.value == [[1, "a"], {"k": b"v"}]


def test_what_is_printed_is_captured(
    executor: BaseSandboxExecutor, module: SandboxPolicy
) -> None:
    functions = __import__("lazycore_test_functions")
    result = executor.run_callable(functions.talk, module)
    assert sorted(result.stdout.split()) == [b"out", b"raw"]
    assert result.stderr == b"err\n"


def test_an_exception_comes_back_as_text_only(
    executor: BaseSandboxExecutor, module: SandboxPolicy
) -> None:
    with pytest.raises(SandboxCallableError) as caught:
        call(executor, "fail", module)
    assert caught.value.type_name.endswith("EvilError")
    assert "\x1b" not in str(caught.value)
    assert "in fail" in caught.value.traceback_text
    assert caught.value.result is not None


@pytest.mark.parametrize("name", ["evil", "deep", "cyclic"])
def test_a_value_that_is_no_plain_data_is_refused_inside(
    executor: BaseSandboxExecutor, module: SandboxPolicy, name: str
) -> None:
    with pytest.raises(SandboxCallableError, match="SandboxFrameError"):
        call(executor, name, module)
    assert not os.path.exists("/tmp/pwned")


def test_a_forged_frame_is_refused(
    executor: BaseSandboxExecutor, module: SandboxPolicy
) -> None:
    with pytest.raises(SandboxFrameError) as caught:
        call(executor, "forge", module)
    assert caught.value.result is not None


def test_a_value_over_the_limit_is_refused_inside(
    executor: BaseSandboxExecutor, module: SandboxPolicy
) -> None:
    with pytest.raises(SandboxCallableError, match="SandboxFrameError"):
        call(executor, "big", module)


def test_arguments_over_the_limit_are_refused_before_the_run(
    executor: BaseSandboxExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_callables, "PAYLOAD_LIMIT_BYTES", 1000)
    with pytest.raises(SandboxCallableError, match="write them to a file"):
        executor.run_callable(len, SandboxPolicy(), args=(b"x" * 1000,))


@pytest.mark.parametrize(
    ("name", "says"), [("silent", "exit status 0"), ("crash", "signal 11")]
)
def test_an_end_without_a_value_is_an_error(
    executor: BaseSandboxExecutor, module: SandboxPolicy, name: str, says: str
) -> None:
    with pytest.raises(SandboxCallableError, match=says):
        call(executor, name, module)


def test_a_call_over_its_time_raises_with_the_result(
    executor: BaseSandboxExecutor,
) -> None:
    import time

    with pytest.raises(SandboxTimeoutError) as caught:
        executor.run_callable(time.sleep, SandboxPolicy(timeout_s=0.3), (60,))
    assert caught.value.result is not None
    assert caught.value.result.timed_out


def test_the_child_knows_nothing_of_the_caller(
    executor: BaseSandboxExecutor,
    module: SandboxPolicy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "1")
    value = call(executor, "secrets", module)
    assert isinstance(value, list)
    env, argv, modules = value
    assert "SECRET" not in env
    assert argv == [""]
    assert "pytest" not in modules


def test_a_lambda_is_refused_with_the_remedy(executor: BaseSandboxExecutor) -> None:
    try:
        import cloudpickle  # noqa: F401 - only its presence matters
    except ImportError:
        with pytest.raises(SandboxCallableError, match="pip install cloudpickle"):
            executor.run_callable(lambda: 1, POLICY)
    else:
        assert executor.run_callable(lambda: 1, POLICY).value == 1


def test_something_that_cannot_be_called_is_refused(
    executor: BaseSandboxExecutor,
) -> None:
    with pytest.raises(TypeError, match="callable"):
        executor.run_callable(3, POLICY)  # type: ignore[arg-type]  # on purpose


def test_a_function_the_policy_hides_is_named(
    executor: BaseSandboxExecutor, module: SandboxPolicy
) -> None:
    del module
    with pytest.raises(SandboxCallableError, match="lazycore_test_functions"):
        call(executor, "echo", POLICY)


def test_a_call_writes_only_where_the_policy_says(
    executor: BaseSandboxExecutor, folder: Path
) -> None:
    (folder / "work").mkdir()
    policy = SandboxPolicy(allowed_write_paths=[folder / "work"])
    executor.run_callable(os.mkdir, policy, (str(folder / "work" / "made"),))
    assert (folder / "work" / "made").is_dir()
    with contextlib.suppress(SandboxCallableError):
        # Refused, or made in the run's private /tmp: never here.
        executor.run_callable(os.mkdir, policy, (str(folder / "made"),))
    assert not (folder / "made").exists()


def test_the_generic_way_over_a_fresh_interpreter_gives_the_same(
    executor: BaseSandboxExecutor, module: SandboxPolicy
) -> None:
    functions = __import__("lazycore_test_functions")
    result = _callables.run_callable(executor, functions.echo, module, (1,), None)
    assert result.value == [[1], {}]
    assert result.policy_digest == module.digest
    with pytest.raises(SandboxCallableError, match="EvilError"):
        _callables.run_callable(executor, functions.fail, module, (), None)


def test_a_function_of_the_main_script_is_found(
    folder: Path, namespace_executor: BaseSandboxExecutor
) -> None:
    del namespace_executor
    import subprocess

    (folder / "script.py").write_text(
        f"""
from lazycore.sandbox import SandboxPolicy, get_default_executor
def double(x):
    return 2 * x
if __name__ == "__main__":
    policy = SandboxPolicy(allowed_read_paths=[{str(folder)!r}])
    with get_default_executor(policy) as executor:
        print(executor.run_callable(double, policy, (21,)).value)
"""
    )
    done = subprocess.run(
        [sys.executable, str(folder / "script.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "42\n", done.stderr


def test_the_async_twin_gives_the_value(executor: BaseSandboxExecutor) -> None:
    result = asyncio.run(executor.arun_callable(operator.add, POLICY, (1, 2)))
    assert result.value == 3


def test_nothing_of_a_frame_is_unpickled() -> None:
    for module in (_callables, _frames):
        assert not hasattr(module, "Unpickler")
    source = Path(_callables.__file__).read_text(encoding="utf-8")
    assert "pickle.loads" not in source

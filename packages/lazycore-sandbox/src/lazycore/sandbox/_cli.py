"""The command `lazycore-sandbox`: run, doctor, attack, explain.

Exit codes are part of the interface; see `EXIT_CODES`.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from lazycore.sandbox import _cli_render as render
from lazycore.sandbox._errors import (
    SandboxBackendUnavailableError,
    SandboxCommandNotFoundError,
    SandboxError,
    SandboxPolicyError,
    SandboxPolicyViolationError,
)
from lazycore.sandbox._guarantees import Guarantee
from lazycore.sandbox._limits import ResourceLimits
from lazycore.sandbox._policy import SandboxPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.sandbox._attacks._attack import Attack
    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._result import SandboxResult

USAGE: Final = 2
BAD_POLICY: Final = 122
NO_BACKEND: Final = 123
TIMEOUT: Final = 124
SANDBOX_FAILED: Final = 125
REFUSED: Final = 126
NOT_FOUND: Final = 127

EXIT_CODES: Final = {
    0: "the command ended with 0; doctor: a backend holds the empty policy; "
    "attack: nothing got through but known residuals; explain: nothing was refused",
    1: "the command ended with 1; doctor, attack, explain: the opposite of 0",
    USAGE: "the command line is wrong",
    BAD_POLICY: "the policy cannot be held as written; nothing ran",
    NO_BACKEND: "no backend here holds the policy; nothing ran",
    TIMEOUT: "the run passed its timeout and was killed",
    SANDBOX_FAILED: "the sandbox itself failed",
    REFUSED: "the policy does not let the command be executed",
    NOT_FOUND: "the command does not exist inside the sandbox",
    128: "plus n: signal n ended the command",
}

_CLEAR: Final = "\r\033[K"
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def size(text: str) -> int:
    """Read a size in bytes: `512M`, `2G`, `4096`.

    Raises:
        argparse.ArgumentTypeError: If it is none.
    """
    digits = text.rstrip("KMGTkmgt")
    unit = text[len(digits) :].upper()
    if not (digits.isascii() and digits.isdecimal()) or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 4096, 512M, 2G")
    return int(digits) * _UNITS[unit]


def guarantee(text: str) -> Guarantee:
    """Read the name of a guarantee.

    Raises:
        argparse.ArgumentTypeError: If there is none of that name.
    """
    try:
        return Guarantee(text)
    except ValueError:
        names = ", ".join(Guarantee)
        raise argparse.ArgumentTypeError(
            f"{text!r} is no guarantee; there are {names}"
        ) from None


def variable(text: str) -> tuple[str, str]:
    """Read `NAME=VALUE`, or `NAME` for the caller's own value.

    Raises:
        argparse.ArgumentTypeError: If the caller has no such variable.
    """
    name, equals, value = text.partition("=")
    if equals:
        return name, value
    if name not in os.environ:
        raise argparse.ArgumentTypeError(f"this process has no variable {name!r}")
    return name, os.environ[name]


def parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command."""
    codes = "\n".join(f"  {code:>3}  {text}" for code, text in EXIT_CODES.items())
    top = argparse.ArgumentParser(
        prog="lazycore-sandbox",
        description="Run commands that nobody trusts, and show what holds them.",
        epilog="exit codes:\n" + codes,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run", help="run one command under a policy", epilog="exit codes:\n" + codes,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    _policy_options(run)
    run.add_argument("--stdin", action="store_true", help="hand stdin to the command")
    run.add_argument(
        "--describe", action="store_true", help="show the policy, run nothing"
    )
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    doctor = commands.add_parser("doctor", help="show what this host can enforce")
    attack = commands.add_parser(
        "attack", help="attack a backend with the corpus and show what held"
    )
    attack.add_argument("--only", action="append", default=[], metavar="ID")
    attack.add_argument(
        "--list", action="store_true", help="show the rows, run nothing"
    )
    attack.add_argument(
        "--strict", action="store_true", help="count known residuals as failures"
    )
    learn = commands.add_parser(
        "explain", help="run one command and show what it needed of a policy"
    )
    _policy_options(learn)
    learn.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    for each in (run, attack, learn):
        each.add_argument("--backend", metavar="NAME", help="take this backend only")
    for each in (run, doctor, attack, learn):
        each.add_argument("--json", action="store_true", help="write JSON to stdout")
    return top


def _policy_options(run: argparse.ArgumentParser) -> None:
    many = {"action": "append", "default": [], "metavar": "PATH"}
    run.add_argument("--read", **many, help="let the tree be read")  # type: ignore[arg-type] # argparse's own shape
    run.add_argument("--write", **many, help="let the tree be read and changed")  # type: ignore[arg-type] # as above
    run.add_argument("--deny", **many, help="keep a tree inside these closed")  # type: ignore[arg-type] # as above
    run.add_argument("--exec", **many, help="let only such files be executed")  # type: ignore[arg-type] # as above
    run.add_argument("--net", action="store_true", help="share the host's network")
    run.add_argument("--unix-sockets", action="store_true", help="allow unix sockets")
    run.add_argument("--no-system", action="store_true", help="hide the system set")
    run.add_argument(
        "--env", action="append", default=[], type=variable, metavar="NAME[=VALUE]"
    )
    run.add_argument("--cwd", metavar="PATH")
    run.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS")
    run.add_argument("--memory", type=size, metavar="SIZE")
    run.add_argument("--cpu", type=float, metavar="SECONDS")
    run.add_argument("--processes", type=int, default=512, metavar="N")
    run.add_argument("--file-size", type=size, metavar="SIZE")
    run.add_argument("--disk", type=size, metavar="SIZE", help="bytes it may add")
    run.add_argument("--output", type=size, default=1 << 20, metavar="SIZE")
    run.add_argument(
        "--degrade", action="append", default=[], type=guarantee, metavar="GUARANTEE",
        help="do without this guarantee if need be",
    )  # fmt: skip
    run.add_argument("--policy", metavar="FILE", help="take the policy from JSON")


def policy_of(options: argparse.Namespace) -> SandboxPolicy:
    """Build the policy that the options spell; relative paths are made absolute."""
    if options.policy is not None:
        try:
            with open(options.policy, encoding="utf-8") as file:
                return SandboxPolicy.from_json(file.read())
        except OSError as error:
            raise SandboxPolicyError(
                f"the policy file {options.policy!r} cannot be read: {error.strerror}"
            ) from error
    return SandboxPolicy(
        allow_network=options.net,
        allowed_read_paths=map(os.path.abspath, options.read),
        allowed_write_paths=map(os.path.abspath, options.write),
        denied_paths=map(os.path.abspath, options.deny),
        allowed_executables=map(os.path.abspath, options.exec)
        if options.exec
        else None,
        env=dict(options.env),
        cwd=None if options.cwd is None else os.path.abspath(options.cwd),
        timeout_s=options.timeout,
        limits=ResourceLimits(
            memory_bytes=options.memory,
            cpu_s=options.cpu,
            processes=options.processes,
            file_size_bytes=options.file_size,
            workspace_bytes=options.disk,
            output_bytes=options.output,
        ),
        include_system=not options.no_system,
        allow_unix_sockets=options.unix_sockets,
    )


def executor_of(
    name: str | None, policy: SandboxPolicy | None, degraded: frozenset[Guarantee]
) -> BaseSandboxExecutor:
    """Take the named backend, or the first that holds the policy."""
    from lazycore.sandbox._select import backends, get_default_executor

    if name is None:
        return get_default_executor(policy, allow_degraded=degraded)
    known = {backend.name: backend for backend in backends()}
    if name not in known:
        raise SandboxBackendUnavailableError(
            f"this system has no backend {name!r}; it has {', '.join(known) or 'none'}"
        )
    return known[name](allow_degraded=degraded)


def run(options: argparse.Namespace) -> int:
    """Run one command and pass on what it printed and how it ended."""
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    policy = policy_of(options)
    if options.describe:
        print(policy.describe())
        return 0
    if not argv:
        print("lazycore-sandbox run: no command after --", file=sys.stderr)
        return USAGE
    data = sys.stdin.buffer.read() if options.stdin else None
    degraded = frozenset(options.degrade)
    with executor_of(options.backend, policy, degraded) as executor:
        result = executor.run_command(argv, policy, input=data)
    if options.json:
        render.write_json(render.result_json(result))
    else:
        render.show_result(result)
    return exit_code(result)


def exit_code(result: SandboxResult) -> int:
    """Return what `run` exits with after a run that took place."""
    if result.timed_out:
        return TIMEOUT
    if result.signal is not None:
        return 128 + result.signal
    return result.returncode or 0


def doctor(options: argparse.Namespace) -> int:
    """Show what every backend of this system enforces here, and what mends it."""
    from lazycore.sandbox._guarantees import required_guarantees
    from lazycore.sandbox._select import diagnose

    reports = diagnose()
    needed = required_guarantees(SandboxPolicy())
    fit = any(report.available and needed <= report.guarantees for report in reports)
    if options.json:
        render.write_json(render.doctor_json(reports, needed))
    else:
        render.show_doctor(reports, needed)
    return 0 if fit else 1


def attack(options: argparse.Namespace) -> int:
    """Attack one backend live and show the matrix."""
    from lazycore.sandbox._attacks._corpus import CORPUS, run_corpus

    unknown = set(options.only) - {each.id for each in CORPUS}
    if unknown:
        print(f"lazycore-sandbox attack: no rows {sorted(unknown)}", file=sys.stderr)
        return USAGE
    if options.list:
        render.show_corpus(CORPUS, as_json=options.json)
        return 0
    # The rows a backend cannot hold are run all the same, to show what they do.
    everything = frozenset(Guarantee)
    with executor_of(options.backend, None, everything) as engine:
        report = engine.probe()
        if not report.available:
            raise SandboxBackendUnavailableError(f"{engine.name}: {report.reason}")
        findings = run_corpus(engine, only=options.only, progress=_progress)
    if sys.stderr.isatty():
        print(_CLEAR, end="", file=sys.stderr, flush=True)
    if options.json:
        render.write_json(render.findings_json(engine.name, findings))
    else:
        render.show_findings(engine.name, findings)
    failed = any(found.breach for found in findings)
    failed |= options.strict and any(found.residual for found in findings)
    return int(failed)


def explain(options: argparse.Namespace) -> int:
    """Run one command confined and show what it used, missed and was refused."""
    from lazycore.sandbox._explain import learn

    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not argv:
        print("lazycore-sandbox explain: no command after --", file=sys.stderr)
        return USAGE
    policy = policy_of(options)
    degraded = frozenset(options.degrade)
    with executor_of(options.backend, policy, degraded) as executor:
        result, learnt = learn(executor, argv, policy)
    if options.json:
        render.write_json(render.explanation_json(result, learnt))
    else:
        render.show_explanation(result, learnt)
    return int(bool(learnt.refused))


def _progress(at: int, count: int, row: Attack) -> None:
    """Rewrite one line of a terminal; elsewhere nothing is written."""
    if sys.stderr.isatty():
        line = f"{_CLEAR}{at + 1}/{count} {row.id} {row.name}"
        print(line, end="", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; exits with one of `EXIT_CODES`."""
    options = parser().parse_args(argv)
    commands = {"run": run, "doctor": doctor, "attack": attack, "explain": explain}
    try:
        code = commands[options.command](options)
        sys.stdout.flush()
    except SandboxError as error:
        code = _explain(error)
    except BrokenPipeError:
        # The reader went away, as `head` does. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + 13
    except KeyboardInterrupt:
        code = 128 + 2
    sys.exit(code)


def _explain(error: SandboxError) -> int:
    print(f"lazycore-sandbox: {render.one_error(error)}", file=sys.stderr)
    kinds: tuple[tuple[type[SandboxError], int], ...] = (
        (SandboxPolicyError, BAD_POLICY),
        (SandboxBackendUnavailableError, NO_BACKEND),
        (SandboxPolicyViolationError, REFUSED),
        (SandboxCommandNotFoundError, NOT_FOUND),
    )
    return next(
        (code for kind, code in kinds if isinstance(error, kind)), SANDBOX_FAILED
    )

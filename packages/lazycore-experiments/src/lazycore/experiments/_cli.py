"""The command `lazycore-experiments`: lock, run, verify and report studies."""

from __future__ import annotations

import argparse
import errno
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lazycore.experiments import _cli_runs, _cli_study
from lazycore.experiments._cli_output import (
    BLOCKED,
    INTERRUPTED,
    OK,
    USAGE,
    print_json,
)
from lazycore.experiments._errors import (
    BlockedError,
    ExperimentError,
    ExternalDependencyError,
    RunBusyError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["main"]

_EXIT_CODES = """\
exit codes:
  0    done
  2    wrong usage, or a study or run folder that can't be read
  3    blocked: a lock drifted, a variable or a package is missing, a licence is
       not accepted, no sandbox holds, or another process runs in the folder
  4    finished, with failed cells
  5    verification failed
  130  interrupted; the same command continues
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: Arguments without the program's name; `sys.argv` when None.

    Examples:
        >>> main(["plan", "no/such/study.toml"])
        2
    """
    options = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except (BlockedError, ExternalDependencyError, RunBusyError) as error:
        return _complain(options, error, BLOCKED)
    except ExperimentError as error:
        return _complain(options, error, USAGE)
    except BrokenPipeError:
        return OK
    except OSError as error:
        text = f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            text += "; free some space, then the same command continues"
        if error.errno == errno.EFBIG:
            text += "; raise the file size limit, then the same command continues"
        return _complain(options, ExperimentError(text), USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lazycore-experiments",
        description="Ask whether a method helps, compared with doing nothing.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=run)
        # Also accepted after the command; absent there, the first one counts.
        command.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )
        return command

    def runnable(command: argparse.ArgumentParser) -> None:
        command.add_argument(
            "--slots", type=_positive, help="cells at once (default: the cores)"
        )
        command.add_argument(
            "--accept-restricted-licenses",
            action="store_true",
            help="accept the conditions of every tier 2 model of the study",
        )
        command.add_argument(
            "--dask", metavar="ADDRESS", help="run cells on this dask scheduler"
        )
        command.add_argument("--sign", type=Path, help="sign receipts with this key")

    demo = add("demo", _cli_study.demo, "run a built-in study, or continue it")
    demo.add_argument("name", nargs="?", default="clean-before-fit")
    demo.add_argument("--output", type=Path, help="run folder")
    runnable(demo)
    init = add("init", _cli_study.init, "write a small study that runs")
    init.add_argument("folder", type=Path)
    lock = add("lock", _cli_study.lock, "hash everything a study depends on")
    lock.add_argument("study", type=Path)
    check = add("check", _cli_study.check, "say whether a study may run here")
    check.add_argument("study", type=Path)
    check.add_argument("--accept-restricted-licenses", action="store_true")
    plan = add("plan", _cli_study.plan, "show what a study would run")
    plan.add_argument("study", type=Path)
    run = add("run", _cli_study.run, "run a study in a folder, or continue it there")
    run.add_argument("study", type=Path)
    run.add_argument("--output", type=Path, required=True, help="run folder")
    run.add_argument(
        "--fresh", action="store_true", help="refuse a folder that holds a run"
    )
    runnable(run)
    probe = add(
        "worker-test", _cli_study.worker_test, "ask each arm once and judge the answer"
    )
    probe.add_argument("study", type=Path)
    export = add(
        "export", _cli_runs.export, "write the rows of a run for other programs"
    )
    export.add_argument("run", type=Path)
    export.add_argument("output", type=Path, help=".csv, .jsonl or .parquet")
    status = add("status", _cli_runs.status, "say how far a run is")
    status.add_argument("run", type=Path)
    verify = add("verify", _cli_runs.verify, "check every byte of a run folder")
    verify.add_argument("run", type=Path)
    verify.add_argument(
        "--public-key", type=Path, help="every receipt must be signed by this key"
    )
    keygen = add("keygen", _cli_runs.keygen, "make a key that signs receipts")
    keygen.add_argument("path", type=Path, help="private key; .pub goes beside it")
    report = add(
        "report", _cli_runs.report, "write report.html again and print the verdict"
    )
    report.add_argument("run", type=Path)
    compare = add("compare", _cli_runs.compare, "compare the results of two runs")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def _complain(options: argparse.Namespace, error: Exception, code: int) -> int:
    if options.json:
        blockers = getattr(error, "blockers", ())
        print_json(
            {
                "error": type(error).__name__,
                "message": str(error),
                "blockers": [
                    {"code": b.code, "message": b.message, "fix": b.fix}
                    for b in blockers
                ],
            }
        )
    print(f"lazycore-experiments: {error}", file=sys.stderr)
    return code

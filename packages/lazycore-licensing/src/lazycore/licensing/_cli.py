"""The command line ``lazycore-licensing``: parse words, call one command.

Exit codes: 0 allowed, 1 denied, 2 wrong usage or input, 3 to be reviewed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from lazycore.licensing._decision import Usage
from lazycore.licensing._errors import LicensingError

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORMATS = (
    *("text", "json", "markdown", "github", "sarif", "cyclonedx", "cyclonedx-1.7"),
)


EXIT_USAGE: Final = 2


class _Version(argparse.Action):
    """Print the version; reading it costs a third of a short command's time."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        text = "print the version and exit"
        super().__init__(option_strings, dest, nargs=0, help=text)

    def __call__(
        self, parser: argparse.ArgumentParser, *_: object, **__: object
    ) -> None:
        from lazycore.licensing import _tool

        print(f"{_tool.NAME} {_tool.version()}")
        parser.exit()


def _date(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


def _usage(parser: argparse.ArgumentParser, default: Usage | None) -> None:
    parser.add_argument(
        "--usage",
        choices=[str(usage) for usage in Usage],
        default=None if default is None else str(default),
        help=f"how the work is used (default: {default or 'by the policy'})",
    )


def _sources(parser: argparse.ArgumentParser, *, lock: bool) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--sbom", metavar="FILE", help="CycloneDX JSON file")
    source.add_argument("--conda", metavar="PATH", help="conda environment")
    text = "environment or site-packages (default: this interpreter's)"
    if not lock:
        source.add_argument("--env", metavar="PATH", help=text)
        return
    source.add_argument("--lock", metavar="FILE", help="lock or requirements file")
    text = f"{text}; with --lock, where its packages are installed"
    parser.add_argument("--env", metavar="PATH", help=text)


def _policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy", metavar="FILE", help="default: the project's own, if any"
    )


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lazycore-licensing",
        description="What the isolation policy demands of a licence. Not legal advice.",
        epilog="exit codes: 0 allowed, 1 denied, 2 wrong usage or input, 3 review",
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("assess", help="judge an expression for one use")
    one.add_argument("expression", help="an SPDX licence expression")
    _usage(one, Usage.RUNTIME_INTERNAL)
    _policy(one)
    one.set_defaults(run="_cli_expressions:run_assess")
    every = commands.add_parser(
        "explain", help="show an expression, or an installed package, in every use"
    )
    every.add_argument("expression", help="an SPDX expression or a package name")
    every.add_argument("--env", metavar="PATH", help="where the package is installed")
    _policy(every)
    every.set_defaults(run="_cli_expressions:run_explain")
    audit = commands.add_parser("audit", help="judge an environment, lock or SBOM")
    _sources(audit, lock=True)
    audit.add_argument(
        "--evidence",
        metavar="FILE",
        action="append",
        help="snapshot to compare with; may be repeated, the first that knows a "
        "package counts (default with --lock: licences.lock beside it)",
    )
    audit.add_argument(
        "--only-here",
        action="store_true",
        help="leave out of --lock what this Python and platform never install",
    )
    _policy(audit)
    audit.add_argument("--format", choices=_FORMATS, default="text")
    audit.add_argument("--output", metavar="FILE", help="write there, not to stdout")
    audit.add_argument("--today", type=_date, metavar="DATE", help="day for expiry")
    audit.add_argument("--fail-on", choices=("review", "deny"), default="review")
    _usage(audit, None)
    audit.set_defaults(run="_cli_audit:run_audit")
    snapshot = commands.add_parser("snapshot", help="write licences.lock")
    _sources(snapshot, lock=False)
    snapshot.add_argument("--output", metavar="FILE")
    snapshot.set_defaults(run="_cli_audit:run_snapshot")
    diff = commands.add_parser("diff", help="compare two snapshots")
    diff.add_argument("old")
    diff.add_argument("new")
    diff.set_defaults(run="_cli_audit:run_diff")
    notice = commands.add_parser("notice", help="collect licence texts")
    notice.add_argument("--env", metavar="PATH")
    notice.add_argument("--output", metavar="FILE")
    notice.set_defaults(run="_cli_audit:run_notice")
    _models(commands)
    for command in (one, every, audit, snapshot, diff):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    models = commands.add_parser("models", help="model checkpoints")
    actions = models.add_subparsers(dest="action", required=True)
    check = actions.add_parser("check", help="may this checkpoint be loaded?")
    check.add_argument("--path", metavar="DIR", help="folder with its files")
    check.add_argument("--strict", action="store_true", help="refuse what can move")
    check.add_argument(
        "--hash-cache", metavar="FILE", help="remember hashes of large files there"
    )
    check.set_defaults(run="_cli_models:run_check")
    accept = actions.add_parser("accept", help="record an acceptance of its terms")
    accept.add_argument("--by", required=True, metavar="NAME")
    accept.set_defaults(run="_cli_models:run_accept")
    scan = actions.add_parser("scan", help="read a model folder: licence and risks")
    scan.add_argument("path", metavar="DIR", help="or a manifest of Ollama")
    scan.set_defaults(run="_cli_models:run_scan")
    scan.add_argument("--json", action="store_true", help="print JSON")
    look = actions.add_parser(
        "look-up", help="ask the Hugging Face hub; print an entry to review"
    )
    look.add_argument("model", metavar="ID[@REV]")
    look.add_argument("--endpoint", metavar="URL", help="another hub than the public")
    look.set_defaults(run="_cli_models:run_look_up")
    for command in (check, accept):
        command.add_argument("model", metavar="ID[@REV]")
        command.add_argument("--allowlist", required=True, metavar="FILE")
        command.add_argument("--receipts", metavar="FILE")
        command.add_argument("--json", action="store_true", help="print JSON")
        _usage(command, Usage.WEIGHTS_RESEARCH)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Words after the program's name; None takes them from the process.

    Returns:
        The exit code.
    """
    options = _arguments().parse_args(arguments)
    try:
        module, _, function = options.run.partition(":")
        command = getattr(import_module(f"lazycore.licensing.{module}"), function)
        code = int(command(options))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader left; Python would complain again while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_USAGE
    except (LicensingError, OSError) as error:
        print(f"lazycore-licensing: {error}", file=sys.stderr)
        return EXIT_USAGE
    return code

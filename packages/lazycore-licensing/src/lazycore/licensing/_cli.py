"""The command line ``lazycore-licensing``: judge an expression, explain a licence.

Exit codes: 0 allowed, 1 denied, 2 wrong usage or input, 3 to be reviewed.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from lazycore.licensing._assess import Assessment, assess
from lazycore.licensing._classes import spdx_licenses
from lazycore.licensing._decision import Usage, Verdict
from lazycore.licensing._errors import LicensingError
from lazycore.licensing._expression import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_CODES = {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.REVIEW: 3}
EXIT_USAGE = 2


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lazycore-licensing",
        description="What the isolation policy demands of a licence. Not legal advice.",
        epilog="exit codes: 0 allowed, 1 denied, 2 wrong usage or input, 3 review",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("assess", help="judge an expression for one use")
    one.add_argument("expression", help="an SPDX licence expression")
    one.add_argument(
        "--usage",
        choices=[str(usage) for usage in Usage],
        default=str(Usage.RUNTIME_INTERNAL),
        help="how the work is used (default: %(default)s)",
    )
    every = commands.add_parser("explain", help="show an expression in every use")
    every.add_argument("expression", help="an SPDX licence expression")
    for command in (one, every):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _plain(found: Assessment) -> dict[str, object]:
    return {
        "expression": found.expression,
        "usage": str(found.usage),
        "class": found.license_class.slug,
        "verdict": str(found.verdict),
        "risk": str(found.risk),
        "mitigation": str(found.mitigation),
        "instruction": found.mitigation.text,
        "elected": list(found.elected),
        "reasons": list(found.reasons),
    }


def _assess(options: argparse.Namespace) -> int:
    found = assess(options.expression, usage=options.usage)
    if options.json:
        print(json.dumps(_plain(found), indent=2))
    else:
        print(f"{found.verdict.upper()}  {found.expression} for {found.usage}")
        for reason in found.reasons:
            print(f"  {reason}")
        print(f"  {found.mitigation.text}")
    return EXIT_CODES[found.verdict]


def _explain(options: argparse.Namespace) -> int:
    expression = parse(options.expression)
    rows = [assess(expression, usage=usage) for usage in Usage]
    if options.json:
        print(json.dumps([_plain(row) for row in rows], indent=2))
        return 0
    for licence in dict.fromkeys(expression.licenses()):
        known = spdx_licenses().get(licence.id.casefold())
        if known is None:
            print(f"{licence}: outside the SPDX list; classify it before use")
        else:
            print(
                f"{licence}: {known.name}; class {known.license_class.slug} "
                f"(basis: {known.basis})"
            )
    print()
    for row in rows:
        print(f"{row.usage:<19} {row.verdict.upper():<7} {row.mitigation.text}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Words after the program's name; None takes them from the process.

    Returns:
        The exit code.
    """
    options = _arguments().parse_args(arguments)
    try:
        return _assess(options) if options.command == "assess" else _explain(options)
    except LicensingError as error:
        print(f"lazycore-licensing: {error}", file=sys.stderr)
        return EXIT_USAGE

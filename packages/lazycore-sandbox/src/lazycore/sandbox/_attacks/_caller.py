"""Attacks on the caller: hostile results, and policies that would open the host."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from lazycore.sandbox._attacks import _payloads
from lazycore.sandbox._attacks._attack import (
    Attack,
    Outcome,
    Verdict,
    held,
    row,
    through,
)
from lazycore.sandbox._errors import (
    SandboxCallableError,
    SandboxError,
    SandboxFrameError,
    SandboxPolicyError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.sandbox._attacks._stage import Stage
    from lazycore.sandbox._executor import BaseSandboxExecutor


def _hostile(
    *functions: Callable[[str], object],
) -> Callable[[Stage, BaseSandboxExecutor], Verdict]:
    """Make an attack that calls each function and must end in a sandbox error."""

    def run(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
        witness = stage.path("witness")
        package = os.path.dirname(os.path.realpath(_payloads.__file__))
        policy = stage.policy(allowed_read_paths=[package])
        seen: list[str] = []
        # A payload that cannot even be imported there would look like a refusal.
        probe = engine.run_callable(_payloads.give_back, policy, (witness,))
        assert probe.value == witness
        for function in functions:
            try:
                result = engine.run_callable(function, policy, (witness,))
            except (SandboxCallableError, SandboxFrameError) as error:
                text = str(error)
                if any(ord(char) < 32 and char not in "\n\t" for char in text):
                    return through(f"{function.__name__}: raw control characters")
                seen.append(type(error).__name__)
            except SandboxError as error:
                name = type(error).__name__
                return Verdict(outcome=Outcome.BROKEN, detail=f"{name}: {error}")
            else:
                return through(f"{function.__name__} returned {type(result.value)}")
        if os.path.exists(witness):
            os.rmdir(witness)
            return through("code of the target ran in the caller")
        return held(", ".join(seen))

    return run


def spellings(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Spell granted paths in every way that has gone wrong elsewhere."""
    work = stage.path("work")
    return _all_refused(
        stage,
        engine,
        [
            "relative",
            "",
            ".",
            "..",
            work + "/../hidden",
            work + "\0",
            work + "/missing",
            work + "/*",
            "~/x",
            stage.path("shown/sock"),
            "/dev/null",
        ],
    )


def whole_host(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Grant writing where the host itself, or the interpreter, would be open."""
    homes = [os.path.realpath(os.path.expanduser("~"))]
    return _all_refused(
        stage,
        engine,
        [
            *("/", "/proc", "/proc/sys", "/sys", "/dev", "/usr", "/bin"),
            *(home for home in homes if home != "/" and os.path.isdir(home)),
            os.path.realpath(sys.prefix),
            os.path.dirname(os.path.realpath(os.__file__)),
        ],
    )


def _all_refused(
    stage: Stage, engine: BaseSandboxExecutor, paths: list[str]
) -> Verdict:
    for path in paths:
        try:
            policy = stage.policy(allowed_write_paths=[path])
            engine.run_command(["/bin/sh", "-c", ":"], policy)
        except SandboxPolicyError:
            continue
        return through(f"{path!r} was granted")
    return held(f"{len(paths)} paths refused")


ROWS: tuple[Attack, ...] = (
    row(
        "85",
        "a result that is a malicious pickle",
        "API",
        (),
        _hostile(_payloads.return_bomb, _payloads.write_pickle, _payloads.forge_frame),
        unconfined=False,
    ),
    row(
        "86",
        "a huge, a deep, a cyclic result",
        "API",
        (),
        _hostile(_payloads.return_huge, _payloads.return_deep, _payloads.return_cycle),
        unconfined=False,
    ),
    row(
        "89",
        "an exception that runs code when shown",
        "API",
        (),
        _hostile(_payloads.raise_rude),
        unconfined=False,
    ),
    row(
        "84",
        "terminal sequences in an exception",
        "API",
        (),
        _hostile(_payloads.print_escapes),
        unconfined=False,
    ),
    row("92", "misspelt paths in a policy", "PRE", (), spellings, unconfined=False),
    row(
        "93",
        "granting the host or the interpreter",
        "PRE",
        (),
        whole_host,
        unconfined=False,
    ),
)

"""What an attack is, how it is run inside a sandbox, and what can come of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from lazycore.sandbox._errors import SandboxError
from lazycore.sandbox._output import printable
from lazycore.sandbox._system import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lazycore.sandbox._attacks._stage import Stage
    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._guarantees import Guarantee
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._result import SandboxResult


class Outcome(StrEnum):
    """How one attack ended."""

    HELD = "held"
    """The sandbox refused or contained it."""
    THROUGH = "through"
    """It got what it wanted."""
    ABSENT = "absent"
    """This host lacks what the attack needs; nothing was learnt."""
    BROKEN = "broken"
    """The attack itself failed to run; counts like a breach until mended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How one attack ended and what was seen."""

    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One row of the corpus.

    Attributes:
        id: Number of the row, with a letter for each further form of it.
        name: What the target tries.
        expected: `"refused"`, `"contained"` or `"by design"`.
        mechanism: What stops it: NS namespaces, LL Landlock, SC seccomp, RL
            resource limit, SUP supervisor, PRE check before the run, API handling
            of results, ENV clean environment, SB Seatbelt.
        needs: The guarantees that forbid it; empty when every backend must.
        run: Makes the attempt.
        works_unconfined: Whether it is harmless, and gets through, when nothing
            confines it: the corpus proves with such a run that it can fail.
        reason: Why a row that is expected to pass is accepted.
    """

    id: str
    name: str
    expected: str
    mechanism: str
    needs: frozenset[Guarantee]
    run: Callable[[Stage, BaseSandboxExecutor], Verdict]
    works_unconfined: bool
    reason: str = ""


_PRELUDE: Final = r"""
import errno, os, sys, time
class Absent(Exception): pass
def read(path):
    with open(path, "rb") as f:
        return f.read(4096)
def write(path, mode="r+b"):
    with open(path, mode) as f:
        f.write(b"planted")
"""

_CALLS: Final = r"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def check(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
def call(name, *args):
    if name not in a["numbers"]:
        raise Absent("no such call on this architecture")
    return check(libc.syscall(ctypes.c_long(a["numbers"][name]), *args))
"""

_FINALE: Final = r"""
try:
    got = attack()
    said = ("through" if got else "held", str(got or ""))
except Absent as e:
    said = ("absent", str(e))
except OSError as e:
    said = ("held", errno.errorcode.get(e.errno, str(e)))
except BaseException as e:
    said = ("broken", type(e).__name__ + ": " + str(e))
os.write(3, "\0".join(said).encode("utf-8", "replace")[:4096])
"""


def source_of(body: str, facts: Mapping[str, object]) -> str:
    """Write the whole program of an attack; it imports what it uses only."""
    used = [name for name in ("resource", "socket", "struct") if f"{name}." in body]
    imports = "".join(f"import {name}\n" for name in used)
    calls = _CALLS if "libc" in body or "call(" in body else ""
    return f"{imports}a = {dict(facts)!r}\n{_PRELUDE}{calls}{body}{_FINALE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """An attack told as Python source that defines `attack()`.

    It is held when `attack` raises OSError or returns something false, and through
    when it returns something true or a trap of the stage was touched.
    """

    body: str
    policy: dict[str, Any] = field(default_factory=dict)
    judge: Callable[[Stage, SandboxResult, Verdict], Verdict] | None = None
    silent_is_held: bool = False
    denied: bool = False

    def __call__(self, stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
        """Run the attack under the stage's policy and judge it."""
        policy = stage.policy(denied=self.denied, **self.policy)
        try:
            result = self.launch(stage, engine, policy)
        except SandboxError as error:
            return Verdict(outcome=Outcome.HELD, detail=f"refused to run: {error}")
        verdict = self.said(result)
        if self.judge is not None:
            verdict = self.judge(stage, result, verdict)
        touched = stage.touched()
        if touched:
            return Verdict(outcome=Outcome.THROUGH, detail=f"changed {touched}")
        return verdict

    def launch(
        self, stage: Stage, engine: BaseSandboxExecutor, policy: SandboxPolicy
    ) -> SandboxResult:
        """Run the source in the sandbox."""
        source = source_of(self.body, stage.facts())
        words = [interpreter(), "-I", "-S", "-B", "-c", source]
        return engine.run_command(words, policy, reply_limit_bytes=1 << 16)

    def said(self, result: SandboxResult) -> Verdict:
        """Read what the attack says about itself."""
        if not result.reply:
            ended = f"signal {result.signal}, status {result.returncode}"
            if self.silent_is_held:
                return Verdict(outcome=Outcome.HELD, detail=ended)
            tail = printable(result.stderr_text[-300:])
            return Verdict(outcome=Outcome.BROKEN, detail=f"{ended}: {tail}")
        outcome, _, detail = result.reply.decode("utf-8", "replace").partition("\0")
        try:
            verdict = Verdict(outcome=Outcome(outcome), detail=detail)
        except ValueError:
            return Verdict(outcome=Outcome.BROKEN, detail="unreadable answer")
        return replace(verdict, detail=printable(verdict.detail[:200]))


def held(detail: str = "") -> Verdict:
    """Say that the sandbox stood."""
    return Verdict(outcome=Outcome.HELD, detail=detail)


def through(detail: str = "") -> Verdict:
    """Say that the attack got what it wanted."""
    return Verdict(outcome=Outcome.THROUGH, detail=detail)


def row(
    number: str,
    name: str,
    mechanism: str,
    needs: tuple[Guarantee, ...],
    run: Callable[[Stage, BaseSandboxExecutor], Verdict],
    *,
    unconfined: bool = True,
    expected: str = "refused",
    reason: str = "",
) -> Attack:
    """Write one row of the corpus."""
    return Attack(
        id=number,
        name=name,
        expected=expected,
        mechanism=mechanism,
        needs=frozenset(needs),
        run=run,
        works_unconfined=unconfined,
        reason=reason,
    )

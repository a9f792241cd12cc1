"""Tell whether an environment marker can hold (PEP 508, PEP 751).

Markers have no negation beside ``!=`` and ``not in``, so an unknown comparison that
is taken as true can only add packages: an audit looks at too many, never at too few.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lazycore.licensing._errors import MissingExtraError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_CHARACTERS: Final = 65_536
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<bracket>[()])
      | (?P<text>'[^']*'|"[^"]*")
      | (?P<operator>===|==|~=|!=|<=|>=|<|>|not\s+in\b|in\b)
      | (?P<joint>and\b|or\b)
      | (?P<name>[A-Za-z_][\w.]*)
    )\s*""",
    re.VERBOSE,
)
_SETS: Final = ("extras", "dependency_groups")
# Old spellings that PEP 508 tells tools to go on reading.
_FLIPPED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Atom:
    """One comparison: a variable, an operator and a text."""

    name: str
    operator: str
    text: str


@dataclass(frozen=True, slots=True)
class Joint:
    """``and`` or ``or`` over the two values before it, in postfix order."""

    word: str


def normal(name: str) -> str:
    """Return an extra or a group in the form by which they are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker in postfix order.

    Examples:
        >>> marker = Marker.parse("'dev' in dependency_groups or os_name == 'nt'")
        >>> marker.mentioned("dependency_groups")
        ('dev',)
        >>> Marker.parse("'dev' in dependency_groups").may_hold(groups=("docs",))
        False
    """

    parts: tuple[Atom | Joint, ...]

    @classmethod
    def parse(cls, text: str) -> Marker:
        """Read a marker without recursion.

        Raises:
            SourceError: It is none.
        """
        if len(text) > MAX_CHARACTERS:
            raise SourceError(f"a marker of {len(text)} characters is not read")
        reader = _Postfix(text)
        tokens = _tokens(text)
        for kind, value in tokens:
            if kind in {"text", "name"}:
                reader.atom(_atom(kind, value, tokens, text))
            elif kind == "bracket":
                reader.bracket(value)
            else:
                reader.joint(value if kind == "joint" else "")
        return cls(reader.finish())

    def mentioned(self, name: str) -> tuple[str, ...]:
        """Return what the marker asks a set or ``extra`` for, in order."""
        found = (
            normal(part.text)
            for part in self.parts
            if isinstance(part, Atom) and part.name == name
        )
        return tuple(dict.fromkeys(found))

    def may_hold(
        self,
        *,
        extras: tuple[str, ...] | None = (),
        groups: tuple[str, ...] | None = (),
        environment: Mapping[str, str] | None = None,
    ) -> bool:
        """Tell whether the marker holds for some environment, or for the given one.

        Args:
            extras: Extras that are asked for, in normal form; None for any.
            groups: Dependency groups that are asked for, likewise.
            environment: Values of the other variables; None for any environment.

        Raises:
            MissingExtraError: An environment is given and ``packaging`` is absent.
        """
        values: list[bool] = []
        for part in self.parts:
            if isinstance(part, Atom):
                values.append(_holds(part, extras, groups, environment))
                continue
            right, left = values.pop(), values.pop()
            values.append(left and right if part.word == "and" else left or right)
        return values[0]


class _Postfix:
    """Bring a marker into postfix order; ``and`` binds closer than ``or``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.output: list[Atom | Joint] = []
        self.stack: list[str] = []
        self.wants_atom = True

    def check(self, *, fits: bool) -> None:
        if not fits:
            raise _fault(self.text)

    def atom(self, atom: Atom) -> None:
        self.check(fits=self.wants_atom)
        self.output.append(atom)
        self.wants_atom = False

    def bracket(self, which: str) -> None:
        self.check(fits=self.wants_atom == (which == "("))
        if which == "(":
            self.stack.append(which)
            return
        while self.stack and self.stack[-1] != "(":
            self.output.append(Joint(self.stack.pop()))
        self.check(fits=bool(self.stack))
        self.stack.pop()

    def joint(self, word: str) -> None:
        self.check(fits=bool(word) and not self.wants_atom)
        closer = {"and"} if word == "and" else {"and", "or"}
        while self.stack and self.stack[-1] in closer:
            self.output.append(Joint(self.stack.pop()))
        self.stack.append(word)
        self.wants_atom = True

    def finish(self) -> tuple[Atom | Joint, ...]:
        self.check(fits=not self.wants_atom and "(" not in self.stack)
        self.output += [Joint(word) for word in reversed(self.stack)]
        return tuple(self.output)


def this_environment() -> dict[str, str]:
    """Return the marker variables of the running interpreter.

    Raises:
        MissingExtraError: ``packaging`` is not installed.
    """
    try:
        from packaging.markers import default_environment
    except ImportError as error:
        raise _missing() from error
    return {key: str(value) for key, value in default_environment().items()}


def _missing() -> MissingExtraError:
    return MissingExtraError(
        "markers are compared with versions by packaging, which is not installed: "
        "pip install 'lazycore-licensing[versions]'"
    )


def _fault(text: str) -> SourceError:
    return SourceError(f"{text[:80]!r} is no environment marker")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _fault(text)
        position = found.end()
        kind = found.lastgroup or ""
        value = found[kind]
        yield kind, value[1:-1] if kind == "text" else " ".join(value.split())


def _atom(kind: str, value: str, tokens: Iterator[tuple[str, str]], text: str) -> Atom:
    middle, last = next(tokens, ("", "")), next(tokens, ("", ""))
    if middle[0] != "operator" or {kind, last[0]} != {"text", "name"}:
        raise _fault(text)
    operator = middle[1]
    if kind == "name":
        if last[1] in _SETS or value in _SETS:
            raise _fault(text)
        return Atom(value, operator, last[1])
    if last[1] in _SETS and operator not in {"in", "not in"}:
        raise _fault(text)
    if operator in {"in", "not in"} and last[1] not in _SETS:
        return Atom(last[1], f"text {operator}", value)
    return Atom(last[1], _FLIPPED.get(operator, operator), value)


def _holds(
    atom: Atom,
    extras: tuple[str, ...] | None,
    groups: tuple[str, ...] | None,
    environment: Mapping[str, str] | None,
) -> bool:
    if atom.name in {*_SETS, "extra"}:
        asked = groups if atom.name == "dependency_groups" else extras
        wanted = atom.operator in {"in", "==", "==="}
        return asked is None or (normal(atom.text) in asked) == wanted
    if environment is None:
        return True
    try:
        from packaging.markers import InvalidMarker, UndefinedEnvironmentName
        from packaging.markers import Marker as PackagingMarker
    except ImportError as error:
        raise _missing() from error
    quote = '"' if "'" in atom.text else "'"
    text = f"{quote}{atom.text}{quote}"
    words = (text, atom.operator.removeprefix("text "), atom.name)
    if not atom.operator.startswith("text "):
        words = (atom.name, atom.operator, text)
    try:
        return PackagingMarker(" ".join(words)).evaluate(dict(environment))
    except (InvalidMarker, UndefinedEnvironmentName) as error:
        raise SourceError(f"{' '.join(words)!r}: {error}") from error

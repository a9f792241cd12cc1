"""Read SPDX licence expressions: linear in the text, without recursion.

The grammar is annex D of the SPDX specification 2.3 (``AND``, ``OR``, ``WITH``,
``+``, ``LicenseRef-``, ``DocumentRef-``), with ``AdditionRef-`` of 3.0 and its
all-lowercase operators.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from lazycore.licensing._classes import spdx_exceptions, spdx_licenses
from lazycore.licensing._errors import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_CHARACTERS: Final = 4 << 20
SHORT_CHARACTERS: Final = 256
_TOKEN = re.compile(r"\s*(?:([()])|([A-Za-z0-9.:+-]+))")
_REFERENCE = re.compile(
    r"(?:DocumentRef-[A-Za-z0-9.-]+:)?LicenseRef-[A-Za-z0-9.-]+\Z", re.IGNORECASE
)
_ADDITION = re.compile(
    r"(?:DocumentRef-[A-Za-z0-9.-]+:)?AdditionRef-[A-Za-z0-9.-]+\Z", re.IGNORECASE
)
_NO_STATEMENT = frozenset({"NONE", "NOASSERTION"})
# Deprecated ids and what the list puts in their place.
_GNU = re.compile(r"(A?GPL|LGPL|GFDL)-(\d\.\d)(\+?)\Z")
_REPLACED: Final[dict[str, tuple[str, str | None]]] = {
    "GPL-2.0-with-autoconf-exception": ("GPL-2.0-only", "Autoconf-exception-2.0"),
    "GPL-2.0-with-bison-exception": ("GPL-2.0-only", "Bison-exception-2.2"),
    "GPL-2.0-with-classpath-exception": ("GPL-2.0-only", "Classpath-exception-2.0"),
    "GPL-2.0-with-font-exception": ("GPL-2.0-only", "Font-exception-2.0"),
    "GPL-2.0-with-GCC-exception": ("GPL-2.0-only", "GCC-exception-2.0"),
    "GPL-3.0-with-autoconf-exception": ("GPL-3.0-only", "Autoconf-exception-3.0"),
    "GPL-3.0-with-GCC-exception": ("GPL-3.0-only", "GCC-exception-3.1"),
    "StandardML-NJ": ("SMLNJ", None),
    "eCos-2.0": ("GPL-2.0-or-later", "eCos-exception-2.0"),
    "wxWindows": ("LGPL-2.0-or-later", "WxWindows-exception-3.1"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class License:
    """One licence of an expression, with the exception that goes with it.

    Attributes:
        id: Canonical SPDX id or reference, without ``+``.
        or_later: Whether the id is followed by ``+``.
        exception: Canonical exception id or ``AdditionRef-``, or None.

    Examples:
        >>> str(License(id="GPL-2.0-only", exception="Classpath-exception-2.0"))
        'GPL-2.0-only WITH Classpath-exception-2.0'
    """

    id: str
    or_later: bool = False
    exception: str | None = None

    def __str__(self) -> str:
        text = f"{self.id}+" if self.or_later else self.id
        return f"{text} WITH {self.exception}" if self.exception else text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Choice:
    """``OR`` of two or more operands: whoever uses the work elects one.

    Examples:
        >>> type(parse("MIT OR ISC").root).__name__
        'Choice'
    """

    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Conjunction:
    """``AND`` of two or more operands: all of them hold.

    Examples:
        >>> len(parse("MIT AND ISC AND Zlib").root.operands)
        3
    """

    operands: tuple[Node, ...]


Node = License | Choice | Conjunction


class Expression:
    """A parsed licence expression; ``str()`` is its canonical text.

    Two expressions are equal when their canonical texts are.

    Examples:
        >>> str(parse("mit or (apache-2.0 and bsd-3-clause)"))
        'MIT OR (Apache-2.0 AND BSD-3-Clause)'
    """

    __slots__ = ("_text", "root")

    def __init__(self, root: Node) -> None:
        self.root = root
        self._text = "".join(_words(root))

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Expression({self._text!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def licenses(self) -> Iterator[License]:
        """Yield every licence in source order."""
        stack: list[Node] = [self.root]
        while stack:
            node = stack.pop()
            if isinstance(node, License):
                yield node
            else:
                stack.extend(reversed(node.operands))


def _words(root: Node) -> Iterator[str]:
    """Yield the canonical text piece by piece, with the fewest parentheses.

    ``AND`` inside ``OR`` needs none by the grammar's precedence, but a reader
    does: both directions are put in parentheses.
    """
    stack: list[Node | str] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, License):
            yield str(item)
        else:
            word = " OR " if isinstance(item, Choice) else " AND "
            pieces: list[Node | str] = []
            for index, operand in enumerate(item.operands):
                if index:
                    pieces.append(word)
                if isinstance(operand, License):
                    pieces.append(operand)
                else:
                    pieces += ["(", operand, ")"]
            stack.extend(reversed(pieces))


def parse(text: str) -> Expression:
    """Parse an SPDX licence expression.

    Ids are matched in any letter case and deprecated ones replaced by what the SPDX
    list advises, so that equal licences have equal texts.

    Args:
        text: The expression, at most 4 MiB.

    Returns:
        The expression in canonical form.

    Raises:
        ExpressionError: If the text is not an expression or names an id that the
            SPDX list does not hold; ``position`` tells where.

    Examples:
        >>> str(parse("gpl-2.0+ with classpath-exception-2.0"))
        'GPL-2.0-or-later WITH Classpath-exception-2.0'
        >>> parse("MIT AND Apache")
        Traceback (most recent call last):
        ...
        lazycore.licensing._errors.ExpressionError: 'Apache' is not an SPDX id; \
did you mean 'Apache-1.0', 'Apache-1.1' or 'Apache-2.0'? (at character 8 of \
'MIT AND Apache')
    """
    return _parse(text, suggest=True)


def _parse(text: str, *, suggest: bool) -> Expression:
    # The parser refuses what is no text before it is measured.
    parser = _Parser(text, suggest=suggest)
    if len(text) <= SHORT_CHARACTERS:
        return _parse_short(text, suggest=suggest)
    return Expression(parser.run())


@lru_cache(maxsize=1024)
def _parse_short(text: str, *, suggest: bool) -> Expression:
    """Parse once what an environment states a hundred times."""
    return Expression(_Parser(text, suggest=suggest).run())


def normalize(text: str) -> Expression | None:
    """Parse what may be an expression, or return None.

    Examples:
        >>> normalize("BSD License") is None
        True
    """
    try:
        return _parse(text, suggest=False)
    except ExpressionError:
        return None


class _Parser:
    """Operator precedence with explicit stacks: WITH over AND over OR."""

    def __init__(self, text: str, *, suggest: bool) -> None:
        if not isinstance(text, str):
            raise TypeError(f"an expression is text, got {type(text).__name__}")
        if len(text) > MAX_CHARACTERS:
            raise ExpressionError(
                f"the expression has {len(text)} characters, more than the "
                f"{MAX_CHARACTERS} that are read",
                text=text,
                position=MAX_CHARACTERS,
            )
        self.text = text
        self.suggest = suggest  # names that are close, for a person who reads
        self.seen: dict[str, License] = {}
        # One frame per open parenthesis: its position, the finished operands of
        # OR, and those of the AND that is being read.
        self.frames: list[tuple[int, list[_Open], list[_Open]]] = [(0, [], [])]

    def fail(self, message: str, position: int) -> ExpressionError:
        return ExpressionError(message, text=self.text, position=position)

    def tokens(self) -> Iterator[tuple[str, int]]:
        position, end = 0, len(self.text.rstrip())
        while position < end:
            found = _TOKEN.match(self.text, position, end)
            if found is None:
                while self.text[position].isspace():
                    position += 1
                raise self.fail(
                    f"{self.text[position]!r} can't stand in an expression", position
                )
            kind = 1 if found[1] else 2
            yield found[kind], found.start(kind)
            position = found.end()

    def run(self) -> Node:
        wants_operand, addition_at = True, -1
        for word, at in self.tokens():
            operator = word.upper() if word in _OPERATORS else ""
            if addition_at >= 0:
                self._add_exception(word, at)
                addition_at = -1
            elif wants_operand:
                wants_operand = self._read_operand(word, at)
            elif word == ")":
                self._close(at)
            elif operator == "WITH":
                if self._follows_a_group(at):
                    raise self.fail("WITH follows one licence, not a group", at)
                addition_at = at
            elif operator:
                if operator == "OR":
                    self._next_choice()
                wants_operand = True
            else:
                raise self.fail(f"AND, OR or WITH must stand before {word!r}", at)
        return self._finish(wants_operand=wants_operand, addition_at=addition_at)

    def _read_operand(self, word: str, at: int) -> bool:
        """Open a group or take a licence; return whether one is still wanted."""
        if word == "(":
            self.frames.append((at, [], []))
            return True
        if word == ")" or word in _OPERATORS:
            raise self.fail(f"a licence must stand before {word!r}", at)
        if word not in self.seen:
            self.seen[word] = self._license(word, at)
        self.frames[-1][2].append(self.seen[word])
        return False

    def _follows_a_group(self, at: int) -> bool:
        while self.text[at - 1].isspace():
            at -= 1
        return self.text[at - 1] == ")"

    def _next_choice(self) -> None:
        _, choices, conjunction = self.frames[-1]
        choices.append(_join(Conjunction, conjunction))
        conjunction.clear()

    def _finish(self, *, wants_operand: bool, addition_at: int) -> Node:
        end = len(self.text.rstrip())
        if addition_at >= 0:
            raise self.fail("an exception must follow WITH", end)
        if len(self.frames) > 1:
            raise self.fail("this parenthesis is never closed", self.frames[-1][0])
        if wants_operand:
            raise self.fail("the expression ends where a licence must stand", end)
        _, choices, conjunction = self.frames[0]
        return _freeze(_join(Choice, [*choices, _join(Conjunction, conjunction)]))

    def _close(self, at: int) -> None:
        if len(self.frames) == 1:
            raise self.fail("this parenthesis closes nothing", at)
        _, choices, conjunction = self.frames.pop()
        group = _join(Choice, [*choices, _join(Conjunction, conjunction)])
        self.frames[-1][2].append(group)

    def _license(self, word: str, at: int) -> License:
        name = word.removesuffix("+")
        or_later = name != word
        if name in _NO_STATEMENT and not or_later:
            return License(id=name)
        if _REFERENCE.match(name):
            if or_later:
                raise self.fail("a LicenseRef takes no '+'", at + len(name))
            return License(id=_canonical_reference(name))
        found = spdx_licenses().get(word.casefold()) or spdx_licenses().get(
            name.casefold()
        )
        if found is None:
            raise self.fail(self._unknown("SPDX id", name, spdx_licenses()), at)
        if found.id.endswith("+"):
            name, or_later = found.id[:-1], True
        else:
            name = found.id
        if gnu := _GNU.match(name):
            suffix = "or-later" if or_later else "only"
            return License(id=f"{gnu[1]}-{gnu[2]}-{suffix}")
        if name.endswith(("-only", "-or-later")) and or_later:
            raise self.fail(f"{name} takes no '+'; write the -or-later id", at)
        if name in _REPLACED:
            replacement, exception = _REPLACED[name]
            return License(id=replacement, exception=exception)
        return License(id=name, or_later=or_later)

    def _add_exception(self, word: str, at: int) -> None:
        conjunction = self.frames[-1][2]
        licence = conjunction[-1]
        assert isinstance(licence, License)
        if licence.exception is not None:
            raise self.fail(f"{licence.id} has an exception already", at)
        if licence.id in _NO_STATEMENT:
            raise self.fail(f"{licence.id} takes no exception", at)
        if _ADDITION.match(word):
            exception = word
        else:
            known = spdx_exceptions().get(word.casefold())
            if known is None:
                what = "SPDX exception"
                raise self.fail(self._unknown(what, word, spdx_exceptions()), at)
            exception = known
        conjunction[-1] = License(
            id=licence.id, or_later=licence.or_later, exception=exception
        )

    def _unknown(self, what: str, name: str, known: Mapping[str, object]) -> str:
        told = f"{name!r} is not an {what}"
        return f"{told}; {_hint(name, known)}" if self.suggest else told


_OPERATORS = frozenset({"AND", "OR", "WITH", "and", "or", "with"})


class _Group:
    """A node that is still being read; deques let groups merge in linear time."""

    __slots__ = ("kind", "operands")

    def __init__(self, kind: type[Choice | Conjunction]) -> None:
        self.kind = kind
        self.operands: deque[_Open] = deque()


_Open = License | _Group


def _join(kind: type[Choice | Conjunction], operands: list[_Open]) -> _Open:
    """Combine operands, taking apart those of the same kind: AND of AND is AND.

    The largest of them takes the others in, so that deep one-sided nesting costs
    no more than its length.
    """
    if len(operands) == 1:
        return operands[0]
    parts = [
        o.operands if isinstance(o, _Group) and o.kind is kind else deque([o])
        for o in operands
    ]
    at = max(range(len(parts)), key=lambda index: len(parts[index]))
    group = _Group(kind)
    group.operands = parts[at]
    for part in reversed(parts[:at]):
        group.operands.extendleft(reversed(part))
    for part in parts[at + 1 :]:
        group.operands.extend(part)
    return group


def _freeze(root: _Open) -> Node:
    """Turn groups into nodes from the leaves up."""
    if isinstance(root, License):
        return root
    order: list[_Group] = []
    stack = [root]
    while stack:
        group = stack.pop()
        order.append(group)
        stack += [operand for operand in group.operands if isinstance(operand, _Group)]
    nodes: dict[int, Node] = {}
    for group in reversed(order):
        nodes[id(group)] = group.kind(
            tuple(
                operand if isinstance(operand, License) else nodes[id(operand)]
                for operand in group.operands
            )
        )
    return nodes[id(root)]


def _canonical_reference(text: str) -> str:
    document, colon, licence = text.rpartition(":")
    licence = "LicenseRef-" + licence[len("LicenseRef-") :]
    if colon:
        document = "DocumentRef-" + document[len("DocumentRef-") :]
    return f"{document}{colon}{licence}"


def _hint(name: str, known: Mapping[str, object]) -> str:
    import difflib

    folded = name.casefold()
    close = [key for key in known if folded and key.startswith(f"{folded}-")][:3]
    close = close or difflib.get_close_matches(folded[:80], known, n=3)
    canonical = [getattr(known[key], "id", known[key]) for key in close]
    if not canonical:
        return "use a LicenseRef- for a licence of one's own"
    *first, last = [repr(text) for text in canonical]
    joined = f"{', '.join(first)} or {last}" if first else last
    return f"did you mean {joined}?"

"""Judge an expression for a use: OR elects the mildest branch, AND takes the worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lazycore.licensing._classes import LicenseClass, classify
from lazycore.licensing._decision import (
    DECISIONS,
    Decision,
    Mitigation,
    RiskType,
    Usage,
    Verdict,
)
from lazycore.licensing._errors import LicenseDeniedError
from lazycore.licensing._expression import Choice, Expression, License, Node, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

_SEVERITY: Final = {Verdict.ALLOW: 0, Verdict.REVIEW: 1, Verdict.DENY: 2}
# Only exceptions that free the program that links or includes the work lower its
# class, and no further than weak copyleft: changes to the work itself stay under its
# licence. Every other exception, known to SPDX or not, changes nothing here.
_RELIEVES: Final = frozenset(
    (
        "Autoconf-exception-2.0",
        "Autoconf-exception-3.0",
        "Bison-exception-2.2",
        "Bootloader-exception",
        "Classpath-exception-2.0",
        "Font-exception-2.0",
        "GCC-exception-2.0",
        "GCC-exception-3.1",
        "WxWindows-exception-3.1",
        "eCos-exception-2.0",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What the policy says of one expression in one use.

    Attributes:
        expression: Canonical text of what was judged.
        usage: The use it was judged for.
        license_class: Class of the elected branch, the worst of its licences.
        risk: The risk that the verdict answers.
        verdict: ALLOW, REVIEW or DENY.
        mitigation: What the risk demands.
        elected: The licences that are kept, in source order, each once. Where the
            expression leaves a choice this is the branch that was chosen, and it
            belongs in the notice.
        reasons: One sentence per step that led here.
    """

    expression: str
    usage: Usage
    license_class: LicenseClass
    risk: RiskType
    verdict: Verdict
    mitigation: Mitigation
    elected: tuple[str, ...]
    reasons: tuple[str, ...]

    def check(self) -> None:
        """Raise if the verdict is DENY.

        Raises:
            LicenseDeniedError: With the reasons and the mitigation.
        """
        if self.verdict is Verdict.DENY:
            raise LicenseDeniedError(
                f"{self.expression} is denied for {self.usage}: "
                f"{' '.join(self.reasons)} {self.mitigation.text}"
            )


def license_class_of(
    licence: License, classes: Mapping[str, LicenseClass] | None = None
) -> LicenseClass:
    """Return the class of one licence with its exception.

    Args:
        licence: The licence.
        classes: Classes of own references, by casefolded id.

    Examples:
        >>> term = parse("GPL-2.0-only WITH Classpath-exception-2.0").root
        >>> license_class_of(term).name
        'WEAK_COPYLEFT'
    """
    kind = (classes or {}).get(licence.id.casefold(), classify(licence.id))
    if kind is LicenseClass.STRONG_COPYLEFT and licence.exception in _RELIEVES:
        return LicenseClass.WEAK_COPYLEFT
    return kind


class _Judged:
    """A node's decision and, as a chain of parts, the licences it keeps."""

    __slots__ = ("decision", "kind", "parts")

    def __init__(
        self,
        kind: LicenseClass,
        decision: Decision,
        parts: tuple[_Judged | License, ...],
    ) -> None:
        self.kind = kind
        self.decision = decision
        self.parts = parts

    @property
    def rank(self) -> tuple[int, LicenseClass]:
        return _SEVERITY[self.decision.verdict], self.kind


def _judge(
    root: Node, usage: Usage, classes: Mapping[str, LicenseClass] | None
) -> _Judged:
    """Judge every node once, from the leaves up, on an explicit stack."""
    order: list[Node] = []
    stack: list[Node] = [root]
    while stack:
        node = stack.pop()
        order.append(node)
        if not isinstance(node, License):
            stack.extend(node.operands)
    judged: dict[int, _Judged] = {}
    for node in reversed(order):
        if isinstance(node, License):
            kind = license_class_of(node, classes)
            judged[id(node)] = _Judged(kind, DECISIONS[kind, usage], (node,))
            continue
        branches = [judged[id(operand)] for operand in node.operands]
        if isinstance(node, Choice):
            # min() keeps the first of equals: ties go by source order.
            judged[id(node)] = min(branches, key=lambda branch: branch.rank)
        else:
            worst = max(branches, key=lambda branch: branch.rank)
            judged[id(node)] = _Judged(worst.kind, worst.decision, tuple(branches))
    return judged[id(root)]


def _kept(judged: _Judged) -> tuple[License, ...]:
    found: dict[License, None] = {}
    stack: list[_Judged | License] = [judged]
    while stack:
        item = stack.pop()
        if isinstance(item, License):
            found[item] = None
        else:
            stack.extend(reversed(item.parts))
    return tuple(found)


def assess(
    expression: Expression | str,
    *,
    usage: Usage | str = Usage.RUNTIME_INTERNAL,
    classes: Mapping[str, LicenseClass] | None = None,
) -> Assessment:
    """Say what the isolation policy demands of a licence for a use.

    Args:
        expression: A parsed expression or its text.
        usage: How the work is used; the default is a dependency at run time.
        classes: Classes of own ``LicenseRef-`` ids, by casefolded id.

    Returns:
        The verdict with its risk, its mitigation and the elected branch.

    Raises:
        ExpressionError: If the text is not an expression.
        ValueError: If the usage is none of `Usage`.

    Examples:
        >>> verdict = assess("Apache-2.0 OR GPL-2.0-or-later", usage="distributed")
        >>> verdict.verdict.value, verdict.elected
        ('allow', ('Apache-2.0',))
    """
    parsed = parse(expression) if isinstance(expression, str) else expression
    use = Usage(usage)
    judged = _judge(parsed.root, use, classes)
    kept = _kept(judged)
    decision = judged.decision
    reasons = []
    everything = tuple(dict.fromkeys(parsed.licenses()))
    if kept != everything:
        names = " AND ".join(map(str, kept))
        reasons.append(f"Of the choices, {names} asks the least.")
    worst = next(
        term for term in kept if license_class_of(term, classes) is judged.kind
    )
    reasons.append(f"{worst} is {judged.kind.slug}.")
    reasons.append(f"{judged.kind.slug} for {use} is {decision.verdict}.")
    return Assessment(
        expression=str(parsed),
        usage=use,
        license_class=judged.kind,
        risk=decision.risk,
        verdict=decision.verdict,
        mitigation=decision.mitigation,
        elected=tuple(str(term) for term in kept),
        reasons=tuple(reasons),
    )

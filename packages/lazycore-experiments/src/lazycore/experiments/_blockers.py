"""What stands between a study and its start: code, message, fix."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Blocker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One reason why a study may not start.

    Attributes:
        code: Stable word for programs: ``tree-drift``, ``interpreter-drift``,
            ``environment-drift``, ``sdk-drift``, ``variable-missing``, ``licence``
            or ``sandbox``.
        message: What was found.
        fix: What to do.

    Examples:
        >>> print(Blocker(code="tree-drift", message="worker.py changed", fix="lock"))
        tree-drift: worker.py changed; lock
    """

    code: str
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}; {self.fix}"

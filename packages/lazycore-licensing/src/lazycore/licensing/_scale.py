"""Hold what was read of a distribution while it is weighed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazycore.licensing._findings import BundledLicense, Confidence, Evidence

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.licensing._file_roles import FileOpinion
    from lazycore.licensing._metadata import Metadata


@dataclass(slots=True, kw_only=True)
class Decision:
    """What the weighing came to."""

    expression: str | None = None
    source: str = "none"
    confidence: Confidence = Confidence.GUESS
    evidence: tuple[Evidence, ...] = ()
    conflicts: tuple[str, ...] = ()
    bundled: tuple[BundledLicense, ...] = ()


@dataclass(slots=True)
class Scale:
    """Everything that was read, while it is weighed.

    Attributes:
        metadata: Headers and description.
        files: What the distribution's own licence files say.
        notices: Gives the heads of its top modules, read only if needed.
        exact: Ids that classifiers name.
        vague: Families that classifiers name without fixing a licence.
        proprietary: Whether a classifier says ``Other/Proprietary License``.
    """

    metadata: Metadata
    files: FileOpinion
    notices: Callable[[], str]
    exact: list[str] = field(default_factory=list)
    vague: list[str] = field(default_factory=list)
    proprietary: bool = False
    evidence: list[Evidence] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    def saw(self, kind: str, where: str, says: str) -> None:
        """Record one piece of evidence."""
        self.evidence.append(Evidence(kind=kind, where=where, says=says))

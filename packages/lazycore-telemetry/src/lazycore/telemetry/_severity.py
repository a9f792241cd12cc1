"""How bad a finding is, in the words of every system that will read it."""

from __future__ import annotations

import enum
import math
from typing import Final

from lazycore.telemetry._errors import TelemetryUsageError

__all__ = ["SecuritySeverity"]


class SecuritySeverity(str, enum.Enum):  # noqa: UP042 - StrEnum would change str()
    """Severity of a security finding; members order from `INFO` to `CRITICAL`.

    The numbers follow CVSS 3.1 and 4.0 rating scales, SARIF 2.1.0 `level` and the
    `security-severity` property of code-scanning services, OCSF `severity_id` and
    the severity numbers of the OpenTelemetry log data model.

    Example:
        >>> SecuritySeverity("high").sarif_level
        'error'
        >>> SecuritySeverity.LOW < SecuritySeverity.HIGH
        True
        >>> SecuritySeverity.from_cvss(9.8)
        <SecuritySeverity.CRITICAL: 'critical'>
    """

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @classmethod
    def parse(cls, value: SecuritySeverity | str) -> SecuritySeverity:
        """Return the member for a member or its exact value.

        Raises:
            TelemetryUsageError: If the value is no severity.

        Example:
            >>> SecuritySeverity.parse("medium")
            <SecuritySeverity.MEDIUM: 'medium'>
        """
        try:
            return cls(value)
        except ValueError:
            known = ", ".join(member.value for member in cls)
            raise TelemetryUsageError(
                f"unknown severity {value!r}: give one of {known}"
            ) from None

    @classmethod
    def from_cvss(cls, score: float) -> SecuritySeverity:
        """Return the severity of a CVSS base score from 0.0 to 10.0.

        Raises:
            TelemetryUsageError: If the score lies outside the scale.

        Example:
            >>> SecuritySeverity.from_cvss(0.0)
            <SecuritySeverity.INFO: 'info'>
        """
        score = check_cvss(score)
        if score == 0:
            return cls.INFO
        for bound, member in ((4, cls.LOW), (7, cls.MEDIUM), (9, cls.HIGH)):
            if score < bound:
                return member
        return cls.CRITICAL

    @property
    def sarif_level(self) -> str:
        """SARIF `level`: note, warning or error."""
        return _SCALES[self.value][0]

    @property
    def security_severity(self) -> float:
        """Typical CVSS score, where a finding has none of its own."""
        return _SCALES[self.value][1]

    @property
    def ocsf_id(self) -> int:
        """OCSF `severity_id`, 1 (Informational) to 5 (Critical)."""
        return _SCALES[self.value][2]

    @property
    def otel_severity(self) -> int:
        """Severity number of the OpenTelemetry log data model."""
        return _SCALES[self.value][3]

    @property
    def rank(self) -> int:
        """Position in the order, 0 for `INFO`."""
        return self.ocsf_id - 1

    def __lt__(self, other: str) -> bool:
        return self.rank < self._other(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= self._other(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > self._other(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= self._other(other).rank

    @classmethod
    def _other(cls, other: str) -> SecuritySeverity:
        return other if isinstance(other, cls) else cls.parse(other)


_SCALES: Final = {
    "info": ("note", 0.0, 1, 9),
    "low": ("note", 2.0, 2, 12),
    "medium": ("warning", 5.5, 3, 13),
    "high": ("error", 8.0, 4, 17),
    "critical": ("error", 9.5, 5, 21),
}


def check_cvss(score: object) -> float:
    """Return a CVSS base score as a float, or raise for what is none."""
    if (
        isinstance(score, bool)
        or not isinstance(score, (int, float))
        or not (math.isfinite(score) and 0 <= score <= 10)
    ):
        raise TelemetryUsageError(
            f"a CVSS base score lies between 0.0 and 10.0, not {score!r}"
        )
    return float(score)

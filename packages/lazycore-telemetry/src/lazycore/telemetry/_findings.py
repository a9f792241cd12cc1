"""Security findings: one record, written to spans, SARIF and OCSF."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazycore.telemetry import _events, _runtime
from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._names import (
    ATTR_OWASP_MAPPING,
    ATTR_SECURITY_SEVERITY,
    EVENT_FINDING,
)
from lazycore.telemetry._policy import measure
from lazycore.telemetry._severity import SecuritySeverity, check_cvss
from lazycore.telemetry._target import target_span
from lazycore.telemetry._taxonomy import atlas_ids, cve_ids, cwe_ids, owasp_ids
from lazycore.telemetry._text import as_text, metadata

if TYPE_CHECKING:
    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._span import GenAISpan
    from lazycore.telemetry._values import JSON

__all__ = ["Finding", "set_security_finding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One security finding with checked, canonical identifiers.

    Attributes:
        severity: How bad it is.
        owasp: OWASP identifiers, canonical and sorted.
        atlas: MITRE ATLAS identifiers.
        cwe: CWE identifiers.
        cve: CVE identifiers.
        cvss: CVSS base score; it must lie in the band of the severity.
        rule_id: Which check found it.
        title: What it is, in one line; it is not content, so put no model text here.
        category: Category of the rule; the first OWASP risk's name by default.
        evidence: What proves it. It is content: recorded as the policy allows, and
            never in `to_sarif_result` or `to_ocsf` unless asked for.
        finding_id: Stable identifier; derived from the other fields by default.
        verdict: What the check concluded, such as `vulnerable`.
        action: What was done, such as `blocked`.
        target: What was attacked, such as an agent or a tool.

    Raises:
        TelemetryUsageError: If a field is malformed.

    Example:
        >>> finding = Finding(severity="high", owasp="LLM01", rule_id="probe-7")
        >>> finding.owasp
        ('LLM01:2025',)
        >>> finding.to_sarif_result()["level"]
        'error'
    """

    severity: SecuritySeverity
    owasp: tuple[str, ...] = ()
    atlas: tuple[str, ...] = ()
    cwe: tuple[str, ...] = ()
    cve: tuple[str, ...] = ()
    cvss: float | None = None
    rule_id: str | None = None
    title: str | None = None
    category: str | None = None
    evidence: object = None
    finding_id: str | None = None
    verdict: str | None = None
    action: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        """Check every field and make identifiers canonical."""
        put = object.__setattr__
        put(self, "severity", SecuritySeverity.parse(self.severity))
        for name, read in (
            ("owasp", owasp_ids),
            ("atlas", atlas_ids),
            ("cwe", cwe_ids),
            ("cve", cve_ids),
        ):
            value = getattr(self, name)
            if not isinstance(value, (str, Iterable)) or isinstance(value, bytes):
                raise TelemetryUsageError(f"{name} is an identifier or a list of them")
            put(self, name, read(value))
        if self.cvss is not None:
            score = check_cvss(self.cvss)
            put(self, "cvss", score)
            band = SecuritySeverity.from_cvss(score)
            if band is not self.severity:
                raise TelemetryUsageError(
                    f"cvss {score} means {band.value}, severity says "
                    f"{self.severity.value}: give SecuritySeverity.from_cvss({score})"
                )
        for name in ("rule_id", "title", "category", "verdict", "action", "target"):
            value = getattr(self, name)
            if value is not None:
                put(self, name, metadata(value))
        identity = self.finding_id
        put(
            self,
            "finding_id",
            self._identity() if identity is None else metadata(identity),
        )

    def _identity(self) -> str:
        """Return the same identifier for the same finding, run after run."""
        parts = (
            self.rule_id or "",
            self.target or "",
            self.title or "",
            *self.owasp,
            *self.atlas,
            *self.cwe,
            *self.cve,
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    @property
    def score(self) -> float:
        """The CVSS score, or the typical one of the severity."""
        return self.severity.security_severity if self.cvss is None else self.cvss

    def to_sarif_result(self, *, evidence: bool = False) -> dict[str, JSON]:
        """Return a SARIF 2.1.0 `result`.

        Args:
            evidence: Whether the evidence is written too.

        Example:
            >>> finding = Finding(severity="low", rule_id="r", title="Leaky prompt")
            >>> finding.to_sarif_result()["message"]
            {'text': 'Leaky prompt'}
        """
        from lazycore.telemetry._reports import sarif_result

        return sarif_result(self, evidence=evidence)

    def to_ocsf(
        self, *, time_ms: int | None = None, evidence: bool = False
    ) -> dict[str, JSON]:
        """Return an OCSF Vulnerability Finding (class 2002).

        Args:
            time_ms: When it was found, in milliseconds since the epoch; now by
                default.
            evidence: Whether the evidence is written too.

        Example:
            >>> Finding(severity="critical").to_ocsf(time_ms=0)["severity_id"]
            5
        """
        from lazycore.telemetry._reports import ocsf_finding

        return ocsf_finding(self, time_ms=time_ms, evidence=evidence)

    def attributes(self) -> dict[str, AttributeValue]:
        """Return the attributes of the finding without its evidence."""
        found: dict[str, AttributeValue] = {
            ATTR_SECURITY_SEVERITY: self.severity.value,
            "security.finding.id": str(self.finding_id),
        }
        more: dict[str, AttributeValue | None] = {
            ATTR_OWASP_MAPPING: self.owasp,
            "security.finding.atlas": self.atlas,
            "security.finding.cwe": self.cwe,
            "security.finding.cve": self.cve,
            "security.finding.cvss": self.cvss,
            "security.finding.title": self.title,
            "security.finding.verdict": self.verdict,
            "security.finding.action": self.action,
            "security.finding.target": self.target,
            "security_rule.name": self.rule_id,
            "security_rule.category": self.category,
        }
        found |= {name: v for name, v in more.items() if v is not None and v != ()}
        return found


def set_security_finding(
    span: Span | GenAISpan,
    severity: SecuritySeverity | str,
    owasp: str | Iterable[str] = (),
    *,
    owasp_mapping: str | Iterable[str] | None = None,
    rule_id: str | None = None,
    title: str | None = None,
    category: str | None = None,
    cvss: float | None = None,
    atlas: str | Iterable[str] = (),
    cwe: str | Iterable[str] = (),
    cve: str | Iterable[str] = (),
    evidence: object = None,
    finding_id: str | None = None,
    verdict: str | None = None,
    action: str | None = None,
    target: str | None = None,
) -> Finding:
    """Write a security finding to a span and emit it as a `security.finding` event.

    The span's attributes hold the last finding; each finding has an event of its
    own. A finding is a result, so the span's status stays as it is.

    Args:
        span: The span of the probe that found it.
        severity: A `SecuritySeverity` or its value.
        owasp: OWASP identifiers, such as `LLM01` or `ASI02:2026`.
        owasp_mapping: The same under its former name.
        rule_id: Which check found it.
        title: What it is, in one line, without model text.
        category: Category of the rule.
        cvss: CVSS base score; must lie in the band of the severity.
        atlas: MITRE ATLAS identifiers.
        cwe: CWE identifiers.
        cve: CVE identifiers.
        evidence: What proves it; recorded as the content policy allows.
        finding_id: Stable identifier.
        verdict: What the check concluded.
        action: What was done.
        target: What was attacked.

    Returns:
        The finding, for SARIF and OCSF.

    Raises:
        TelemetryUsageError: If an argument is malformed; with and without an SDK.

    Example:
        >>> from lazycore.telemetry import genai_span
        >>> with genai_span("audit.probe") as span:
        ...     finding = set_security_finding(span, "high", ["LLM01", "ASI-01"])
        >>> finding.owasp
        ('ASI01:2026', 'LLM01:2025')
    """
    if owasp_mapping is not None:
        if owasp:
            raise TelemetryUsageError("owasp and owasp_mapping are one: give one")
        owasp = owasp_mapping
    finding = Finding(
        severity=SecuritySeverity.parse(severity),
        owasp=_tuple(owasp),
        atlas=_tuple(atlas),
        cwe=_tuple(cwe),
        cve=_tuple(cve),
        cvss=cvss,
        rule_id=rule_id,
        title=title,
        category=category,
        evidence=evidence,
        finding_id=finding_id,
        verdict=verdict,
        action=action,
        target=target,
    )
    opened = target_span(span)
    if opened is not None and (
        opened.is_recording() or opened.get_span_context().is_valid
    ):
        _write(opened, finding)
    return finding


def _tuple(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _write(span: Span, finding: Finding) -> None:
    runtime = _runtime.current()
    policy = runtime.settings.policy
    attributes = finding.attributes()
    evidence = finding.evidence
    text: str | None = None
    if evidence is not None:
        attributes["security.finding.evidence.length"] = measure(
            (evidence if isinstance(evidence, (str, bytes)) else as_text(evidence),)
        )
        digest = policy.digest(evidence)
        if digest is not None:
            attributes["security.finding.evidence.hmac_sha256"] = digest
        if policy.captures:
            text = policy.text("evidence", evidence)
    on_span = dict(attributes)
    on_log: dict[str, JSON] = dict(attributes)  # type: ignore[arg-type] # scalars and lists
    if text is not None:
        if policy.mode.on_span:
            on_span["security.finding.evidence"] = text
        if policy.mode.on_event:
            on_log["security.finding.evidence"] = text
    if span.is_recording():
        span.set_attributes(on_span)
    _events.emit(
        runtime,
        span,
        EVENT_FINDING,
        on_span,
        structured=on_log,
        severity=finding.severity.otel_severity,
    )

"""Hold packages against a policy and say what to do about each."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lazycore.licensing._assess import Assessment, assess
from lazycore.licensing._classes import LicenseClass
from lazycore.licensing._decision import DECISIONS, Usage, Verdict
from lazycore.licensing._errors import LicenseDeniedError
from lazycore.licensing._findings import Confidence, LicenseFinding
from lazycore.licensing._policy import Clarification, Policy, PolicyException
from lazycore.licensing._versions import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lazycore.licensing._sources import Package

SEVERITY: Final = {Verdict.ALLOW: 0, Verdict.REVIEW: 1, Verdict.DENY: 2}
WARN_DAYS: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One thing to act on.

    Attributes:
        rule: Stable id, ``LZ001`` and on.
        verdict: DENY fails the audit, REVIEW asks a person, ALLOW is a note.
        package: Normalised name; empty when it is about the policy.
        version: Its version; empty when unknown.
        message: What was found and what to do.
        where: File, or file and line, that it is about.

    Examples:
        >>> from lazycore.licensing import Package
        >>> finding = audit([Package(name="x", where="uv.lock:3")]).findings[0]
        >>> finding.rule, finding.verdict.value, finding.where
        ('LZ003', 'review', 'uv.lock:3')
    """

    rule: str
    verdict: Verdict
    package: str
    version: str
    message: str
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditItem:
    """One package with its verdict.

    Attributes:
        package: Normalised name.
        version: Its version.
        usage: The use that decided.
        finding: Its licence and the evidence.
        assessment: What the table says; None without a known licence.
        verdict: After exceptions.
        excepted: Reason of the exception that admitted it, or empty.
        where: File, or file and line, of the input that names it.

    Examples:
        >>> from lazycore.licensing import Package, resolve
        >>> known = Package(name="x", finding=resolve("lazycore-licensing"))
        >>> item = audit([known]).items[0]
        >>> item.verdict.value, item.usage.value
        ('allow', 'runtime-internal')
    """

    package: str
    version: str
    usage: Usage
    finding: LicenseFinding
    assessment: Assessment | None
    verdict: Verdict
    excepted: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """Every package and every finding, in a fixed order.

    Attributes:
        items: Packages by name and version.
        findings: Findings by severity, rule and package.
        policy: The policy that was applied.

    Examples:
        >>> from lazycore.licensing import Package
        >>> audit([]).exit_code, audit([Package(name="x")]).exit_code
        (0, 3)
    """

    items: tuple[AuditItem, ...]
    findings: tuple[AuditFinding, ...]
    policy: Policy

    @property
    def exit_code(self) -> int:
        """0 clean, 1 something is denied, 3 something is to be reviewed."""
        verdicts = {finding.verdict for finding in self.findings}
        if Verdict.DENY in verdicts:
            return 1
        return 3 if Verdict.REVIEW in verdicts else 0

    def raise_for_violations(self) -> None:
        """Raise if anything is denied.

        Raises:
            LicenseDeniedError: With one line per denial.
        """
        denied = [f for f in self.findings if f.verdict is Verdict.DENY]
        if denied:
            raise LicenseDeniedError("\n".join(one.message for one in denied))


def audit(
    packages: Iterable[Package],
    *,
    policy: Policy | None = None,
    usage: Usage | str | None = None,
    evidence: Mapping[str, LicenseFinding] | None = None,
    today: dt.date | None = None,
) -> AuditReport:
    """Judge packages by a policy.

    Args:
        packages: What to judge, from `read_environment`, `read_lock`,
            `read_cyclonedx` or `read_conda`.
        policy: The policy; the plain decision table when None.
        usage: Judge every package for this use instead of the policy's.
        evidence: Licences by normalised name, from a snapshot or `read_environment`:
            the licence of inputs that state none, a comparison for those that do.
        today: For expiry; the current UTC day when None.

    Examples:
        >>> from lazycore.licensing import Package
        >>> [finding.rule for finding in audit([Package(name="x")]).findings]
        ['LZ003', 'LZ012']
    """
    rules = policy or Policy()
    day = today or dt.datetime.now(dt.UTC).date()
    auditor = _Auditor(rules, evidence or {}, day, Usage(usage) if usage else None)
    items = [auditor.judge(package) for package in packages]
    auditor.close()
    return AuditReport(
        items=tuple(sorted(items, key=lambda item: (item.package, item.version))),
        findings=tuple(
            sorted(
                set(auditor.findings),
                key=lambda f: (
                    -SEVERITY[f.verdict],
                    f.rule,
                    f.package,
                    f.version,
                    f.message,
                ),
            )
        ),
        policy=rules,
    )


class _Auditor:
    def __init__(
        self,
        policy: Policy,
        evidence: Mapping[str, LicenseFinding],
        today: dt.date,
        usage: Usage | None,
    ) -> None:
        self.policy = policy
        self.evidence = evidence
        self.today = today
        self.usage = usage
        self.findings: list[AuditFinding] = []
        self.used: set[Clarification | PolicyException] = set()
        for exception in policy.exceptions:
            left = (exception.expires - today).days
            if left <= 0:
                self._about(
                    "LZ006",
                    Verdict.REVIEW,
                    exception.package,
                    f"the exception of {exception.owner} expired on "
                    f"{exception.expires}; renew or remove it",
                    exception.line,
                )
            elif left <= WARN_DAYS:
                self._about(
                    "LZ007",
                    Verdict.ALLOW,
                    exception.package,
                    f"the exception expires in {left} days, on {exception.expires}",
                    exception.line,
                )

    def _about(
        self, rule: str, verdict: Verdict, package: str, message: str, where: str = ""
    ) -> None:
        self.findings.append(
            AuditFinding(
                rule=rule,
                verdict=verdict,
                package=package,
                version="",
                message=f"{package}: {message}",
                where=where,
            )
        )

    def _note(
        self, rule: str, verdict: Verdict, package: Package, message: str
    ) -> None:
        title = f"{package.name} {package.version}".strip()
        self.findings.append(
            AuditFinding(
                rule=rule,
                verdict=verdict,
                package=package.name,
                version=package.version,
                message=f"{title}: {message}",
                where=package.where,
            )
        )

    def judge(self, package: Package) -> AuditItem:
        finding = self._clarified(package, self._finding(package))
        usages = (self.usage,) if self.usage else package.usages
        usages = usages or (self.policy.default_usage,)
        # Several uses: the one with the hardest verdict, after exceptions, decides.
        judged = [self._judge_use(package, finding, usage) for usage in usages]
        verdict, usage, assessment, excepted = max(
            judged, key=lambda one: SEVERITY[one[0]]
        )
        self._report(package, finding, assessment, usage, verdict)
        self._bundled(package, finding, usages)
        return AuditItem(
            package=package.name,
            version=package.version or finding.version,
            usage=usage,
            finding=finding,
            assessment=assessment,
            verdict=verdict,
            excepted=excepted,
            where=package.where,
        )

    def _judge_use(
        self, package: Package, finding: LicenseFinding, usage: Usage
    ) -> tuple[Verdict, Usage, Assessment | None, str]:
        assessment = self._assess(finding, usage)
        verdict = self._verdict(assessment, usage)
        if verdict is not Verdict.ALLOW and assessment is not None:
            version = package.version or finding.version
            exception = self._exception(package.name, version, assessment)
            if exception is not None:
                return Verdict.ALLOW, usage, assessment, exception.reason
        return verdict, usage, assessment, ""

    def _finding(self, package: Package) -> LicenseFinding:
        found = self.evidence.get(package.name)
        if package.finding is not None:
            if found is not None:
                self._compare(package, found, package.finding)
            return package.finding
        if found is None:
            if not self._stated(package):
                self._note(
                    "LZ012",
                    Verdict.REVIEW,
                    package,
                    "neither the environment nor the snapshot knows it; take a "
                    "snapshot where it is installed",
                )
            return LicenseFinding(
                name=package.name,
                version=package.version,
                expression=None,
                source="none",
                confidence=Confidence.GUESS,
            )
        if package.version and found.version and found.version != package.version:
            self._note(
                "LZ014",
                Verdict.REVIEW,
                package,
                f"the evidence is for version {found.version}; a licence may change "
                "between versions",
            )
        return found

    def _stated(self, package: Package) -> bool:
        """Tell whether the policy states the licence of a version without a text."""
        return any(
            fact.package == package.name
            and fact.text_sha256 is None
            and matches(fact.version, package.version)
            for fact in self.policy.clarifications
        )

    def _compare(
        self, package: Package, old: LicenseFinding, new: LicenseFinding
    ) -> None:
        """Report a licence that is not the one of the snapshot."""
        if old.expression != new.expression:
            was, now = old.expression or "unknown", new.expression or "unknown"
            message = f"the licence was {was} and is {now}; read it, then snapshot"
        elif old.text_sha256 != new.text_sha256:
            message = "the licence text changed; read it, then snapshot"
        else:
            return
        self._note("LZ011", Verdict.REVIEW, package, message)

    def _clarified(self, package: Package, finding: LicenseFinding) -> LicenseFinding:
        for fact in self.policy.clarifications:
            version = package.version or finding.version
            if fact.package != package.name or not matches(fact.version, version):
                continue
            self.used.add(fact)
            if fact.text_sha256 != finding.text_sha256:
                self._about(
                    "LZ009",
                    Verdict.REVIEW,
                    package.name,
                    "the clarification is for another licence text; read the new one",
                    fact.line,
                )
                continue
            return replace(
                finding,
                expression=fact.expression,
                source="policy",
                confidence=Confidence.EXACT,
                conflicts=(),
            )
        return finding

    def _assess(self, finding: LicenseFinding, usage: Usage) -> Assessment | None:
        if finding.expression is None:
            return None
        return self._assessed(finding.expression, usage)

    def _assessed(self, expression: str, usage: Usage) -> Assessment:
        return assess(expression, usage=usage, classes=self.policy.classes)

    def _verdict(self, assessment: Assessment | None, usage: Usage) -> Verdict:
        unknown = assessment is None or assessment.license_class is LicenseClass.UNKNOWN
        if unknown and self.policy.unknown is not None:
            return self.policy.unknown
        if assessment is None:
            return DECISIONS[LicenseClass.UNKNOWN, usage].verdict
        return assessment.verdict

    def _exception(
        self, name: str, version: str, assessment: Assessment
    ) -> PolicyException | None:
        usage = assessment.usage
        for exception in self.policy.exceptions:
            if exception.package != name or not matches(exception.version, version):
                continue
            if exception.usages and usage not in exception.usages:
                continue
            if not self._admits(exception, assessment):
                continue
            self.used.add(exception)
            if exception.expires > self.today:
                return exception
        return None

    def _admits(self, exception: PolicyException, assessment: Assessment) -> bool:
        """Tell whether each licence that is kept is allowed, here or by the table."""
        if assessment.expression in exception.allow:
            return True
        return all(
            licence in exception.allow
            or self._assessed(licence, assessment.usage).verdict is Verdict.ALLOW
            for licence in assessment.elected
        )

    def _report(
        self,
        package: Package,
        finding: LicenseFinding,
        assessment: Assessment | None,
        usage: Usage,
        verdict: Verdict,
    ) -> None:
        if verdict is not Verdict.ALLOW:
            if assessment is None:
                decision = DECISIONS[LicenseClass.UNKNOWN, usage]
                text = f"no licence is known ({usage}). {decision.mitigation.text}"
                self._note("LZ003", verdict, package, text)
            else:
                rule = "LZ001" if verdict is Verdict.DENY else "LZ002"
                text = (
                    f"{assessment.expression} for {usage}. {assessment.mitigation.text}"
                )
                self._note(rule, verdict, package, text)
        for conflict in finding.conflicts:
            self._note("LZ004", Verdict.REVIEW, package, conflict)
        if finding.source == "readme":
            self._note(
                "LZ013",
                Verdict.REVIEW,
                package,
                f"{finding.expression} is read from prose; verify it and clarify",
            )

    def _bundled(
        self, package: Package, finding: LicenseFinding, usages: tuple[Usage, ...]
    ) -> None:
        """Report what is shipped beside the package's own code and is stricter."""
        if self.policy.bundled is Verdict.ALLOW:
            return
        version = package.version or finding.version
        for usage in usages:
            base = SEVERITY[self._verdict(self._assess(finding, usage), usage)]
            for item in finding.bundled:
                if item.expression is None:
                    continue
                found = self._assessed(item.expression, usage)
                if SEVERITY[found.verdict] <= base or self._exception(
                    package.name, version, found
                ):
                    continue
                self._note(
                    "LZ005",
                    self.policy.bundled,
                    package,
                    f"ships {item.path} ({item.reason}) under {item.expression}, "
                    f"{found.license_class.slug} for {usage}. "
                    f"{found.mitigation.text}",
                )

    def close(self) -> None:
        for exception in self.policy.exceptions:
            if exception not in self.used:
                self._about(
                    "LZ008",
                    Verdict.ALLOW,
                    exception.package,
                    "the exception admits nothing; remove it",
                    exception.line,
                )
        for fact in self.policy.clarifications:
            if fact not in self.used:
                self._about(
                    "LZ010",
                    Verdict.ALLOW,
                    fact.package,
                    "the clarification speaks of no package here; remove it",
                    fact.line,
                )

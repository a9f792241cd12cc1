"""The isolation policy as data."""

from __future__ import annotations

import pytest

from lazycore.licensing import (
    DECISIONS,
    RISK_MITIGATIONS,
    LicenseClass,
    LicenseDeniedError,
    Mitigation,
    RiskType,
    Usage,
    Verdict,
    assess,
)


def test_the_table_has_a_decision_for_every_class_in_every_usage() -> None:
    assert set(DECISIONS) == {(kind, use) for kind in LicenseClass for use in Usage}


def test_every_risk_has_a_mitigation_and_every_mitigation_a_sentence() -> None:
    assert set(RISK_MITIGATIONS) == set(RiskType)
    assert set(RISK_MITIGATIONS.values()) == set(Mitigation)
    assert all(mitigation.text.endswith(".") for mitigation in Mitigation)


def test_no_risk_means_allowed_and_a_risk_means_more() -> None:
    for decision in DECISIONS.values():
        assert (decision.risk is RiskType.NONE) == (decision.verdict is Verdict.ALLOW)


def test_the_tables_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        DECISIONS[LicenseClass.UNKNOWN, Usage.DISTRIBUTED] = None  # type: ignore[index]
    with pytest.raises(TypeError):
        RISK_MITIGATIONS[RiskType.NONE] = None  # type: ignore[index]


POLICY = [
    ("GPL-3.0-only", Usage.BUILD_TIME, RiskType.GPL_AT_BUILD_TIME),
    (
        "AGPL-3.0-only",
        Usage.OPTIONAL_BUILD,
        RiskType.RESTRICTIVE_OPTIONAL_BUILD_DEPENDENCY,
    ),
    ("AGPL-3.0-only", Usage.RUNTIME_INTERNAL, RiskType.COPYLEFT_RUNTIME_INTERNAL),
    ("GPL-3.0-only", Usage.RUNTIME_INTERNAL, RiskType.COPYLEFT_RUNTIME_INTERNAL),
    ("AGPL-3.0-only", Usage.NETWORK_FACING, RiskType.COPYLEFT_NETWORK_FACING),
    ("GPL-3.0-only", Usage.NETWORK_FACING, RiskType.COPYLEFT_NETWORK_FACING),
    ("BUSL-1.1", Usage.DISTRIBUTED, RiskType.SOURCE_AVAILABLE_NON_COMPETE),
    ("CC-BY-NC-4.0", Usage.WEIGHTS_COMMERCIAL, RiskType.NON_COMMERCIAL_WEIGHTS),
]


@pytest.mark.parametrize(
    ("text", "usage", "risk"), POLICY, ids=[f"{row[0]}-{row[1]}" for row in POLICY]
)
def test_each_risk_of_the_isolation_policy_is_found(
    text: str, usage: Usage, risk: RiskType
) -> None:
    found = assess(text, usage=usage)
    assert found.risk is risk
    assert found.verdict is not Verdict.ALLOW
    assert found.mitigation is RISK_MITIGATIONS[risk]


GATES = [
    ("Apache-2.0 OR GPL-2.0-or-later", Verdict.ALLOW, ("Apache-2.0",)),
    ("MIT AND GPL-3.0-only", Verdict.DENY, ("MIT", "GPL-3.0-only")),
    (
        "GPL-2.0-only WITH Classpath-exception-2.0",
        Verdict.REVIEW,
        ("GPL-2.0-only WITH Classpath-exception-2.0",),
    ),
    (
        "GPL-2.0-only WITH Linux-syscall-note",
        Verdict.DENY,
        ("GPL-2.0-only WITH Linux-syscall-note",),
    ),
    (
        "AGPL-3.0-only WITH Classpath-exception-2.0",
        Verdict.DENY,
        ("AGPL-3.0-only WITH Classpath-exception-2.0",),
    ),
    ("LicenseRef-Acme", Verdict.DENY, ("LicenseRef-Acme",)),
    ("NOASSERTION", Verdict.DENY, ("NOASSERTION",)),
    ("MIT AND NONE", Verdict.DENY, ("MIT", "NONE")),
    ("MIT OR Apache-2.0", Verdict.ALLOW, ("MIT",)),
    ("Apache-2.0 OR MIT", Verdict.ALLOW, ("Apache-2.0",)),
]


@pytest.mark.parametrize(
    ("text", "verdict", "elected"), GATES, ids=[row[0] for row in GATES]
)
def test_a_distributed_dependency_is_judged_by_its_tree(
    text: str, verdict: Verdict, elected: tuple[str, ...]
) -> None:
    found = assess(text, usage="distributed")
    assert found.verdict is verdict
    assert found.elected == elected


def test_a_denied_verdict_raises_with_reason_and_remedy() -> None:
    found = assess("SSPL-1.0", usage=Usage.NETWORK_FACING)
    with pytest.raises(LicenseDeniedError, match=r"SSPL-1\.0 is source-available"):
        found.check()
    assess("MIT").check()


def test_an_unknown_usage_is_refused() -> None:
    with pytest.raises(ValueError, match="for-fun"):
        assess("MIT", usage="for-fun")

"""The isolation policy as data: what a class of licence means for a use.

One complete table, class x usage -> risk and verdict, and one from risk to the
mitigation it demands. Not legal advice: it is a policy, written down.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from lazycore.licensing._classes import LicenseClass

if TYPE_CHECKING:
    from collections.abc import Mapping


class Usage(StrEnum):
    """How a work is used, from the least to the most exposed.

    Examples:
        >>> [usage.value for usage in Usage][:2]
        ['build-time', 'optional-build']
    """

    BUILD_TIME = "build-time"
    OPTIONAL_BUILD = "optional-build"
    RUNTIME_INTERNAL = "runtime-internal"
    DISTRIBUTED = "distributed"
    NETWORK_FACING = "network-facing"
    WEIGHTS_RESEARCH = "weights-research"
    WEIGHTS_COMMERCIAL = "weights-commercial"
    DATASET = "dataset"


class Verdict(StrEnum):
    """What the policy says of a use, from mild to severe.

    Examples:
        >>> [verdict.value for verdict in Verdict]
        ['allow', 'review', 'deny']
    """

    ALLOW = "allow"
    REVIEW = "review"
    DENY = "deny"


class RiskType(StrEnum):
    """What can go wrong. The first six are the isolation policy's own.

    Examples:
        >>> RISK_MITIGATIONS[RiskType.NON_COMMERCIAL_WEIGHTS].value
        'gate-behind-acceptance'
    """

    GPL_AT_BUILD_TIME = "gpl-at-build-time"
    RESTRICTIVE_OPTIONAL_BUILD_DEPENDENCY = "restrictive-optional-build-dependency"
    COPYLEFT_RUNTIME_INTERNAL = "copyleft-runtime-internal"
    COPYLEFT_NETWORK_FACING = "copyleft-network-facing"
    SOURCE_AVAILABLE_NON_COMPETE = "source-available-non-compete"
    NON_COMMERCIAL_WEIGHTS = "non-commercial-weights"
    NONE = "none"
    WEAK_COPYLEFT_DISTRIBUTED = "weak-copyleft-distributed"
    COPYLEFT_DISTRIBUTED = "copyleft-distributed"
    USE_RESTRICTED = "use-restricted"
    CONDITIONAL = "conditional"
    PROPRIETARY = "proprietary"
    UNKNOWN_LICENSE = "unknown-license"


class Mitigation(StrEnum):
    """What a risk demands before the work is used; `text` says it in a sentence.

    Examples:
        >>> RISK_MITIGATIONS[RiskType.NONE].text
        'Keep the copyright notice; nothing else is needed.'
    """

    NONE_NEEDED = "none-needed"
    SEPARATE_BUILD_TOOL = "separate-build-tool"
    OPTIONAL_EXTRA_OFF_BY_DEFAULT = "optional-extra-off-by-default"
    SEPARATE_PROCESS = "separate-process"
    REPLACE_OR_PUBLISH_SOURCE = "replace-or-publish-source"
    LEGAL_REVIEW_OF_BUSINESS_USE = "legal-review-of-business-use"
    GATE_BEHIND_ACCEPTANCE = "gate-behind-acceptance"
    KEEP_REPLACEABLE_AND_NOTICE = "keep-replaceable-and-notice"
    PASS_RESTRICTIONS_ON = "pass-restrictions-on"  # noqa: S105 - no password
    CHECK_CONDITIONS = "check-conditions"
    BUY_OR_REPLACE = "buy-or-replace"
    IDENTIFY_THE_LICENSE = "identify-the-license"

    @property
    def text(self) -> str:
        """Return the instruction as one sentence.

        Examples:
            >>> Mitigation.SEPARATE_PROCESS.text
            'Run it in a process of its own and talk over a plain data interface.'
        """
        return _MITIGATION_TEXT[self]


_MITIGATION_TEXT: Final = {
    Mitigation.NONE_NEEDED: "Keep the copyright notice; nothing else is needed.",
    Mitigation.SEPARATE_BUILD_TOOL: (
        "Run it as a separate build tool; ship neither it nor code it copies into "
        "its output."
    ),
    Mitigation.OPTIONAL_EXTRA_OFF_BY_DEFAULT: (
        "Make it an optional extra that is off by default, and build without it."
    ),
    Mitigation.SEPARATE_PROCESS: (
        "Run it in a process of its own and talk over a plain data interface."
    ),
    Mitigation.REPLACE_OR_PUBLISH_SOURCE: (
        "Replace it, or publish the whole service's source under its licence."
    ),
    Mitigation.LEGAL_REVIEW_OF_BUSINESS_USE: (
        "Have counsel compare your product with what the licence forbids to offer."
    ),
    Mitigation.GATE_BEHIND_ACCEPTANCE: (
        "Keep it in Tier 2: off until a caller accepts the licence by name."
    ),
    Mitigation.KEEP_REPLACEABLE_AND_NOTICE: (
        "Keep it replaceable, ship its notice and the source of changes to it."
    ),
    Mitigation.PASS_RESTRICTIONS_ON: (
        "Pass its use restrictions on to your users, in your own terms."
    ),
    Mitigation.CHECK_CONDITIONS: (
        "Check the conditions (users, revenue, region, naming) and record the check."
    ),
    Mitigation.BUY_OR_REPLACE: "Buy a licence for this use, or replace it.",
    Mitigation.IDENTIFY_THE_LICENSE: (
        "Find the licence text and classify it; until then nothing is granted."
    ),
}

RISK_MITIGATIONS: Final[Mapping[RiskType, Mitigation]] = MappingProxyType(
    {
        RiskType.GPL_AT_BUILD_TIME: Mitigation.SEPARATE_BUILD_TOOL,
        RiskType.RESTRICTIVE_OPTIONAL_BUILD_DEPENDENCY: (
            Mitigation.OPTIONAL_EXTRA_OFF_BY_DEFAULT
        ),
        RiskType.COPYLEFT_RUNTIME_INTERNAL: Mitigation.SEPARATE_PROCESS,
        RiskType.COPYLEFT_NETWORK_FACING: Mitigation.REPLACE_OR_PUBLISH_SOURCE,
        RiskType.SOURCE_AVAILABLE_NON_COMPETE: Mitigation.LEGAL_REVIEW_OF_BUSINESS_USE,
        RiskType.NON_COMMERCIAL_WEIGHTS: Mitigation.GATE_BEHIND_ACCEPTANCE,
        RiskType.NONE: Mitigation.NONE_NEEDED,
        RiskType.WEAK_COPYLEFT_DISTRIBUTED: Mitigation.KEEP_REPLACEABLE_AND_NOTICE,
        RiskType.COPYLEFT_DISTRIBUTED: Mitigation.REPLACE_OR_PUBLISH_SOURCE,
        RiskType.USE_RESTRICTED: Mitigation.PASS_RESTRICTIONS_ON,
        RiskType.CONDITIONAL: Mitigation.CHECK_CONDITIONS,
        RiskType.PROPRIETARY: Mitigation.BUY_OR_REPLACE,
        RiskType.UNKNOWN_LICENSE: Mitigation.IDENTIFY_THE_LICENSE,
    }
)
"""The mitigation that each risk demands."""


class Decision(NamedTuple):
    """One cell of the table.

    Examples:
        >>> from lazycore.licensing import LicenseClass
        >>> DECISIONS[LicenseClass.PERMISSIVE, Usage.DISTRIBUTED].verdict.value
        'allow'
    """

    risk: RiskType
    verdict: Verdict

    @property
    def mitigation(self) -> Mitigation:
        """Return what the risk demands."""
        return RISK_MITIGATIONS[self.risk]


_USAGES = tuple(Usage)
_VERDICTS = {"a": Verdict.ALLOW, "r": Verdict.REVIEW, "d": Verdict.DENY}
_RISKS = {
    "-": RiskType.NONE,
    "bt": RiskType.GPL_AT_BUILD_TIME,
    "ob": RiskType.RESTRICTIVE_OPTIONAL_BUILD_DEPENDENCY,
    "ri": RiskType.COPYLEFT_RUNTIME_INTERNAL,
    "nf": RiskType.COPYLEFT_NETWORK_FACING,
    "sa": RiskType.SOURCE_AVAILABLE_NON_COMPETE,
    "nc": RiskType.NON_COMMERCIAL_WEIGHTS,
    "wd": RiskType.WEAK_COPYLEFT_DISTRIBUTED,
    "cd": RiskType.COPYLEFT_DISTRIBUTED,
    "ur": RiskType.USE_RESTRICTED,
    "co": RiskType.CONDITIONAL,
    "pr": RiskType.PROPRIETARY,
    "un": RiskType.UNKNOWN_LICENSE,
}
# Columns in the order of Usage: build-time, optional-build, runtime-internal,
# distributed, network-facing, weights-research, weights-commercial, dataset.
_ROWS: Final = {
    LicenseClass.PERMISSIVE: "-:a -:a -:a -:a -:a -:a -:a -:a",
    LicenseClass.WEAK_COPYLEFT: "-:a -:a -:a wd:r -:a -:a wd:r wd:r",
    LicenseClass.STRONG_COPYLEFT: "bt:r ob:r ri:r cd:d nf:r ri:r cd:d cd:r",
    LicenseClass.NETWORK_COPYLEFT: "bt:r ob:r ri:r cd:d nf:d ri:r nf:d cd:r",
    LicenseClass.SOURCE_AVAILABLE: "sa:r ob:r sa:r sa:d sa:d sa:r sa:d sa:r",
    LicenseClass.USE_RESTRICTED: "ur:r ob:r ur:r ur:r ur:r ur:r ur:r ur:r",
    LicenseClass.CONDITIONAL: "co:r ob:r co:r co:r co:r co:r co:r co:r",
    LicenseClass.NO_DERIVATIVES: "ur:r ob:r ur:r ur:d ur:r ur:r ur:d ur:d",
    LicenseClass.NON_COMMERCIAL: "nc:d ob:r nc:d nc:d nc:d nc:r nc:d nc:r",
    LicenseClass.PROPRIETARY: "pr:r ob:r pr:r pr:d pr:d pr:r pr:d pr:d",
    LicenseClass.UNKNOWN: "un:r ob:r un:r un:d un:d un:r un:d un:r",
}


def _cells() -> dict[tuple[LicenseClass, Usage], Decision]:
    table = {}
    for kind, row in _ROWS.items():
        for usage, cell in zip(_USAGES, row.split(), strict=True):
            risk, verdict = cell.split(":")
            table[kind, usage] = Decision(_RISKS[risk], _VERDICTS[verdict])
    return table


DECISIONS: Final[Mapping[tuple[LicenseClass, Usage], Decision]] = MappingProxyType(
    _cells()
)
"""Every class for every usage: no gap, so no default that somebody forgot."""

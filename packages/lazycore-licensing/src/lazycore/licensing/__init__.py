"""Licence-isolation policy as data, SPDX expressions and model allowlists.

Not legal advice: the slice applies a written policy and says why.
"""

from lazycore.licensing._assess import Assessment, assess
from lazycore.licensing._classes import LicenseClass, classify
from lazycore.licensing._decision import (
    DECISIONS,
    RISK_MITIGATIONS,
    Decision,
    Mitigation,
    RiskType,
    Usage,
    Verdict,
)
from lazycore.licensing._errors import (
    AllowlistFormatError,
    ExpressionError,
    LicenseDeniedError,
    LicensingError,
    ModelNotAllowedError,
    RestrictedLicenseNotAcceptedError,
    RevisionMismatchError,
)
from lazycore.licensing._expression import (
    Choice,
    Conjunction,
    Expression,
    License,
    normalize,
    parse,
)
from lazycore.licensing._models import Allowlist, ModelLicenseEntry, ModelTier

__all__ = [
    "DECISIONS",
    "RISK_MITIGATIONS",
    "Allowlist",
    "AllowlistFormatError",
    "Assessment",
    "Choice",
    "Conjunction",
    "Decision",
    "Expression",
    "ExpressionError",
    "License",
    "LicenseClass",
    "LicenseDeniedError",
    "LicensingError",
    "Mitigation",
    "ModelLicenseEntry",
    "ModelNotAllowedError",
    "ModelTier",
    "RestrictedLicenseNotAcceptedError",
    "RevisionMismatchError",
    "RiskType",
    "Usage",
    "Verdict",
    "assess",
    "classify",
    "normalize",
    "parse",
]

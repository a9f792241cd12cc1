"""Licence-isolation policy as data, SPDX expressions, audits and model allowlists.

Not legal advice: the slice applies a written policy and says why.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazycore.licensing._allowlist import Allowlist
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
        HashMismatchError,
        LicenseDeniedError,
        LicensingError,
        ModelNotAllowedError,
        PolicyError,
        ReaderError,
        ReceiptError,
        RestrictedLicenseNotAcceptedError,
        RevisionMismatchError,
        SourceError,
        TermsChangedError,
        TierConflictError,
    )
    from lazycore.licensing._expression import (
        Choice,
        Conjunction,
        Expression,
        License,
        normalize,
        parse,
    )
    from lazycore.licensing._findings import (
        BundledLicense,
        Confidence,
        Evidence,
        LicenseFinding,
    )
    from lazycore.licensing._models import ModelLicenseEntry, ModelTier
    from lazycore.licensing._receipts import Receipt, ReceiptLog
    from lazycore.licensing._resolve import resolve
    from lazycore.licensing._texts import TextMatch, TextReport, identify

_HOMES = {
    "Allowlist": "_allowlist",
    "AllowlistFormatError": "_errors",
    "Assessment": "_assess",
    "BundledLicense": "_findings",
    "Choice": "_expression",
    "Confidence": "_findings",
    "Conjunction": "_expression",
    "DECISIONS": "_decision",
    "Decision": "_decision",
    "Evidence": "_findings",
    "Expression": "_expression",
    "ExpressionError": "_errors",
    "HashMismatchError": "_errors",
    "License": "_expression",
    "LicenseClass": "_classes",
    "LicenseDeniedError": "_errors",
    "LicenseFinding": "_findings",
    "LicensingError": "_errors",
    "Mitigation": "_decision",
    "ModelLicenseEntry": "_models",
    "ModelNotAllowedError": "_errors",
    "ModelTier": "_models",
    "PolicyError": "_errors",
    "RISK_MITIGATIONS": "_decision",
    "ReaderError": "_errors",
    "Receipt": "_receipts",
    "ReceiptError": "_errors",
    "ReceiptLog": "_receipts",
    "RestrictedLicenseNotAcceptedError": "_errors",
    "RevisionMismatchError": "_errors",
    "RiskType": "_decision",
    "SourceError": "_errors",
    "TermsChangedError": "_errors",
    "TextMatch": "_texts",
    "TextReport": "_texts",
    "TierConflictError": "_errors",
    "Usage": "_decision",
    "Verdict": "_decision",
    "assess": "_assess",
    "classify": "_classes",
    "identify": "_texts",
    "normalize": "_expression",
    "parse": "_expression",
    "resolve": "_resolve",
}

__all__ = [
    "DECISIONS",
    "RISK_MITIGATIONS",
    "Allowlist",
    "AllowlistFormatError",
    "Assessment",
    "BundledLicense",
    "Choice",
    "Confidence",
    "Conjunction",
    "Decision",
    "Evidence",
    "Expression",
    "ExpressionError",
    "HashMismatchError",
    "License",
    "LicenseClass",
    "LicenseDeniedError",
    "LicenseFinding",
    "LicensingError",
    "Mitigation",
    "ModelLicenseEntry",
    "ModelNotAllowedError",
    "ModelTier",
    "PolicyError",
    "ReaderError",
    "Receipt",
    "ReceiptError",
    "ReceiptLog",
    "RestrictedLicenseNotAcceptedError",
    "RevisionMismatchError",
    "RiskType",
    "SourceError",
    "TermsChangedError",
    "TextMatch",
    "TextReport",
    "TierConflictError",
    "Usage",
    "Verdict",
    "assess",
    "classify",
    "identify",
    "normalize",
    "parse",
    "resolve",
]


def __getattr__(name: str) -> object:
    """Import a public name where it lives, on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

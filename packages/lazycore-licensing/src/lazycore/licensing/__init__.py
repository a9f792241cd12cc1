"""Licence-isolation policy as data, SPDX expressions, audits and model allowlists.

Not legal advice: the slice applies a written policy and says why.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazycore.licensing._acceptance import accepted_terms
    from lazycore.licensing._allowlist import Allowlist
    from lazycore.licensing._assess import Assessment, assess
    from lazycore.licensing._audit import AuditFinding, AuditItem, AuditReport, audit
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
    from lazycore.licensing._documents import read_conda, read_cyclonedx
    from lazycore.licensing._errors import (
        AllowlistFormatError,
        ExpressionError,
        HashMismatchError,
        LicenseDeniedError,
        LicensingError,
        MissingExtraError,
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
    from lazycore.licensing._hashes import HashCache
    from lazycore.licensing._hub import HubLicense, hub_licenses
    from lazycore.licensing._hub_lookup import look_up_model, propose_entry
    from lazycore.licensing._locks import read_lock
    from lazycore.licensing._model_folder import ModelFacts, read_model_folder
    from lazycore.licensing._models import ModelLicenseEntry, ModelTier
    from lazycore.licensing._notice import notice
    from lazycore.licensing._policy import Clarification, Policy, PolicyException
    from lazycore.licensing._readers import read_card, read_gguf, read_safetensors
    from lazycore.licensing._receipts import Receipt, ReceiptLog
    from lazycore.licensing._resolve import resolve
    from lazycore.licensing._snapshot import (
        LicenseChange,
        diff,
        read_snapshot,
        snapshot,
    )
    from lazycore.licensing._sources import Package, read_environment
    from lazycore.licensing._texts import TextMatch, TextReport, identify

_HOMES = {
    "Allowlist": "_allowlist",
    "AllowlistFormatError": "_errors",
    "Assessment": "_assess",
    "AuditFinding": "_audit",
    "AuditItem": "_audit",
    "AuditReport": "_audit",
    "BundledLicense": "_findings",
    "Choice": "_expression",
    "Clarification": "_policy",
    "Confidence": "_findings",
    "Conjunction": "_expression",
    "DECISIONS": "_decision",
    "Decision": "_decision",
    "Evidence": "_findings",
    "Expression": "_expression",
    "ExpressionError": "_errors",
    "HashCache": "_hashes",
    "HashMismatchError": "_errors",
    "HubLicense": "_hub",
    "License": "_expression",
    "LicenseChange": "_snapshot",
    "LicenseClass": "_classes",
    "LicenseDeniedError": "_errors",
    "LicenseFinding": "_findings",
    "LicensingError": "_errors",
    "MissingExtraError": "_errors",
    "Mitigation": "_decision",
    "ModelFacts": "_model_folder",
    "ModelLicenseEntry": "_models",
    "ModelNotAllowedError": "_errors",
    "ModelTier": "_models",
    "Package": "_sources",
    "Policy": "_policy",
    "PolicyError": "_errors",
    "PolicyException": "_policy",
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
    "accepted_terms": "_acceptance",
    "assess": "_assess",
    "audit": "_audit",
    "classify": "_classes",
    "diff": "_snapshot",
    "hub_licenses": "_hub",
    "identify": "_texts",
    "look_up_model": "_hub_lookup",
    "normalize": "_expression",
    "notice": "_notice",
    "parse": "_expression",
    "propose_entry": "_hub_lookup",
    "read_card": "_readers",
    "read_conda": "_documents",
    "read_cyclonedx": "_documents",
    "read_environment": "_sources",
    "read_gguf": "_readers",
    "read_lock": "_locks",
    "read_model_folder": "_model_folder",
    "read_safetensors": "_readers",
    "read_snapshot": "_snapshot",
    "resolve": "_resolve",
    "snapshot": "_snapshot",
}

__all__ = [
    "DECISIONS",
    "RISK_MITIGATIONS",
    "Allowlist",
    "AllowlistFormatError",
    "Assessment",
    "AuditFinding",
    "AuditItem",
    "AuditReport",
    "BundledLicense",
    "Choice",
    "Clarification",
    "Confidence",
    "Conjunction",
    "Decision",
    "Evidence",
    "Expression",
    "ExpressionError",
    "HashCache",
    "HashMismatchError",
    "HubLicense",
    "License",
    "LicenseChange",
    "LicenseClass",
    "LicenseDeniedError",
    "LicenseFinding",
    "LicensingError",
    "MissingExtraError",
    "Mitigation",
    "ModelFacts",
    "ModelLicenseEntry",
    "ModelNotAllowedError",
    "ModelTier",
    "Package",
    "Policy",
    "PolicyError",
    "PolicyException",
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
    "accepted_terms",
    "assess",
    "audit",
    "classify",
    "diff",
    "hub_licenses",
    "identify",
    "look_up_model",
    "normalize",
    "notice",
    "parse",
    "propose_entry",
    "read_card",
    "read_conda",
    "read_cyclonedx",
    "read_environment",
    "read_gguf",
    "read_lock",
    "read_model_folder",
    "read_safetensors",
    "read_snapshot",
    "resolve",
    "snapshot",
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

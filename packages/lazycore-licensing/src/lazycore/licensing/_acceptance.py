"""Accept the terms of a restricted checkpoint, explicitly and by name."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from lazycore.licensing._errors import (
    AllowlistFormatError,
    RestrictedLicenseNotAcceptedError,
    TermsChangedError,
)
from lazycore.licensing._model_ids import parse_model_id
from lazycore.licensing._models import ModelTier

if TYPE_CHECKING:
    from lazycore.licensing._decision import Usage
    from lazycore.licensing._models import ModelLicenseEntry
    from lazycore.licensing._receipts import Receipt

VARIABLE: Final = "LAZYCORE_ACCEPTED_MODEL_TERMS"
# Enough digits that a prefix names one text, few enough to type.
_PREFIX: Final = re.compile(r"[0-9a-f]{12,64}\Z")


def accepted_terms(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Read which terms the environment accepts: model id -> prefix of their hash.

    ``LAZYCORE_ACCEPTED_MODEL_TERMS`` holds pairs ``id=prefix`` between spaces or
    commas; a prefix has 12 digits or more. Nothing accepts everything: ``1`` and
    ``all`` are refused. Hand the result to `Allowlist.check`; it is not read there.

    Args:
        environ: Variables; None for those of the process.

    Raises:
        AllowlistFormatError: The variable holds something else.

    Examples:
        >>> accepted_terms({"LAZYCORE_ACCEPTED_MODEL_TERMS": "org/x=0123456789ab"})
        {'hf:org/x': '0123456789ab'}
        >>> accepted_terms({})
        {}
    """
    text = (os.environ if environ is None else environ).get(VARIABLE, "")
    found: dict[str, str] = {}
    for pair in re.split(r"[\s,]+", text.strip()) if text.strip() else ():
        name, _, prefix = pair.rpartition("=")
        if not name or not _PREFIX.match(prefix):
            raise AllowlistFormatError(
                f"{VARIABLE}: {pair[:80]!r} is no pair id=prefix with 12 to 64 "
                "hexadecimal digits of the terms' SHA-256"
            )
        found[parse_model_id(name).key] = prefix
    return found


def check_acceptance(
    entry: ModelLicenseEntry,
    accepted: object,
    receipt: Receipt | None,
    usage: Usage | str | None,
) -> None:
    """Return when the terms of a Tier 2 entry are accepted.

    Raises:
        RestrictedLicenseNotAcceptedError: They are not.
        TermsChangedError: Other terms are accepted.
    """
    if receipt is not None:
        receipt.covers(entry, usage=usage)
        return
    # Truthy is not enough: `"false"` from a configuration file is truthy.
    if accepted is True:
        return
    if isinstance(accepted, Mapping):
        named = [v for k, v in accepted.items() if _names(k, entry)]
        prefixes = [v for v in named if isinstance(v, str) and _PREFIX.match(v)]
    elif isinstance(accepted, Collection) and not isinstance(accepted, str | bytes):
        prefixes = [v for v in accepted if isinstance(v, str) and len(v) == 64]
    else:
        prefixes = []
    if not prefixes:
        raise RestrictedLicenseNotAcceptedError(_refusal(entry))
    terms = entry.terms_sha256
    if terms is None or not any(terms.startswith(prefix) for prefix in prefixes):
        raise TermsChangedError(
            f"{entry.model_id}: none of the accepted terms is {terms}; read the "
            "terms again and accept that hash"
        )


def _names(model_id: object, entry: ModelLicenseEntry) -> bool:
    return isinstance(model_id, str) and parse_model_id(model_id).key == entry.key


def _refusal(entry: ModelLicenseEntry) -> str:
    title = f"{entry.model_id} is under {entry.license} (tier {int(entry.tier)})"
    lines = [f"{title}, which is not accepted."]
    if entry.tier is ModelTier.PERMISSIVE:
        lines.append("  it comes from a checkpoint of tier 2")
    lines += [f"  condition: {text}" for text in entry.conditions]
    if entry.terms_url:
        lines.append(f"  terms: {entry.terms_url}")
    call = f"allowlist.check({entry.model_id!r}, accept_restricted_licenses=True)"
    lines.append(f"  to accept: {call}")
    return "\n".join(lines)

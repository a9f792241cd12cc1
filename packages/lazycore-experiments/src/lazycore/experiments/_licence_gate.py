"""Ask lazycore.licensing whether each model slot of a study may be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.experiments._blockers import Blocker

if TYPE_CHECKING:
    from lazycore.experiments._study import ModelSlot, Study

__all__ = ["gate_models"]


def gate_models(
    study: Study, *, accept_restricted_licenses: bool
) -> tuple[Blocker, ...]:
    """Return one blocker per model slot that the licence policy does not admit.

    The study itself is the allowlist: each slot states its checkpoint's licence,
    tier and conditions, and all of that is locked. lazycore.licensing decides
    whether the tier fits the licence and whether tier 2 was accepted.

    Args:
        study: The study.
        accept_restricted_licenses: Exactly True accepts the conditions of tier 2.
    """
    blockers = []
    for model in study.models:
        problem = _problem(model, accept=accept_restricted_licenses)
        if problem is not None:
            blockers.append(problem)
    return tuple(blockers)


def _problem(model: ModelSlot, *, accept: bool) -> Blocker | None:
    from lazycore.licensing import (
        Allowlist,
        LicensingError,
        ModelLicenseEntry,
        ModelTier,
        RestrictedLicenseNotAcceptedError,
    )

    try:
        entry = ModelLicenseEntry(
            model_id=model.checkpoint,
            license=model.license,
            tier=ModelTier(model.tier),
            conditions=model.conditions,
        )
        Allowlist([entry]).check(model.checkpoint, accept_restricted_licenses=accept)
    except RestrictedLicenseNotAcceptedError:
        conditions = "; ".join(model.conditions) or "see its terms"
        terms = f"; terms: {model.url}" if model.url else ""
        return Blocker(
            code="licence",
            message=(
                f"model slot {model.slot}: {model.checkpoint} is under "
                f"{model.license} (tier 2), which is not accepted; "
                f"conditions: {conditions}{terms}"
            ),
            fix=(
                "to accept: run_study(..., accept_restricted_licenses=True), or "
                "--accept-restricted-licenses on the command line"
            ),
        )
    except LicensingError as error:
        return Blocker(
            code="licence",
            message=f"model slot {model.slot}: {error}",
            fix="correct the slot in [[models]]",
        )
    return None

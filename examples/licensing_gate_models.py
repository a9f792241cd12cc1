"""Gate model checkpoints by an allowlist that the module itself fills."""

from __future__ import annotations

from lazycore.licensing import (
    Allowlist,
    LicensingError,
    ModelLicenseEntry,
    ModelTier,
)


def main() -> None:
    """Ask for three checkpoints and print what the allowlist says."""
    models = Allowlist(
        [
            ModelLicenseEntry(
                model_id="org/small", license="Apache-2.0", tier=ModelTier.PERMISSIVE
            ),
            ModelLicenseEntry(
                model_id="org/large",
                license="CC-BY-NC-4.0",
                tier=ModelTier.RESTRICTED,
                conditions=("non-commercial use only",),
            ),
        ]
    )
    for name in ("org/small", "org/large", "org/unheard-of"):
        try:
            print("allowed:", models.check(name).model_id)
        except LicensingError as error:
            print(f"refused: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    main()

"""The table of hub licences states a class, a basis and a date for every row."""

from __future__ import annotations

import datetime as dt

import pytest

from lazycore.licensing import (
    LicenseClass,
    ModelTier,
    Usage,
    Verdict,
    assess,
    hub_licenses,
    parse,
)


def test_all_hub_identifiers_and_the_known_names_are_there() -> None:
    assert len(hub_licenses()) == 113


def test_every_row_has_basis_date_and_a_valid_expression() -> None:
    for row in hub_licenses().values():
        assert row.basis
        assert dt.date.fromisoformat(row.date) > dt.date(2026, 1, 1)
        assert str(parse(row.expression)) == row.expression


def test_no_row_offers_at_once_what_the_table_would_not_allow() -> None:
    for row in hub_licenses().values():
        if row.default_tier == ModelTier.PERMISSIVE:
            assert row.license_class is LicenseClass.PERMISSIVE, row.tag
        spdx = not row.expression.startswith(("LicenseRef-", "NOASSERTION"))
        if spdx and row.default_tier == ModelTier.PERMISSIVE:
            found = assess(row.expression, usage=Usage.WEIGHTS_COMMERCIAL)
            assert found.verdict is Verdict.ALLOW, row.tag


@pytest.mark.parametrize(
    ("tag", "kind", "tier"),
    [
        ("bsl-1.0", LicenseClass.PERMISSIVE, 1),
        ("llama3.3", LicenseClass.CONDITIONAL, 2),
        ("cc-by-nc-4.0", LicenseClass.NON_COMMERCIAL, 2),
        ("other", LicenseClass.UNKNOWN, None),
        ("cc", LicenseClass.UNKNOWN, None),
    ],
)
def test_traps(tag: str, kind: LicenseClass, tier: int | None) -> None:
    row = hub_licenses()[tag]
    assert (row.license_class, row.default_tier) == (kind, tier)

"""The class table of all SPDX ids."""

from __future__ import annotations

import pytest

from lazycore.licensing import LicenseClass, classify
from lazycore.licensing._classes import spdx_exceptions, spdx_licenses


def test_the_whole_spdx_list_is_there() -> None:
    assert len(spdx_licenses()) == 740
    assert sum(not one.deprecated for one in spdx_licenses().values()) == 708
    assert len(spdx_exceptions()) == 86


def test_every_class_states_its_basis() -> None:
    for one in spdx_licenses().values():
        assert one.basis in {"hand", "rule", "scancode", "none"}
        assert (one.basis == "none") <= (one.license_class is LicenseClass.UNKNOWN)


def test_no_osi_approved_id_is_called_non_commercial_or_proprietary() -> None:
    found = [
        one.id
        for one in spdx_licenses().values()
        if one.osi_approved and one.license_class >= LicenseClass.CONDITIONAL
        if one.basis != "none"
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("MIT", "PERMISSIVE"),
        ("mit", "PERMISSIVE"),
        ("LGPL-3.0-only", "WEAK_COPYLEFT"),
        ("GPL-2.0-or-later", "STRONG_COPYLEFT"),
        ("AGPL-3.0", "NETWORK_COPYLEFT"),
        ("BSL-1.0", "PERMISSIVE"),
        ("BUSL-1.1", "SOURCE_AVAILABLE"),
        ("CC-BY-4.0", "PERMISSIVE"),
        ("CC-BY-SA-2.0", "STRONG_COPYLEFT"),
        ("CC-BY-NC-ND-4.0", "NON_COMMERCIAL"),
        ("CC-BY-ND-1.0", "NO_DERIVATIVES"),
        ("LicenseRef-Acme", "UNKNOWN"),
        ("no such licence", "UNKNOWN"),
        ("", "UNKNOWN"),
    ],
)
def test_an_id_has_its_class(text: str, kind: str) -> None:
    assert classify(text).name == kind

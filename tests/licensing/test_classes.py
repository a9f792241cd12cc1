"""The class table of all SPDX ids."""

from __future__ import annotations

from pathlib import Path

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


# Blue Oak calls these permissive; each has a duty or a limit that we class apart.
STRICTER_THAN_BLUE_OAK = {
    *("Artistic-1.0", "Artistic-1.0-cl8", "Artistic-1.0-Perl", "Artistic-2.0"),
    *("ClArtistic", "LPL-1.0", "LPL-1.02", "LPPL-1.3c", "MS-PL", "NASA-1.3"),
    *("NBPL-1.0", "OGTSL", "OLDAP-1.1", "OLDAP-1.2", "OLDAP-1.3", "OLDAP-1.4"),
    *("Qhull", "Vim"),  # changed versions must be marked, renamed or published
    *("BSD-3-Clause-No-Nuclear-License-2014", "BSD-3-Clause-No-Nuclear-Warranty"),
    "HPND-export-US",  # limits of use
}


def test_classes_agree_with_blue_oak_but_for_a_named_few() -> None:
    path = Path(__file__).parent / "data/blueoak.tsv"
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    listed = [row[0] for row in rows if row[0].casefold() in spdx_licenses()]
    assert len(listed) > 200
    differing = {one for one in listed if classify(one) is not LicenseClass.PERMISSIVE}
    assert differing == STRICTER_THAN_BLUE_OAK


def test_what_osi_or_fsf_call_free_restricts_no_use() -> None:
    free = [
        one for one in spdx_licenses().values() if one.osi_approved or one.fsf_libre
    ]
    odd = {
        one.id
        for one in free
        if one.license_class > LicenseClass.NETWORK_COPYLEFT and one.basis != "none"
    }
    assert odd == set()

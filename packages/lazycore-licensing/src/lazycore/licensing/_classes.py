"""What a licence demands, as one class per SPDX id."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache


class LicenseClass(IntEnum):
    """What kind of duty a licence lays on its user.

    The numbers order classes only to break ties between equal verdicts; whether a
    class is acceptable depends on the use, see `assess`.

    Examples:
        >>> LicenseClass.PERMISSIVE < LicenseClass.STRONG_COPYLEFT
        True
    """

    PERMISSIVE = 0
    WEAK_COPYLEFT = 1
    STRONG_COPYLEFT = 2
    NETWORK_COPYLEFT = 3
    SOURCE_AVAILABLE = 4
    USE_RESTRICTED = 5
    CONDITIONAL = 6
    NO_DERIVATIVES = 7
    NON_COMMERCIAL = 8
    PROPRIETARY = 9
    UNKNOWN = 10

    @property
    def slug(self) -> str:
        """Return the lowercase name used in files, such as ``weak-copyleft``."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpdxLicense:
    """One id of the SPDX licence list.

    Attributes:
        id: The canonical spelling.
        license_class: Our class for it.
        basis: Where the class comes from: ``hand``, ``rule``, ``scancode``, ``none``.
        deprecated: Whether the list advises another id.
        osi_approved: The OSI flag of the list.
        fsf_libre: The FSF flag of the list.
        name: The full name.
    """

    id: str
    license_class: LicenseClass
    basis: str
    deprecated: bool
    osi_approved: bool
    fsf_libre: bool
    name: str


def fact_bytes(name: str) -> bytes:
    """Return the content of a fact file of this package."""
    import pkgutil

    content = pkgutil.get_data(f"{__package__}._facts", name)
    assert content is not None, f"{name} is missing from the installed package"
    return content


def fact_rows(name: str) -> list[list[str]]:
    """Return the rows of a tab-separated fact file, without its heading."""
    lines = fact_bytes(name).decode().splitlines()[1:]
    return [line.split("\t") for line in lines]


@cache
def spdx_licenses() -> dict[str, SpdxLicense]:
    """Return every SPDX licence by its casefolded id (list 3.29.0)."""
    by_slug = {kind.slug: kind for kind in LicenseClass}
    return {
        row[0].casefold(): SpdxLicense(
            id=row[0],
            license_class=by_slug[row[1]],
            basis=row[2],
            deprecated=row[3] == "yes",
            osi_approved=row[4] == "yes",
            fsf_libre=row[5] == "yes",
            name=row[6],
        )
        for row in fact_rows("spdx_licenses.tsv")
    }


@cache
def spdx_exceptions() -> dict[str, str]:
    """Return the canonical spelling of every SPDX exception by its casefolded id."""
    return {row[0].casefold(): row[0] for row in fact_rows("spdx_exceptions.tsv")}


# References that `resolve` writes for what the SPDX list has no id for.
_OWN = {
    "licenseref-public-domain": LicenseClass.PERMISSIVE,
    "licenseref-commons-clause": LicenseClass.SOURCE_AVAILABLE,
    "licenseref-use-restricted": LicenseClass.USE_RESTRICTED,
    "licenseref-non-commercial": LicenseClass.NON_COMMERCIAL,
    "licenseref-proprietary": LicenseClass.PROPRIETARY,
}


def classify(license_id: str) -> LicenseClass:
    """Look up the class of one SPDX id, in any letter case.

    Args:
        license_id: An id of the SPDX list or a ``LicenseRef-``; deprecated ids count.

    Returns:
        The class; `LicenseClass.UNKNOWN` for an id nobody listed and for a
        ``LicenseRef-`` that does not call itself proprietary or non-commercial,
        because an unknown licence grants nothing.

    Examples:
        >>> classify("mpl-2.0").name
        'WEAK_COPYLEFT'
    """
    key = license_id.casefold()
    found = spdx_licenses().get(key)
    return _reference_class(key) if found is None else found.license_class


# What a reference's name admits about itself. Both classes are at least as strict as
# UNKNOWN in every use (a test holds that), so a name can be believed.
_ADMITS = (
    (
        LicenseClass.NON_COMMERCIAL,
        ("non-commercial", "noncommercial", "academic", "research-only"),
    ),
    (
        LicenseClass.PROPRIETARY,
        ("proprietary", "all-rights-reserved", "eula", "commercial"),
    ),
)


def _reference_class(key: str) -> LicenseClass:
    if key in _OWN:
        return _OWN[key]
    if "licenseref-" in key:
        for kind, names in _ADMITS:
            if any(name in key for name in names):
                return kind
    return LicenseClass.UNKNOWN

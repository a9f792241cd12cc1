"""Read the headers of METADATA and PKG-INFO files of every metadata version."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_CHARACTERS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The headers that say something about a licence, and the description.

    Attributes:
        headers: Lower-cased header name -> values in order.
        description: The long description.
    """

    headers: dict[str, list[str]] = field(default_factory=dict)
    description: str = ""

    def first(self, name: str) -> str:
        """Return the first value of a header, empty when absent."""
        return self.headers.get(name, [""])[0]

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        return self.headers.get(name, [])


def read_metadata(text: str) -> Metadata:
    r"""Read headers up to the first empty line; broken lines are skipped.

    The email package would cost 10 ms to import and decodes what we never show.

    Examples:
        >>> read_metadata("Name: x\nLicense: MIT\n\nbody").first("license")
        'MIT'
    """
    headers: dict[str, list[str]] = {}
    text = text[:MAX_CHARACTERS].removeprefix("\ufeff").replace("\r\n", "\n")
    head, _, body = text.partition("\n\n")
    current: list[str] | None = None
    for line in head.split("\n"):
        if line[:1] in {" ", "\t"}:
            if current is not None:
                # Setuptools marks continued lines by eight blanks or by a bar.
                current[-1] += "\n" + line.strip().removeprefix("|").strip()
            continue
        name, colon, value = line.partition(":")
        if not colon or " " in name:
            # A value that was written without its indent: part of the last header.
            if current is not None:
                current[-1] += "\n" + line.strip()
            continue
        current = headers.setdefault(name.lower(), [])
        current.append(value.strip())
    description = body or "\n".join(headers.get("description", []))
    return Metadata(headers=headers, description=description)

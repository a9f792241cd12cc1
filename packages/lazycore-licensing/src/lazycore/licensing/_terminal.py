"""Keep foreign text from steering a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Replace control, format and surrogate characters by their escapes.

    Examples:
        >>> printable("red\x1b[31m")
        'red\\x1b[31m'
    """
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "replace").decode("ascii")
        for character in text
    )

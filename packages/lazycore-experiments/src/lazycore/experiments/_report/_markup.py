"""Build HTML and SVG so that text from a run can only ever be text."""

from __future__ import annotations

import html
import re

__all__ = ["Markup", "element", "join", "text"]

# Control characters, lone surrogates and the marks that reorder what follows: a unit
# name must not be able to hide or turn around its neighbours.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufeff\ufffe\uffff]"
)
_VOID = frozenset({"br", "col", "hr", "input", "meta"})


class Markup(str):
    """HTML that was built by `element`; every other string is escaped."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Escape a value; show unsafe characters by their code point."""
    if isinstance(value, Markup):
        return value
    shown = _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", str(value))
    return Markup(html.escape(shown, quote=True))


def join(parts: object, *more: object) -> Markup:
    """Put parts one after the other; a list or tuple counts as its items."""
    found = []
    for part in (parts, *more):
        if part is None:
            continue
        if isinstance(part, list | tuple):
            found.append(join(*part) if part else Markup())
        else:
            found.append(text(part))
    return Markup("".join(found))


def element(
    tag: str, *children: object, **attributes: str | float | bool | None
) -> Markup:
    """Return one element.

    Args:
        tag: Its name, from our own code.
        children: Text or markup, or lists of them; None is left out.
        attributes: A trailing underscore is dropped, others become hyphens; False
            and None leave the attribute out.
    """
    opened = tag
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        written = name.rstrip("_").replace("_", "-")
        if value is True:
            opened += f" {written}"
        elif isinstance(value, float):
            opened += f' {written}="{round(value, 2):g}"'
        else:
            opened += f' {written}="{text(value)}"'
    if tag in _VOID:
        return Markup(f"<{opened}>")
    return Markup(f"<{opened}>{join(*children) if children else ''}</{tag}>")

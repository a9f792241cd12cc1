"""Read the licence that a CycloneDX component states."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from lazycore.licensing._expression import normalize
from lazycore.licensing._names import from_names

MAX_NAME_CHARACTERS: Final = 300


class Stated(NamedTuple):
    """What one component says: an expression or None, and what is odd about it."""

    expression: str | None
    says: str
    conflicts: tuple[str, ...]


def component_license(component: dict[str, Any]) -> str | None:
    """Return the SPDX text of a CycloneDX component, None when it states none."""
    return stated_license(component).expression


def stated_license(component: dict[str, Any]) -> Stated:
    """Read ``licenses``; a concluded licence comes before the declared one.

    Several entries without an operator all hold: they are joined by AND. One entry
    that can't be read makes the whole unknown, or its demands would be lost.
    """
    listed = component.get("licenses")
    rows = listed if isinstance(listed, list) else []
    entries = [item for item in rows if isinstance(item, dict)]
    concluded = [item for item in entries if _acknowledged(item) == "concluded"]
    others = [item for item in entries if _acknowledged(item) != "concluded"]
    cargo = str(component.get("purl", "")).startswith("pkg:cargo/")
    expression = _joined(concluded or others, slash_is_or=cargo)
    conflicts: tuple[str, ...] = ()
    if concluded and others:
        declared = _joined(others, slash_is_or=cargo)
        if declared != expression:
            unreadable = "something unreadable"
            conflict = f"declared is {declared or unreadable}"
            conflicts = (f"{conflict}, concluded is {expression or unreadable}",)
    said = "; ".join(_text(item)[:80] for item in entries) or "nothing"
    return Stated(expression, said, conflicts)


def _inner(item: dict[str, Any]) -> dict[str, Any]:
    inner = item.get("license")
    return inner if isinstance(inner, dict) else item


def _acknowledged(item: dict[str, Any]) -> object:
    return _inner(item).get("acknowledgement")


def _text(item: dict[str, Any]) -> str:
    inner = _inner(item)
    stated = item.get("expression") or inner.get("id") or inner.get("name") or ""
    return str(stated)


def _joined(items: list[dict[str, Any]], *, slash_is_or: bool) -> str | None:
    parts: list[str] = []
    for item in items:
        text = _text(item)
        # Cargo's old form writes OR as a slash; elsewhere a slash says nothing.
        found = normalize(text.replace("/", " OR ") if slash_is_or else text)
        named = None
        if found is None and "expression" not in item:
            # Tools put a classifier into the name.
            named = from_names(text[: MAX_NAME_CHARACTERS + 1].rpartition(" :: ")[2])
        if found is None and named is None:
            return None
        part = str(found) if found is not None else str(named)
        if part not in parts:
            parts.append(part)
    if len(parts) < 2:
        return parts[0] if parts else None
    return " AND ".join(f"({part})" if " " in part else part for part in parts)

"""Cut content to a size in bytes so that what is left is still valid JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.telemetry._values import dumps

if TYPE_CHECKING:
    from lazycore.telemetry._values import JSON

__all__ = ["fit"]


def fit(value: JSON, max_bytes: int, *, max_chars: int = 8192) -> str:
    """Return JSON text of at most `max_bytes` UTF-8 bytes.

    Long strings are shortened first, then the middle of a list is dropped: the first
    and the last messages say most. What is missing is said in its place.
    """
    text = dumps(value)
    whole = len(text.encode())
    if whole <= max_bytes:
        return text
    while max_chars > 32:
        max_chars //= 4
        value = _shorten(value, max_chars)
        text = dumps(value)
        if len(text.encode()) <= max_bytes:
            return text
    if isinstance(value, list):
        found = _drop_middle(value, max_bytes)
        if found is not None:
            return found
    marker: JSON = {"type": "omitted", "bytes": whole}
    text = dumps([marker] if isinstance(value, list) else marker)
    return text if len(text) <= max_bytes else "null"


def _shorten(value: JSON, limit: int) -> JSON:
    if isinstance(value, str):
        if len(value) <= limit + 24:
            return value
        return f"{value[:limit]}…[{len(value)} chars]"
    if isinstance(value, list):
        return [_shorten(item, limit) for item in value]
    if isinstance(value, dict):
        if value.get("type") == "blob" and isinstance(value.get("content"), str):
            content = str(value["content"])
            if len(content) > limit:
                kept = content[: limit // 4 * 4]
                return {**value, "content": kept, "truncated": len(content)}
        return {key: _shorten(item, limit) for key, item in value.items()}
    return value


def _drop_middle(items: list[JSON], max_bytes: int) -> str | None:
    sizes = [len(dumps(item).encode()) + 1 for item in items]
    marker_bytes = 80
    room = max_bytes - marker_bytes - 2
    head = 1 if sizes and sizes[0] <= room // 2 else 0
    room -= sum(sizes[:head])
    tail = 0
    while tail < len(items) - head and sizes[-1 - tail] <= room:
        room -= sizes[-1 - tail]
        tail += 1
    omitted = len(items) - head - tail
    marker: JSON = {"type": "omitted", "items": omitted}
    if any(isinstance(item, dict) and "role" in item for item in items):
        # In a list of messages the marker is a message too.
        marker = {"role": "omitted", "parts": [marker]}
    end = items[len(items) - tail :] if tail else []
    text = dumps([*items[:head], marker, *end])
    return text if len(text.encode()) <= max_bytes else None

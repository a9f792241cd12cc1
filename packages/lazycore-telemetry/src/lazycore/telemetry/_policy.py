"""What of a conversation may be recorded, and in which shape."""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lazycore.telemetry._errors import TelemetryUsageError
from lazycore.telemetry._fit import fit
from lazycore.telemetry._text import as_text, metadata
from lazycore.telemetry._values import JSON, dumps, normalise_part

__all__ = ["ContentMode", "ContentPolicy"]

Part: TypeAlias = dict[str, JSON]
Redactor: TypeAlias = Callable[[str, Part], Mapping[str, object] | None]


class ContentMode(enum.Enum):
    """Where content goes; the names are those of the OpenTelemetry variable.

    Example:
        >>> ContentMode["NO_CONTENT"].on_span
        False
    """

    NO_CONTENT = "NO_CONTENT"
    SPAN_ONLY = "SPAN_ONLY"
    EVENT_ONLY = "EVENT_ONLY"
    SPAN_AND_EVENT = "SPAN_AND_EVENT"

    @property
    def on_span(self) -> bool:
        """Whether spans and their events carry content."""
        return self in {ContentMode.SPAN_ONLY, ContentMode.SPAN_AND_EVENT}

    @property
    def on_event(self) -> bool:
        """Whether log events carry content."""
        return self in {ContentMode.EVENT_ONLY, ContentMode.SPAN_AND_EVENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPolicy:
    """Say what of messages, tools, prompts, evidence and errors is recorded.

    The empty constructor records none of it: only counts and sizes.

    Attributes:
        mode: Where content goes; `ContentMode.NO_CONTENT` by default.
        redact: Called as `redact(role, part)` with a copy of every part of every
            role (`system`, `user`, `assistant`, `tool`, `definitions`, `documents`,
            `query`, `records`, `variables`, `explanation`, `evidence`, `exception`)
            before anything is cut. It returns the part to record, or None to drop
            it. A hook that raises drops the part and is counted.
        max_part_chars: Longest string that is kept whole, in characters.
        max_total_bytes: Bound on the UTF-8 JSON of all content of one span.
        hash_key: With a key, content that is not recorded leaves an HMAC-SHA-256,
            so that equal prompts can be recognised by who holds the key. There is
            no unkeyed hash: short prompts are guessed from it.

    Raises:
        TelemetryUsageError: If a field has another type or no room for a marker.

    Example:
        >>> policy = ContentPolicy(mode=ContentMode.SPAN_ONLY)
        >>> policy.message("user", ("hello",))
        {'role': 'user', 'parts': [{'type': 'text', 'content': 'hello'}]}
    """

    mode: ContentMode = ContentMode.NO_CONTENT
    redact: Redactor | None = None
    max_part_chars: int = 8192
    max_total_bytes: int = 256_000
    hash_key: bytes | None = None

    def __post_init__(self) -> None:
        """Check every field."""
        mode: object = self.mode
        if not isinstance(mode, ContentMode):
            raise TelemetryUsageError(
                f"mode is a ContentMode, not {self.mode!r}: give one of "
                f"{', '.join(f'ContentMode.{m.name}' for m in ContentMode)}"
            )
        if self.redact is not None and not callable(self.redact):
            raise TelemetryUsageError("redact is called as redact(role, part)")
        for name, low in (("max_part_chars", 16), ("max_total_bytes", 1024)):
            value = getattr(self, name)
            if type(value) is not int or value < low:
                raise TelemetryUsageError(f"{name} is an int >= {low}, not {value!r}")
        key: object = self.hash_key
        if key is not None and (not isinstance(key, bytes) or len(key) < 16):
            raise TelemetryUsageError("hash_key is bytes, at least 16 of them")

    @property
    def captures(self) -> bool:
        """Whether any content is recorded anywhere."""
        return self.mode is not ContentMode.NO_CONTENT

    def part(self, role: str, value: object) -> Part | None:
        """Return one part as it may be recorded; None if it is dropped."""
        limit = self.max_part_chars
        if self.redact is None:
            return normalise_part(_as_part(value), max_chars=limit)
        whole = normalise_part(_as_part(value), max_chars=None)
        try:
            kept: object = self.redact(role, whole)
            if kept is None:
                return None
            if isinstance(kept, str):
                kept = {"type": "text", "content": kept}
            if not isinstance(kept, Mapping):
                return _WITHHELD.copy()
            return normalise_part(kept, max_chars=limit)
        except Exception:  # noqa: BLE001 - a hook is data: its failure hides the part
            return _WITHHELD.copy()

    def message(
        self, role: object, parts: tuple[object, ...], name: object = None
    ) -> dict[str, JSON]:
        """Return a message in the shape of the conventions."""
        role = metadata(role)
        kept = [part for part in (self.part(role, p) for p in parts) if part]
        found: dict[str, JSON] = {"role": role, "parts": list[JSON](kept)}
        if name is not None:
            found["name"] = metadata(name)
        return found

    def text(self, role: str, value: object) -> str | None:
        """Return one text (an explanation, an error) as it may be recorded."""
        part = self.part(role, value)
        if part is None or part.get("type") == "withheld":
            return None
        content = part.get("content")
        if isinstance(content, str):
            return content
        return fit(part, self.max_total_bytes, max_chars=self.max_part_chars)

    def digest(self, value: object) -> str | None:
        """Return the keyed hash of content, None without a key."""
        if self.hash_key is None:
            return None
        text = dumps(normalise_part(_as_part(value), max_chars=None))
        return hmac.new(self.hash_key, text.encode(), hashlib.sha256).hexdigest()


# What stands where a hook failed: counted by who reads it, and silent otherwise.
_WITHHELD: Part = {"type": "withheld", "reason": "the redaction hook failed"}


def _as_part(value: object) -> Mapping[str, object]:
    """Return a part for what a caller passed: text, a mapping, or anything else."""
    if isinstance(value, str):
        return {"type": "text", "content": value}
    if isinstance(value, Mapping):
        return value
    if isinstance(value, (bytes, bytearray)):
        return {"type": "blob", "modality": "unknown", "content": value}
    if isinstance(value, BaseException):
        return {"type": "text", "content": as_text(value)}
    return {"type": "json", "content": value}


def measure(parts: tuple[object, ...]) -> int:
    """Return how many characters the texts of some parts have; cheap and safe."""
    return sum(_length(part) for part in parts)


def _length(part: object) -> int:
    try:
        found = part.get("content") if isinstance(part, dict) else part
        if isinstance(found, str):
            return str.__len__(found)
        return len(found) if isinstance(found, (bytes, bytearray)) else 0
    except Exception:  # noqa: BLE001 - hostile containers exist
        return 0

"""Keep content until a span ends, as the policy allows; count it where it does not."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from lazycore.telemetry._fit import fit
from lazycore.telemetry._policy import measure
from lazycore.telemetry._text import as_text, clean
from lazycore.telemetry._values import JSON, dumps, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.util.types import AttributeValue

    from lazycore.telemetry._policy import ContentPolicy

__all__ = ["ContentBuffer"]

MAX_MESSAGES: Final = 2_000
MAX_VARIABLES: Final = 64
_VARIABLE: Final = "gen_ai.prompt.variable."
# What a reader needs most comes first: it gets the room.
_ORDER: Final = (
    "gen_ai.output.messages",
    "gen_ai.input.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.retrieval.query.text",
    "gen_ai.memory.query.text",
    "gen_ai.retrieval.documents",
    "gen_ai.memory.records",
    "gen_ai.tool.definitions",
)


class ContentBuffer:
    """Content of one span; never raises for what it is given."""

    __slots__ = ("_counts", "_hashed", "_policy", "_values", "_withheld")

    def __init__(self, policy: ContentPolicy) -> None:
        self._policy = policy
        self._values: dict[str, JSON] = {}
        self._counts: dict[str, int] = {}
        self._hashed: dict[str, list[object]] = {}
        self._withheld = 0

    def message(
        self, side: str, role: object, parts: tuple[object, ...], name: object
    ) -> None:
        """Keep one message of the input or the output."""
        counts = self._counts
        key = f"lazycore.{side}.message_count"
        counts[key] = counts.get(key, 0) + 1
        key = f"lazycore.{side}.char_count"
        counts[key] = counts.get(key, 0) + measure(parts)
        policy = self._policy
        if policy.hash_key is not None:
            self._hashed.setdefault(side, []).append([as_text(role), *parts])
        if not policy.captures:
            return
        messages = self._values.setdefault(f"gen_ai.{side}.messages", [])
        if isinstance(messages, list) and len(messages) < MAX_MESSAGES:
            messages.append(self._checked(policy.message(role, parts, name)))

    def _checked(self, message: dict[str, JSON]) -> JSON:
        parts = message.get("parts")
        if isinstance(parts, list):
            kept = [p for p in parts if not _is_withheld(p)]
            self._withheld += len(parts) - len(kept)
            message["parts"] = kept
        return message

    def put(
        self, attribute: str, role: str, value: object, *, many: bool, text: bool
    ) -> None:
        """Keep one value; a later one replaces it."""
        policy = self._policy
        if not policy.captures:
            return
        if text:
            found: JSON = policy.text(role, value)
            if found is None:
                self._withheld += 1
                return
        elif many:
            found = self._many(role, value)
        else:
            part = policy.part(role, _wrapped(value))
            if part is None or _is_withheld(part):
                self._withheld += 1
                return
            found = _unwrapped(part)
        self._values[attribute] = found

    def _many(self, role: str, values: object) -> list[JSON]:
        items: Iterable[object] = [values]
        if not isinstance(values, (str, bytes, dict)):
            try:
                rest = iter(values)  # type: ignore[call-overload] # may raise
                items = list(itertools.islice(rest, MAX_MESSAGES))
            except Exception:  # noqa: BLE001 - foreign iterables may refuse
                items = [values]
        found: list[JSON] = []
        for item in items:
            part = self._policy.part(role, item)
            if part is None or _is_withheld(part):
                self._withheld += 1
            else:
                found.append(part)
        return found

    def variables(self, values: Mapping[str, object]) -> None:
        """Keep the variables of a prompt template, one attribute each."""
        if not self._policy.captures:
            return
        try:
            pairs = list(values.items())[:MAX_VARIABLES]
        except Exception:  # noqa: BLE001 - foreign mappings may refuse
            self._withheld += 1
            return
        for key, value in pairs:
            found = self._policy.part("variables", value)
            if found is None or _is_withheld(found):
                self._withheld += 1
                continue
            content = found.get("content")
            self._values[_VARIABLE + clean(as_text(key)[:128])] = (
                content if found.get("type") in {"text", "json"} else found
            )

    def finish(self, reasons: object) -> None:
        """Say in each output message how it ended; unknown is the empty string.

        The conventions have moved this to an attribute of the span, but receivers
        still refuse output messages without it (Phoenix 20 shows none of them).
        """
        messages = self._values.get("gen_ai.output.messages")
        known = reasons if isinstance(reasons, (tuple, list)) else ()
        for index, message in enumerate(messages if isinstance(messages, list) else ()):
            if isinstance(message, dict):
                reason = known[min(index, len(known) - 1)] if known else ""
                message["finish_reason"] = str(reason)

    def span_attributes(self) -> dict[str, AttributeValue]:
        """Return what goes on the span: counts always, content by policy."""
        found: dict[str, AttributeValue] = dict(self._counts)
        for side, parts in self._hashed.items():
            digest = self._policy.digest({"type": "messages", "content": parts})
            if digest is not None:
                found[f"lazycore.{side}.hmac_sha256"] = digest
        if self._withheld:
            found["lazycore.withheld_parts"] = self._withheld
        if self._policy.mode.on_span:
            room = self._policy.max_total_bytes
            for attribute, value in self._ordered():
                text = value if isinstance(value, str) else None
                if text is None:
                    text = fit(value, room, max_chars=self._policy.max_part_chars)
                elif len(text.encode()) > room:
                    text = text.encode()[:room].decode("utf-8", "ignore")
                room -= len(text.encode())
                if room < 0:
                    break
                found[attribute] = text
        return found

    def event_attributes(self) -> dict[str, JSON]:
        """Return what goes on a log event: structured, within the same bound."""
        if not self._policy.mode.on_event:
            return {}
        found: dict[str, JSON] = {}
        room = self._policy.max_total_bytes
        for attribute, value in self._ordered():
            size = len(dumps(value).encode())
            if size > room:
                # What is left of a cut value is its JSON text, read back.
                import json

                value = json.loads(fit(value, room))  # noqa: PLW2901 - the cut value
                size = len(dumps(value).encode())
            room -= size
            if room < 0:
                break
            found[attribute] = value
        return found

    def _ordered(self) -> list[tuple[str, JSON]]:
        values = self._values
        first = [(name, values[name]) for name in _ORDER if name in values]
        return first + [item for item in values.items() if item[0] not in _ORDER]


def _is_withheld(part: JSON) -> bool:
    return isinstance(part, dict) and part.get("type") == "withheld"


def _wrapped(value: object) -> object:
    """Give the redaction hook a part whatever a tool took or returned."""
    return {"type": "value", "content": value}


def _unwrapped(part: dict[str, JSON]) -> JSON:
    cut = part.get("truncated")
    content = part.get("content")
    if cut is not None and isinstance(content, dict):
        return {**content, "truncated": cut}
    return content


def normalised_text(value: object, limit: int) -> str:
    """Return a text for anything, JSON for what is none."""
    if isinstance(value, str):
        return clean(value[:limit])
    found = normalise(value, max_chars=limit)
    return found if isinstance(found, str) else dumps(found)

"""Take the content of an operation: messages, tools, queries, documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.telemetry import _runtime
from lazycore.telemetry._content import ContentBuffer
from lazycore.telemetry._record import IDLE, OPEN, SpanRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

__all__ = ["ContentRecord"]


class ContentRecord(SpanRecord):
    """A record that also takes content; what becomes of it the policy decides."""

    __slots__ = ()

    def add_input(self, role: str, *parts: object, name: object = None) -> Self:
        """Add a message that was sent.

        Args:
            role: `system`, `user`, `assistant`, `tool`, or another.
            *parts: Texts, or parts in the shape of the conventions
                (`{"type": "text", "content": ...}`).
            name: Name of the participant.
        """
        return self._add("input", role, parts, name)

    def add_output(self, role: str, *parts: object, name: object = None) -> Self:
        """Add a message that came back; like `add_input`."""
        return self._add("output", role, parts, name)

    def set_system(self, *parts: object) -> Self:
        """Set the system instructions that are not part of the messages."""
        return self._put("gen_ai.system_instructions", "system", parts, many=True)

    def set_tools(self, definitions: Iterable[object]) -> Self:
        """Set the definitions of the tools that the model may call."""
        return self._put(
            "gen_ai.tool.definitions", "definitions", definitions, many=True
        )

    def set_arguments(self, value: object) -> Self:
        """Set the arguments of a tool call."""
        return self._put("gen_ai.tool.call.arguments", "tool", value)

    def set_result(self, value: object) -> Self:
        """Set the result of a tool call."""
        return self._put("gen_ai.tool.call.result", "tool", value)

    def set_query(self, text: object) -> Self:
        """Set the query of a retrieval or of a search in memory."""
        memory = self._operation.name.endswith(("_memory", "_store"))
        kind = "memory" if memory else "retrieval"
        return self._put(f"gen_ai.{kind}.query.text", "query", text, text=True)

    def set_documents(self, documents: Iterable[object]) -> Self:
        """Set what a retrieval found: `{"id": ..., "score": ...}` each."""
        return self._put(
            "gen_ai.retrieval.documents", "documents", documents, many=True
        )

    def set_records(self, records: Iterable[object]) -> Self:
        """Set the records that a memory operation read or wrote."""
        return self._put("gen_ai.memory.records", "records", records, many=True)

    def set_prompt_variables(self, variables: Mapping[str, object]) -> Self:
        """Set the values that were put into a prompt template."""
        if self._buffered() is not None and self._content is not None:
            self._content.variables(variables)
        return self

    def _buffered(self) -> ContentBuffer | None:
        if not self._writable():
            return None
        if self._state == OPEN and not self._recording:
            return None
        found = self._content
        if found is None:
            policy = _runtime.current().settings.policy
            found = self._content = ContentBuffer(policy)
        return found

    def _add(
        self, side: str, role: object, parts: tuple[object, ...], name: object
    ) -> Self:
        if self._state == IDLE:
            return self
        buffer = self._buffered()
        if buffer is not None:
            buffer.message(side, role, parts, name)
        return self

    def _put(
        self,
        attribute: str,
        role: str,
        value: object,
        *,
        many: bool = False,
        text: bool = False,
    ) -> Self:
        if self._state == IDLE:
            return self
        buffer = self._buffered()
        if buffer is not None:
            buffer.put(attribute, role, value, many=many, text=text)
        return self

"""Name a model checkpoint: ``registry:namespace/name`` with an optional revision."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from lazycore.licensing._errors import AllowlistFormatError

REGISTRIES: Final = ("hf", "ollama", "modelscope", "file")
_NAME = re.compile(r"[^\s@:\x00-\x1f\x7f]+\Z")
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")


class ModelId(NamedTuple):
    """A checkpoint's name in normal form and the revision written beside it."""

    registry: str
    name: str
    revision: str | None

    @property
    def key(self) -> str:
        """Return what ids are compared by: casefolded, without the revision."""
        return f"{self.registry}:{self.name}".casefold()

    def __str__(self) -> str:
        base = f"{self.registry}:{self.name}"
        return f"{base}@{self.revision}" if self.revision else base


def is_commit(revision: str | None) -> bool:
    """Tell whether a revision is a full commit and so can't move.

    Examples:
        >>> is_commit("main"), is_commit("0" * 40)
        (False, True)
    """
    return revision is not None and _COMMIT.match(revision) is not None


def parse_model_id(text: str) -> ModelId:
    """Read ``org/name``, ``hf:org/name`` or either with ``@revision``.

    Args:
        text: The id; Unicode is brought to NFC, ``hf:`` is implied.

    Returns:
        The parts.

    Raises:
        AllowlistFormatError: If the text names no model.

    Examples:
        >>> str(parse_model_id("org/Name@main"))
        'hf:org/Name@main'
    """
    if not isinstance(text, str):
        raise TypeError(f"a model id is text, got {type(text).__name__}")
    normal = unicodedata.normalize("NFC", text)
    base, at, revision = normal.partition("@")
    registry, colon, name = base.rpartition(":")
    registry = registry.casefold() if colon else "hf"
    if registry not in REGISTRIES:
        raise AllowlistFormatError(
            f"model id {text!r} names the registry {registry!r}; use one of "
            f"{', '.join(REGISTRIES)}"
        )
    if not _NAME.match(name) or (at and not revision):
        raise AllowlistFormatError(
            f"model id {text!r} is malformed; write namespace/name or "
            "registry:namespace/name, with @revision if need be"
        )
    return ModelId(registry, name, revision or None)

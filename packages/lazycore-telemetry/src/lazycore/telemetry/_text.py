"""Make any string safe for the wire.

One lone surrogate in a span name makes the OTLP encoder fail for the whole batch,
and NUL ends strings in several stores.
"""

from __future__ import annotations

__all__ = ["METADATA_CHARS", "as_text", "clean", "metadata"]

_CONTAINERS = (list, tuple, dict, set, frozenset, BaseExceptionGroup)
# Names and identifiers; content has limits of its own.
METADATA_CHARS = 4096


def clean(text: str) -> str:
    """Return an exact `str` without lone surrogates and NUL characters."""
    if type(text) is not str:
        text = str.__str__(text)
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    if "\0" in text:
        text = text.replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        # UTF-16 joins what is a pair and marks what stands alone.
        raw = text.encode("utf-16-le", "surrogatepass")
        return raw.decode("utf-16-le", "replace")
    return text


def as_text(value: object) -> str:
    """Return a clean text for any value; objects that resist give their type."""
    try:
        if isinstance(value, str):
            return clean(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return clean(bytes(value).decode("utf-8", "replace"))
        if isinstance(value, int) and value.bit_length() > 256:
            # int -> str is refused above 4300 digits and quadratic below.
            return f"<int of {value.bit_length()} bits>"
        if isinstance(value, _CONTAINERS) or hasattr(value, "__dataclass_fields__"):
            # The text of a container can be exponentially longer than itself.
            return f"<{type_name(type(value))}>"
        return clean(str(value))
    except Exception:  # noqa: BLE001 - any object may refuse to be shown
        return f"<{type_name(type(value))}>"


def type_name(kind: type) -> str:
    """Return the qualified name of a class, bare for builtins."""
    try:
        module = type.__getattribute__(kind, "__module__")
        name = type.__getattribute__(kind, "__qualname__")
        if not isinstance(module, str) or module == "builtins":
            return metadata(name)
        return metadata(f"{clean(module)}.{clean(name)}")
    except Exception:  # noqa: BLE001 - a metaclass may refuse too
        return "_OTHER"


def metadata(value: object) -> str:
    """Return a clean text of bounded length for names and identifiers."""
    if type(value) is str:
        if len(value) <= METADATA_CHARS:
            # Nothing that prints is a lone surrogate or NUL.
            return value if value.isprintable() else clean(value)
        return clean(value[: METADATA_CHARS - 1]) + "…"
    if isinstance(value, str):
        return metadata(str.__str__(value))
    return metadata(as_text(value))

"""Find and remove known secrets in every form a worker may write them.

A secret that is passed to a worker comes back as it is, in base64 at any of three
alignments, in hexadecimal, percent-encoded, escaped for JSON or HTML. All of these
are precomputed per secret and searched for as bytes.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from lazycore.experiments._errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Redactor", "encoded_forms", "require_secret_free"]

# A shorter value occurs by chance; its base64 would match ordinary words.
_SHORTEST = 4
_SHORTEST_ENCODED = 6
# Shapes of credentials that nobody passed: masked and counted, never an error.
_SHAPES = (
    rb"(?i:bearer)\s+[A-Za-z0-9._~+/=-]{16,}",
    rb"\bsk-[A-Za-z0-9_-]{16,}",
    rb"\bgh[pousr]_[A-Za-z0-9]{20,}",
    rb"\bAKIA[A-Z0-9]{16}\b",
    rb"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    rb"(?<=://)[^/\s:@]{1,64}:[^/\s:@]{1,64}(?=@)",
    rb"(?i:[?&](?:token|api_key|apikey|access_token|signature)=)[^&\s\"']{8,}",
)
_SHAPE = re.compile(b"|".join(b"(?:%s)" % shape for shape in _SHAPES))


def encoded_forms(secret: str) -> frozenset[bytes]:
    """Return the byte forms under which a secret could be written.

    Args:
        secret: The value, at least 4 characters for any form at all.

    Examples:
        >>> b"aHVudGVyM" in encoded_forms("hunter2")
        True
    """
    raw = secret.encode("utf-8", "surrogatepass")
    if len(secret) < _SHORTEST:
        return frozenset()
    forms = {raw, *_escapes(secret)}
    if len(raw) >= _SHORTEST_ENCODED:
        forms |= {
            raw.hex().encode(),
            raw.hex().upper().encode(),
            "".join(f"%{byte:02x}" for byte in raw).encode(),
            "".join(f"%{byte:02X}" for byte in raw).encode(),
            secret.encode("utf-16-le", "surrogatepass"),
            secret.encode("utf-16-be", "surrogatepass"),
            *_alignments(raw),
        }
    return frozenset(form for form in forms if len(form) >= _SHORTEST)


def _escapes(secret: str) -> Iterator[bytes]:
    text = secret.encode("utf-8", "replace").decode()
    unicode_lower = (
        "".join(
            f"\\u{unit:04x}"
            for unit in memoryview(secret.encode("utf-16-le")).cast("H")
        )
        if secret.isascii() or _encodable(secret)
        else ""
    )
    for form in (
        quote(text, safe=""),
        quote(text),
        quote_plus(text),
        re.sub("%[0-9A-F]{2}", lambda m: m.group().lower(), quote(text, safe="")),
        html.escape(text),
        html.escape(text, quote=False),
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        json.dumps(text)[1:-1].replace("/", "\\/"),
        repr(text)[1:-1],
        unicode_lower,
        unicode_lower.upper().replace("\\U", "\\u"),
    ):
        yield form.encode()


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-16-le")
    except UnicodeEncodeError:
        return False
    return True


def _alignments(raw: bytes) -> Iterator[bytes]:
    """Yield the base64 and base32 text of the bytes at every alignment.

    Only characters that depend on the secret alone are kept, so that whatever
    stands before and after it in the encoded stream does not matter.
    """
    for shift in range(3):
        padded = b"\0" * shift + raw
        body = base64.b64encode(padded)
        start = -(-shift * 8 // 6)
        end = len(padded) * 8 // 6
        for form in (body, base64.urlsafe_b64encode(padded)):
            yield form[start:end]
    for shift in range(5):
        padded = b"\0" * shift + raw
        body = base64.b32encode(padded)
        yield body[-(-shift * 8 // 5) : len(padded) * 8 // 5]


class Redactor:
    """Removes the values of passed variables from bytes and text.

    Args:
        secrets: Variable name to value; empty and very short values are ignored.

    Examples:
        >>> Redactor({"TOKEN": "hunter2!"}).text("saw aHVudGVyMi in the log")
        'saw [removed] in the log'
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._forms = {
            form: name
            for name, value in secrets.items()
            for form in encoded_forms(value)
        }
        ordered = sorted(self._forms, key=len, reverse=True)
        self._known = (
            re.compile(b"|".join(map(re.escape, ordered))) if ordered else None
        )

    def find(self, data: bytes) -> str | None:
        """Return the name of a variable whose value occurs in the bytes, or None."""
        if self._known is None:
            return None
        match = self._known.search(data)
        return self._forms[match.group()] if match else None

    def clean(self, data: bytes) -> bytes:
        """Return the bytes without known secrets and credential shapes."""
        if self._known is not None:
            data = self._known.sub(b"[removed]", data)
        return _SHAPE.sub(b"[masked]", data)

    def text(self, text: str, *, limit: int = 2048) -> str:
        """Return text without secrets, at most so many characters, from its end."""
        cleaned = self.clean(text.encode("utf-8", "replace")).decode("utf-8", "replace")
        return cleaned if len(cleaned) <= limit else "…" + cleaned[1 - limit :]


_SECRET_FIELDS = frozenset(
    {
        "access_token",
        "api_key",
        "apikey",
        "auth_token",
        "authorization",
        "bearer_token",
        "client_secret",
        "credentials",
        "passphrase",
        "password",
        "private_key",
        "secret",
        "secret_key",
    }
)


def require_secret_free(value: object, path: str = "$") -> None:
    """Refuse a document that names a secret field or holds a credential's shape.

    Args:
        value: JSON-able data.
        path: Where it lies, for the message; the value itself is never shown.

    Raises:
        ValidationError: Names the path of the hit.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            name = str(key).casefold().replace("-", "_")
            if name in _SECRET_FIELDS:
                raise ValidationError(f"{path}: a field is named like a secret")
            require_secret_free(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            require_secret_free(item, f"{path}[{index}]")
    elif isinstance(value, str) and _SHAPE.search(value.encode("utf-8", "replace")):
        raise ValidationError(f"{path}: holds what looks like a credential")

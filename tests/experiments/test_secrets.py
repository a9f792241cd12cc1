"""A passed secret is found in each of the forms a worker may write it."""

from __future__ import annotations

import base64
import html
import json
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

import pytest

from lazycore.experiments._secrets import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable

SECRETS = {
    "PLAIN": "correct-horse-battery",
    "SLASHED": "Zm9v/Ym+Fy==x9",
    "QUOTED": 'p"a\\ss<w>&ord1',
    "SPACED": "two words here",
    "UMLAUT": "pässwörd-9x",
    "LONG": "sk-" + "a1B2" * 16,
}


def base64_at(shift: int, encode: Callable[[bytes], bytes]) -> Callable[[str], bytes]:
    """Return an encoder that puts a secret behind so many other bytes."""
    return lambda secret: encode(b"x" * shift + secret.encode() + b"tail")


FORMS: dict[str, Callable[[str], bytes]] = {
    "raw": lambda s: s.encode(),
    "hex": lambda s: s.encode().hex().encode(),
    "HEX": lambda s: s.encode().hex().upper().encode(),
    "percent": lambda s: quote(s, safe="").encode(),
    "percent all": lambda s: "".join(f"%{b:02x}" for b in s.encode()).encode(),
    "form": lambda s: quote_plus(s).encode(),
    "json": lambda s: json.dumps(s).encode(),
    "json utf-8": lambda s: json.dumps(s, ensure_ascii=False).encode(),
    "json u": lambda s: "".join(f"\\u{ord(c):04x}" for c in s).encode(),
    "html": lambda s: html.escape(s).encode(),
    "repr": lambda s: repr(s).encode(),
    "utf-16": lambda s: s.encode("utf-16-le"),
    "base32": lambda s: base64.b32encode(s.encode()),
    **{f"base64 +{n}": base64_at(n, base64.b64encode) for n in range(3)},
    **{f"base64url +{n}": base64_at(n, base64.urlsafe_b64encode) for n in range(3)},
}


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_secret_is_found_and_removed(name: str, form: str) -> None:
    redactor = Redactor(SECRETS)
    written = FORMS[form](SECRETS[name])
    data = b"before " + written + b" after"
    assert redactor.find(data) == name
    cleaned = redactor.clean(data)
    assert redactor.find(cleaned) is None
    assert cleaned.startswith(b"before ")
    assert cleaned.endswith(b" after")


def test_text_that_holds_no_secret_is_left_alone() -> None:
    redactor = Redactor(SECRETS)
    for text in (
        '{"token": 5}',
        "password: swordfish",
        "the /data/path",
        "bearer of news",
    ):
        assert redactor.text(text) == text
        assert redactor.find(text.encode()) is None


def test_shapes_of_credentials_are_masked_but_are_no_finding() -> None:
    redactor = Redactor({})
    text = "Authorization: Bearer abcdefghijklmnopqrstuvwx"
    assert "abcdefgh" not in redactor.text(text)
    assert redactor.find(text.encode()) is None


@pytest.mark.parametrize("value", ["", "a", "abc"])
def test_very_short_values_are_not_searched_for(value: str) -> None:
    assert Redactor({"A": value}).find(b"abc abc") is None


def test_a_long_message_keeps_its_end() -> None:
    text = Redactor({}).text("x" * 5000 + "the cause")
    assert len(text) == 2048
    assert text.endswith("the cause")

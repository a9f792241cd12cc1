"""Read TOML strictly, naming file and line of each fault; write our own schemas."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from lazycore.licensing._errors import LicensingError

MAX_BYTES = 8 * 1024 * 1024


class TomlFile:
    """One parsed file that can point at the line of a key."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        error: type[LicensingError],
        *,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.path = Path(path)
        self.error = error
        raw = self.path.read_bytes()
        if len(raw) > max_bytes:
            raise error(f"{self.path}: more than {max_bytes} bytes")
        try:
            self.text = raw.decode("utf-8")
            self.data = tomllib.loads(self.text)
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
            raise error(f"{self.path}: not TOML: {fault}") from fault
        except RecursionError as fault:
            raise error(f"{self.path}: nested too deeply") from fault

    def line(self, table: str = "", index: int = 0, key: str = "") -> int:
        """Return the line of a key in the ``index``-th table of that name."""
        start, seen = 0, -1
        lines = self.text.splitlines()
        if table:
            header = re.compile(rf"\s*\[\[?\s*{re.escape(table)}\s*\]\]?\s*(#.*)?$")
            for number, line in enumerate(lines):
                if header.match(line):
                    seen += 1
                    start = number
                    if seen == index:
                        break
        if key:
            wanted = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""")
            for number in range(start, len(lines)):
                if wanted.match(lines[number]):
                    return number + 1
        return start + 1

    def headers(self, table: str) -> list[int]:
        """Return the line of each header of an array of tables, in one pass."""
        # A multi-line text could hold such a line too; then the counts differ, and
        # who asks falls back to naming the file.
        wanted = re.compile(
            rf"^[ \t]*\[\[[ \t]*{re.escape(table)}[ \t]*\]\]", re.MULTILINE
        )
        lines, position, line = [], 0, 1
        for match in wanted.finditer(self.text):
            line += self.text.count("\n", position, match.start())
            position = match.start()
            lines.append(line)
        return lines

    def fault(
        self, message: str, *, table: str = "", index: int = 0, key: str = ""
    ) -> LicensingError:
        """Return the error that names file, line and what is wrong."""
        return self.error(f"{self.path}:{self.line(table, index, key)}: {message}")

    def check_keys(
        self,
        found: Mapping[str, object],
        known: Iterable[str],
        *,
        table: str = "",
        index: int = 0,
    ) -> None:
        """Refuse keys that the schema does not have."""
        names = sorted(known)
        for key in found:
            if key not in names:
                raise self.fault(
                    f"unknown key {key!r}: use one of {', '.join(names)}",
                    table=table,
                    index=index,
                    key=key,
                )


def toml_string(text: str) -> str:
    """Return a TOML basic string (TOML 1.0, section String)."""
    out = []
    for character in text:
        code = ord(character)
        if character in '"\\':
            out.append("\\" + character)
        elif code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000:
            out.append(f"\\u{code:04X}" if not 0xD800 <= code < 0xE000 else "\\uFFFD")
        else:
            out.append(character)
    return '"' + "".join(out) + '"'


def toml_value(value: object) -> str:
    """Return a value of our schemas as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, dict):
        inner = (f"{toml_string(k)} = {toml_value(v)}" for k, v in value.items())
        return "{ " + ", ".join(inner) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    message = f"no TOML form for {type(value).__name__}"
    raise TypeError(message)

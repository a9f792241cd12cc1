"""Read and write allowlist files (TOML, schema 1)."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from lazycore.licensing._errors import AllowlistFormatError
from lazycore.licensing._models import ModelLicenseEntry
from lazycore.licensing._toml import TomlFile, toml_value

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

_TEXT = ("id", "license", "revision", "terms-url", "terms-sha256", "commercial")
_TEXTS = ("conditions", "base-models")
_KINDS: dict[str, type] = {
    **dict.fromkeys((*_TEXT, "mirror-of", "reviewed-by"), str),
    **dict.fromkeys((*_TEXTS, "usages"), list),
    "tier": int,
    "files": dict,
    "deny": bool,
    **dict.fromkeys(("reviewed-on", "expires"), dt.date),
}


def read(path: str | os.PathLike[str]) -> list[ModelLicenseEntry]:
    """Read the entries of a file.

    Raises:
        AllowlistFormatError: Unknown key or wrong value, with file and line.
    """
    file = TomlFile(path, AllowlistFormatError)
    file.check_keys(file.data, ("schema", "model"))
    if file.data.get("schema") != 1:
        raise file.fault("schema = 1 is the only schema", key="schema")
    models = file.data.get("model", [])
    if not isinstance(models, list):
        raise file.fault("write each model as [[model]]", key="model")
    return [_entry(file, index, table) for index, table in enumerate(models)]


def _fits(key: str, value: object) -> bool:
    wanted = _KINDS[key]
    if isinstance(value, bool) or wanted is bool:
        return isinstance(value, bool) and wanted is bool
    if isinstance(value, dt.datetime) or not isinstance(value, wanted):
        return False
    if isinstance(value, dict):
        return all(isinstance(item, str) for item in value.values())
    return not isinstance(value, list) or all(isinstance(item, str) for item in value)


def _entry(file: TomlFile, index: int, table: dict[str, Any]) -> ModelLicenseEntry:
    file.check_keys(table, _KINDS, table="model", index=index)
    for key, value in table.items():
        if not _fits(key, value):
            raise file.fault(
                f"{key} has the wrong type", table="model", index=index, key=key
            )
    for key in ("id", "license", "tier"):
        if key not in table:
            raise file.fault(f"a model needs {key}", table="model", index=index)
    fields: dict[str, Any] = {
        key.replace("-", "_"): value for key, value in table.items() if key != "id"
    }
    fields["files"] = tuple(sorted(table.get("files", {}).items()))
    if fields.get("revision") == "*":  # moving, said aloud
        fields["revision"] = None
    line = file.line("model", index)
    try:
        return ModelLicenseEntry(
            **fields, model_id=table["id"], provenance=f"{file.path}:{line}"
        )
    except ValueError as error:
        raise file.fault(str(error), table="model", index=index) from error


def write(entries: Iterable[ModelLicenseEntry]) -> str:
    """Return the text of an allowlist file; :func:`read` gives equal entries."""
    out = ["schema = 1"]
    for entry in entries:
        out += ["", "[[model]]"]
        for key in _KINDS:
            value = getattr(entry, "model_id" if key == "id" else key.replace("-", "_"))
            if key == "files":
                value = {path: f"sha256:{digest}" for path, digest in value}
            if value in (None, "", (), {}, False) or (key, value) in _DEFAULTS:
                continue
            out.append(f"{key} = {toml_value(value)}")
    return "\n".join(out) + "\n"


_DEFAULTS = (("commercial", "unknown"),)

"""Bind what a manifest asks of the host to identities: digests, never values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import digest, sha256_hex
from lazycore.experiments._checkout import read_head
from lazycore.experiments._errors import ArtifactError, ValidationError
from lazycore.experiments._file_hashes import hash_file
from lazycore.experiments._tree import read_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._manifest import DiscoveryManifest

__all__ = ["BindingReceipt", "bind"]


class BindingReceipt:
    """The identities of a manifest's prerequisites, sorted by kind and name.

    Args:
        manifest_sha256: The manifest.
        entries: One identity per prerequisite.
    """

    def __init__(self, manifest_sha256: str, entries: list[dict[str, Any]]) -> None:
        self.entries = sorted(entries, key=lambda entry: (entry["kind"], entry["name"]))
        keys = [(entry["kind"], entry["name"]) for entry in self.entries]
        if len(set(keys)) != len(keys):
            raise ValidationError("a prerequisite is declared twice")
        self.sha256 = digest({"manifest": manifest_sha256, "entries": self.entries})

    def binding(self, name: str, kind: str) -> dict[str, Any]:
        """Return the identity of a prerequisite.

        Raises:
            ValidationError: There is none of that name and kind.
        """
        for entry in self.entries:
            if (entry["kind"], entry["name"]) == (kind, name):
                return entry
        raise ValidationError(f"no {kind} prerequisite is named {name!r}")


def bind(
    manifest: DiscoveryManifest,
    environment: Mapping[str, str],
    *,
    directories: tuple[str, ...] = (),
) -> BindingReceipt:
    """Resolve every prerequisite of a manifest.

    Args:
        manifest: The manifest.
        environment: Where names get their values.
        directories: Further variables that name directories.

    Raises:
        ArtifactError: A variable is unset, or what it names is absent or unsafe.
    """
    entries = []
    declared = {kind: tuple(names) for kind, names in manifest.prerequisites.items()}
    extra = tuple(name for name in directories if name not in declared["directory_env"])
    declared["directory_env"] += extra
    for kind, names in declared.items():
        for name in names:
            value = name if kind == "executable" else environment.get(name, "")
            if not value:
                raise ArtifactError(f"{kind} prerequisite {name} is not set")
            entries.append({"kind": kind, "name": name, **_identity(kind, value)})
    return BindingReceipt(manifest.sha256, entries)


def _identity(kind: str, value: str) -> dict[str, Any]:
    if kind == "env":
        data = value.encode("utf-8", "surrogateescape")
        return {"sha256": sha256_hex(data), "length": len(data)}
    path = Path(value).expanduser()
    place = {"path_sha256": sha256_hex(str(path.resolve()).encode())}
    if kind == "directory_env":
        if not path.is_dir():
            raise ArtifactError("a directory prerequisite names no directory")
        tree = read_tree(path)
        found = {**place, "tree": tree.git_tree, "content_sha256": tree.sha256}
        if (path / ".git").exists():
            found["head"] = read_head(path.resolve())
        return found
    if path.is_symlink() and kind == "file_env":
        raise ArtifactError("a file prerequisite names a symbolic link")
    if not path.is_file():
        raise ArtifactError(f"a {kind} prerequisite names no file")
    return {**place, "sha256": hash_file(path), "size": path.stat().st_size}

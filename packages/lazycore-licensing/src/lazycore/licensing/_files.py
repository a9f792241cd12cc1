"""Read the files of one installed distribution, within limits."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from importlib.metadata import Distribution

MAX_FILE_BYTES: Final = 2_000_000
# Texts that state licences, by name; REUSE keeps them in LICENSES/.
_LICENSE_NAME: Final = re.compile(
    r"(?:.*[-_.])?(?:licen[cs]es?|copying|copyright|unlicen[cs]e|eula)"
    r"(?:[-_. ].*)?(?:\.(?:txt|md|rst))?\Z|(?:.*[-_.])licen[cs]e(?:\..*)?\Z",
    re.IGNORECASE,
)
_THIRD_PARTY: Final = re.compile(
    r"(?:3rd|third)[-_ ]?part|vendor|bundled|dependenc|external|notice|"
    r"opensource|open_source|attribution|cargo|copyright\b",
    re.IGNORECASE,
)


class Files(Protocol):
    """Where the files of a distribution are read."""

    def read(self, path: str) -> str | None:
        """Return a file below the ``.dist-info`` folder, None when absent."""

    def read_installed(self, path: str) -> str | None:
        """Return an installed file by its path in RECORD, None when absent."""

    def metadata_names(self) -> list[str]:
        """Return the relative paths of all files below ``.dist-info``."""


@dataclass(slots=True)
class FolderFiles:
    """Files of a ``.dist-info`` or ``.egg-info`` folder in a directory."""

    folder: str
    _names: list[str] | None = field(default=None)

    def read(self, path: str) -> str | None:
        """Return a file below the folder, None when absent."""
        if _leaves(path):
            return None
        return read_text(f"{self.folder}/{path}" if path else self.folder)

    def read_installed(self, path: str) -> str | None:
        """Return an installed file by its path in RECORD, None when absent."""
        if _leaves(path):
            return None
        return read_text(f"{os.path.dirname(self.folder)}/{path}")  # noqa: PTH120 - a hot path

    def metadata_names(self) -> list[str]:
        """Return the relative paths of all files below the folder."""
        if self._names is None:
            names = []
            for where, folders, files in os.walk(self.folder):
                folders.sort()
                prefix = where[len(self.folder) + 1 :].replace(os.sep, "/")
                names += [f"{prefix}/{n}" if prefix else n for n in sorted(files)]
            self._names = names
        return self._names


@dataclass(slots=True)
class DistributionFiles:
    """Files of an ``importlib.metadata`` distribution."""

    distribution: Distribution

    def read(self, path: str) -> str | None:
        """Return a file below the metadata folder, None when absent."""
        if _leaves(path):
            return None
        try:
            return self.distribution.read_text(path)
        except (OSError, ValueError):
            return None

    def read_installed(self, path: str) -> str | None:
        """Return an installed file by its path in RECORD, None when absent."""
        if _leaves(path):
            return None
        return read_text(str(self.distribution.locate_file(path)))

    def metadata_names(self) -> list[str]:
        """Return the files below the metadata folder that RECORD lists."""
        record = self.read("RECORD") or ""
        return [
            name
            for path in record_paths(record)
            if (name := _below_metadata(path)) is not None
        ]


def _below_metadata(path: str) -> str | None:
    folder, _, name = path.partition("/")
    return name if folder.endswith(".dist-info") and name else None


def _leaves(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/") or "\0" in path


def read_text(path: str) -> str | None:
    """Return the start of a text file; undecodable bytes are replaced."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def record_paths(record: str) -> list[str]:
    r"""Return the paths of a RECORD file (a CSV of path, hash and size).

    Examples:
        >>> record_paths('a/b.py,sha256=x,3\n"c,d.py",,\n')
        ['a/b.py', 'c,d.py']
    """
    paths = []
    for line in record.splitlines():
        if line.startswith('"'):
            path = line[1:].partition('",')[0].replace('""', '"')
        else:
            path = line.partition(",")[0]
        if path:
            paths.append(path)
    return paths


def is_license_name(path: str) -> bool:
    """Tell whether a file's name says that it states a licence.

    Examples:
        >>> is_license_name("licenses/LICENSE.APACHE"), is_license_name("RECORD")
        (True, False)
    """
    folder, _, name = path.rpartition("/")
    if folder.rpartition("/")[2] == "LICENSES":  # REUSE 3.0
        return True
    if name.lower().endswith((".py", ".pyc", ".json", ".js", ".html", ".so", ".pyi")):
        return False
    return _LICENSE_NAME.match(name) is not None


def is_third_party_name(path: str) -> bool:
    """Tell whether a licence file speaks of other people's work."""
    return _THIRD_PARTY.search(path) is not None

"""What the distribution rules look at: the source tree and the built files."""

from __future__ import annotations

import email
import email.message
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SLICES = ("data", "experiments", "licensing", "sandbox", "telemetry")
NAMES = ("lazycore", *(f"lazycore-{name}" for name in SLICES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """One distribution as declared and as built."""

    name: str
    project: dict[str, object]
    wheel: Path
    sdist: Path

    def wheel_names(self) -> list[str]:
        """Return the archive's member names."""
        with zipfile.ZipFile(self.wheel) as archive:
            return archive.namelist()

    def metadata(self) -> email.message.Message:
        """Return the wheel's parsed METADATA."""
        with zipfile.ZipFile(self.wheel) as archive:
            inner = next(n for n in archive.namelist() if n.endswith("/METADATA"))
            return email.message_from_bytes(archive.read(inner))

    def sdist_members(self) -> list[tarfile.TarInfo]:
        """Return the sdist's members."""
        with tarfile.open(self.sdist) as archive:
            return archive.getmembers()


def _only(pattern: str) -> Path:
    found = sorted((ROOT / "dist").glob(pattern))
    assert len(found) == 1, f"dist/{pattern}: {len(found)} files; run `nox -s wheels`"
    return found[0]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(params=NAMES)
def built(request: pytest.FixtureRequest) -> Built:
    name = str(request.param)
    text = (ROOT / "packages" / name / "pyproject.toml").read_text(encoding="utf-8")
    stem = name.replace("-", "_")
    return Built(
        name=name,
        project=tomllib.loads(text)["project"],
        wheel=_only(f"{stem}-[0-9]*.whl"),
        sdist=_only(f"{stem}-[0-9]*.tar.gz"),
    )

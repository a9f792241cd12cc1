"""Tell which files of a model hold weights, and which of them run code."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

MAX_FILES: Final = 20_000
# Formats that run code while they load (Python's pickle, or Keras's lambdas).
PICKLES: Final = frozenset(
    (
        *(".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy"),
        *(".h5", ".keras", ".dill", ".nemo"),
    )
)
SAFE: Final = frozenset((".safetensors", ".gguf", ".onnx"))


def model_files(folder: str | os.PathLike[str]) -> list[Path]:
    """Return at most `MAX_FILES` + 1 regular files below a folder, sorted.

    A pipe or a device in an unpacked archive would block a reader for ever.
    """
    return sorted(islice(_regular(Path(folder)), MAX_FILES + 1))


def _regular(folder: Path) -> Iterator[Path]:
    for place in folder.rglob("*"):
        try:
            if place.is_file():
                yield place
        except OSError:  # a loop of links, or a name that is too long
            continue


def weight_files(folder: str | os.PathLike[str]) -> list[str]:
    """Return the paths of files that a loader may take for weights."""
    root = Path(folder)
    return [
        place.relative_to(root).as_posix()
        for place in model_files(root)
        if place.suffix.lower() in PICKLES | SAFE
    ]

"""How a policy spells paths, and which one lies within which."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from lazycore.sandbox._errors import SandboxPolicyError

if TYPE_CHECKING:
    from collections.abc import Iterable

StrPath: TypeAlias = "str | os.PathLike[str]"

FORBIDDEN_ROOTS = ("/proc", "/sys", "/dev")
"""Kernel interfaces: a grant on one of them, or inside, opens the host."""


def normalise_path(role: str, path: StrPath) -> str:
    """Check the spelling of a policy path without touching the file system.

    Args:
        role: The policy field, for the message.
        path: An absolute path without `..`.

    Returns:
        The path with doubled, single-dot and trailing separators removed.

    Raises:
        SandboxPolicyError: If the path is empty, relative, holds NUL or `..`, is
            the root, or lies in a kernel interface.

    Examples:
        >>> normalise_path("allowed_read_paths", "/srv//data/")
        '/srv/data'
    """
    try:
        text = os.fspath(path)
    except TypeError:
        raise SandboxPolicyError(
            f"{role} holds {path!r}, which is not a path; give str or os.PathLike"
        ) from None
    if not isinstance(text, str):
        raise SandboxPolicyError(
            f"{role} holds {text!r}; give text: os.fsdecode() turns bytes into it"
        )
    if not text:
        raise SandboxPolicyError(f"{role} holds an empty path; name a path or drop it")
    if "\0" in text:
        raise SandboxPolicyError(f"{role} holds {text!r}, which contains NUL")
    if not text.startswith("/"):
        raise SandboxPolicyError(
            f"{role} holds the relative path {text!r}; make it absolute, for example "
            "with pathlib.Path(...).resolve()"
        )
    parts = [part for part in text.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise SandboxPolicyError(
            f"{role} holds {text!r}, which contains '..'; write the path it means"
        )
    clean = "/" + "/".join(parts)
    if clean == "/":
        raise SandboxPolicyError(
            f"{role} holds '/', the whole file system; list the directories that the "
            "run needs"
        )
    for root in FORBIDDEN_ROOTS:
        if clean == root or clean.startswith(root + "/"):
            raise SandboxPolicyError(
                f"{role} holds {clean!r}: {root} is a kernel interface; every run has "
                "its own"
            )
    return clean


def clean_paths(role: str, paths: Iterable[StrPath]) -> tuple[str, ...]:
    """Check the spelling of a policy's paths; keep the first of equal ones."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise SandboxPolicyError(f"{role} must be a list of paths, got {paths!r}")
    return tuple(dict.fromkeys(normalise_path(role, path) for path in paths))


def is_within(path: str, ancestor: str) -> bool:
    """Tell whether `path` is `ancestor` or lies below it, by whole components.

    Examples:
        >>> is_within("/a/b", "/a"), is_within("/a/bc", "/a/b")
        (True, False)
    """
    return ancestor in {"/", path} or path.startswith(ancestor + "/")

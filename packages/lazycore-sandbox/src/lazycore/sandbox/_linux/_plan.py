"""Turn a checked policy into a mount plan: what appears where, and how.

The plan is plain data that travels to the launcher. Its steps are ordered so that a
step never lies above an earlier one.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from lazycore.sandbox._errors import SandboxPolicyError
from lazycore.sandbox._paths import is_within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazycore.sandbox._preflight import CheckedPolicy, PinnedPath

READ_ONLY = "read"
READ_WRITE = "write"
MASK = "mask"
PIN = "pin"

Bind = tuple[str, str, bool, int, int]
"""(kind, path, is_dir, device, inode); device and inode are 0 when not pinned."""

Link = tuple[str, str]
"""(path, target) of a symbolic link that the sandbox's root repeats."""


def split_links(paths: Iterable[str]) -> tuple[list[Bind], list[Link]]:
    """Resolve paths of the system set into plain binds and the links on their way."""
    binds: dict[str, Bind] = {}
    links: dict[str, str] = {}
    for path in paths:
        real = _follow(path, links)
        try:
            mode = os.stat(real).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            binds[real] = (READ_ONLY, real, stat.S_ISDIR(mode), 0, 0)
    outer = sorted(binds)
    kept = [
        binds[path]
        for path in outer
        if not any(other != path and is_within(path, other) for other in outer)
    ]
    visible = [
        (path, target)
        for path, target in sorted(links.items())
        if not any(is_within(path, bind[1]) for bind in kept)
    ]
    return kept, visible


def _follow(path: str, links: dict[str, str]) -> str:
    """Return the real path; note each symbolic link met, under its real parent."""
    done = ""
    parts = [part for part in path.split("/") if part]
    hops = 0
    while parts:
        part = parts.pop(0)
        if part == ".":
            continue
        if part == "..":
            done = os.path.dirname(done) if done.count("/") > 1 else ""
            continue
        here = f"{done}/{part}"
        try:
            target = os.readlink(here)
        except OSError:
            done = here
            continue
        hops += 1
        if hops > 40:  # path_resolution(7): the kernel gives up there too
            return path
        links[here] = target
        if target.startswith("/"):
            done = ""
        parts = [item for item in target.split("/") if item] + parts
    return done or "/"


def policy_binds(checked: CheckedPolicy, system: list[Bind]) -> list[Bind]:
    """Order the policy's own binds, masks and pins from the root down."""
    steps: dict[str, Bind] = {}
    for pinned in checked.read:
        steps[pinned.path] = _bind(READ_ONLY, pinned)
    for pinned in checked.write:
        steps[pinned.path] = _bind(READ_WRITE, pinned)
    for pinned in checked.denied:
        steps[pinned.path] = _bind(MASK, pinned)
    ordered = [steps[path] for path in sorted(steps)]
    kept: list[Bind] = []
    for step in ordered:
        above = _enclosing(step[1], [*system, *kept])
        if above is None or above[0] != step[0]:
            kept.append(step)
    return _with_pins(kept)


def _bind(kind: str, pinned: PinnedPath) -> Bind:
    return (kind, pinned.path, pinned.is_dir, pinned.device, pinned.inode)


def _enclosing(path: str, steps: list[Bind]) -> Bind | None:
    """Return the innermost step that `path` lies in."""
    inside = [step for step in steps if is_within(path, step[1])]
    return max(inside, key=lambda step: len(step[1]), default=None)


def outermost(steps: list[Bind]) -> list[Bind]:
    """Return the steps that lie in no other one."""
    return [
        step
        for step in steps
        if step[0] in {READ_ONLY, READ_WRITE}
        and _enclosing(os.path.dirname(step[1]), steps) is None
    ]


def nested(steps: list[Bind]) -> list[str]:
    """Return the paths of the steps that lie in another one.

    Their mounts are on something of the host: when the host removes that, the kernel
    takes the mount away, in every namespace.
    """
    return [step[1] for step in steps if _enclosing(os.path.dirname(step[1]), steps)]


def _with_pins(steps: list[Bind]) -> list[Bind]:
    """Hold the directories between a writable root and a protected path inside.

    A directory that is a mount point cannot be renamed or removed (rename(2):
    EBUSY). Without that the target could move a protected path's parent away and
    put its own tree at the name which the host will open later.
    """
    pins: dict[str, Bind] = {}
    for step in steps:
        above = _enclosing(os.path.dirname(step[1]), steps)
        if above is None or above[0] != READ_WRITE or step[0] == READ_WRITE:
            continue
        parent = os.path.dirname(step[1])
        while parent != above[1]:
            info = os.stat(parent, follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                raise SandboxPolicyError(
                    f"{parent!r}, on the way to {step[1]!r}, is no directory any more"
                )
            pins[parent] = (PIN, parent, True, info.st_dev, info.st_ino)
            parent = os.path.dirname(parent)
    return sorted([*steps, *pins.values()], key=lambda step: step[1])

"""Where this user may make control groups, if anywhere: cgroups(7), both versions.

In version 2 a group that hands a controller down holds no processes itself, so a group
for runs can only lie beside the caller's own, where its parent is this user's: root's,
or delegated. In version 1 it lies below the caller's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lazycore.sandbox._linux._cgroup import Group
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazycore.sandbox._limits import ResourceLimits
    from lazycore.sandbox._linux._cgroup import Bounds

_TRIAL = {"memory": 256 << 20, "pids": 64}

_ENTER = "import sys\nfor f in sys.argv[1:]: open(f, 'w').write('0')"


class Place(NamedTuple):
    """A directory in which groups of one controller can be made."""

    version: int
    path: str


class Mount(NamedTuple):
    """One mount of a hierarchy: its type, what of it is mounted, where, options."""

    kind: str
    root: str
    path: str
    options: list[str]


def places() -> tuple[dict[str, Place], str]:
    """Find where groups can be made, by making one and having a process enter it.

    Returns:
        The place of each controller that can be used, and why one cannot.
    """
    return _places(os.geteuid(), os.getpid())


def bounds_of(limits: ResourceLimits, *, processes: bool) -> Bounds:
    """Name what a control group shall bound, as far as this user may make one.

    Args:
        limits: Those of a run.
        processes: Whether nothing else bounds its processes.
    """
    wanted = {
        "memory": limits.memory_bytes,
        "pids": limits.processes if processes else None,
    }
    bounds: Bounds = {}
    for controller, bound in wanted.items():
        if bound is not None and (place := places()[0].get(controller)):
            bounds[controller] = (place.version, place.path, bound)
    return bounds


@lru_cache(maxsize=8)
def _places(uid: int, pid: int) -> tuple[dict[str, Place], str]:
    del uid, pid
    found: dict[str, Place] = {}
    reasons: dict[str, list[str]] = {}
    for controller in _TRIAL:
        try:
            place = find(controller, _own_groups(), _mounts())
            _try(controller, place)
        except (OSError, StageError) as error:
            reasons.setdefault(str(error), []).append(controller)
        else:
            found[controller] = place
    lacking = [f"{' and '.join(names)}: {why}" for why, names in reasons.items()]
    return found, "; ".join(lacking)


def find(controller: str, own: Mapping[str, str], mounts: Sequence[Mount]) -> Place:
    """Name the directory for one controller.

    Args:
        controller: Its name.
        own: The caller's group by controller, that of version 2 by "".
        mounts: The caller's mounts.

    Raises:
        OSError: If there is none, or it is not this user's.
    """
    if controller in own:
        path = _directory("cgroup", own[controller], controller, mounts)
        return Place(1, _writable(path))
    if "" not in own:
        raise OSError("this process is in no such group")
    path = _directory("cgroup2", own[""], "", mounts)
    if os.path.exists(f"{path}/cgroup.type"):  # the root of the whole tree has none
        parent = os.path.dirname(path)
        if not os.path.exists(f"{parent}/cgroup.procs"):
            raise OSError(
                f"{path} is the top of what this process sees, and holds it, so that "
                "no group below can be limited; start the program one group below"
            )
        path = parent
    _hand_down(path, controller)
    return Place(2, _writable(path))


def _own_groups() -> dict[str, str]:
    """Read the groups of this process: cgroups(7)."""
    own: dict[str, str] = {}
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            own |= dict.fromkeys(controllers.split(","), path)
    return own


def _directory(kind: str, group: str, option: str, mounts: Sequence[Mount]) -> str:
    """Return where a group is mounted."""
    for mount in mounts:
        if mount.kind != kind or (option and option not in mount.options):
            continue
        below = os.path.relpath(group, mount.root)
        if not below.startswith(".."):
            return os.path.normpath(f"{mount.path}/{below}")
    raise OSError(f"no {kind} hierarchy that holds {group} is mounted here")


def _mounts() -> list[Mount]:
    """Read this process's mounts: proc_pid_mountinfo(5)."""
    mounts = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            before, _, after = line.rstrip("\n").partition(" - ")
            words, last = before.split(" "), after.split(" ")
            mounts.append(Mount(last[0], words[3], words[4], last[-1].split(",")))
    return mounts


def _writable(path: str) -> str:
    for name in ("", "/cgroup.procs"):
        if not os.access(path + name, os.W_OK, effective_ids=True):
            raise PermissionError(f"{path + name} is not this user's to write")
    return path


def _hand_down(path: str, controller: str) -> None:
    """Have a group of version 2 hand a controller to the groups below it."""
    with open(f"{path}/cgroup.controllers") as file:
        if controller not in file.read().split():
            raise OSError(f"{path} has no such controller")
    control = f"{path}/cgroup.subtree_control"
    with open(control) as file:
        if controller in file.read().split():
            return
    try:
        with open(control, "w") as file:
            file.write(f"+{controller}")
    except OSError as error:
        raise OSError(
            f"{path} does not hand its controller down, and cannot be made to "
            f"({error.strerror}); start the program one group below"
        ) from error


def _try(controller: str, place: Place) -> None:
    """Make a group, limit it, and have a process enter it."""
    group = Group({controller: (*place, _TRIAL[controller])})
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _ENTER, *group.doors()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise OSError(f"no process can enter a group in {place.path}: {said}")
    finally:
        group.remove(patience_s=2)

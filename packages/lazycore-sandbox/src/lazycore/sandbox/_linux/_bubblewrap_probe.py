"""Probe bubblewrap with the traps that the other Linux backends are probed with."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from lazycore.sandbox._errors import SandboxError
from lazycore.sandbox._guarantees import BackendReport, Guarantee
from lazycore.sandbox._linux import _probe
from lazycore.sandbox._linux._cgroup_tree import places
from lazycore.sandbox._linux._remedies import namespace_remedy
from lazycore.sandbox._shortage import shortage

if TYPE_CHECKING:
    from lazycore.sandbox._linux._bubblewrap import BubblewrapSandboxExecutor

# What this backend has no mechanism for, whatever a probe might make of it.
_NEVER = frozenset({Guarantee.EXEC_LIST, Guarantee.CPU, Guarantee.DISK})
# A root caller's target owns the host's device nodes, which bwrap can only mount
# writable: it may change their mode and times for the whole host.
_NEVER_FOR_ROOT = _NEVER | {Guarantee.SURVIVES_ROOT}
_FIRST_SAFE = (0, 12)
_APPARMOR = (
    "load its AppArmor profile: sudo apt install apparmor-profiles && sudo install -m "
    "0644 /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && "
    "sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"
)


@functools.lru_cache(maxsize=8)
def probe_bubblewrap(
    unproven: type[BubblewrapSandboxExecutor], uid: int
) -> BackendReport:
    """Run the traps once per user and process.

    Raises:
        ShortageError: The host lacks something for now.
    """
    from lazycore.sandbox._linux._bubblewrap import bubblewrap_version, find_bubblewrap

    notes = {
        "uid": str(uid),
        "kernel": os.uname().release,
        "control-groups": _probe.control_groups(),
    }
    path, reason = find_bubblewrap()
    if not path:
        return BackendReport(
            backend=unproven.name,
            available=False,
            reason=reason,
            remedy="apt-get install bubblewrap",
            notes=notes,
        )
    notes |= {"bwrap": path, "version": bubblewrap_version()}
    version = bubblewrap_version() or "0.0"
    if tuple(map(int, version.split(".")[:2])) < _FIRST_SAFE:
        notes["warning"] = (
            "bwrap before 0.12.0 can be led to make mount points through links in a "
            "parent directory (GHSA-pxhw-h44j-8pfx); policies here name no path with "
            "a link"
        )
    engine: Any = unproven
    try:
        held = _probe.try_traps(engine)
        memory = "memory" in places()[0] and _probe.probe_single(
            engine, uid, Guarantee.MEMORY
        )
    except (SandboxError, OSError, ValueError, RuntimeError) as error:
        if short := shortage(error):
            raise short from error
        return BackendReport(
            backend=unproven.name,
            available=False,
            reason=str(error),
            remedy=namespace_remedy(apparmor=_APPARMOR),
            notes=notes,
        )
    found = {
        which
        for which, needs in _probe.MEANING.items()
        if all(held.get(need, False) for need in needs)
    }
    if memory:
        found.add(Guarantee.MEMORY)
    return BackendReport(
        backend=unproven.name,
        available=True,
        guarantees=frozenset(found - (_NEVER if uid else _NEVER_FOR_ROOT)),
        notes=notes | {name: str(value) for name, value in sorted(held.items())},
    )

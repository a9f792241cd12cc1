"""What keeps this host from making namespaces, and the command that mends it."""

from __future__ import annotations

from pathlib import Path

_DOCKER = (
    "in Docker use --security-opt seccomp=unconfined --security-opt "
    "apparmor=unconfined --security-opt systempaths=unconfined, in Kubernetes "
    "hostUsers: false with an Unconfined seccompProfile and procMount: Unmasked"
)
_WEAKER = "or use the landlock backend with allow_degraded"
# Facts of the host that refuse a user namespace: file, value, what mends it.
_SWITCHES = (
    (
        "sys/user/max_user_namespaces",
        "0",
        "sudo sysctl -w user.max_user_namespaces=15000",
    ),
    (
        "sys/kernel/unprivileged_userns_clone",
        "0",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
)
_APPARMOR = "sys/kernel/apparmor_restrict_unprivileged_userns"
# Mounts inside of /proc that cover nothing a fresh one would show.
_HARMLESS = frozenset({"/proc/sys/fs/binfmt_misc"})


def namespace_remedy(*, apparmor: str, proc: str = "/proc") -> str:
    """Say what lets this process make namespaces and mount what they need.

    Args:
        apparmor: What to do where AppArmor restricts user namespaces.
        proc: Where the host's /proc is mounted.

    Returns:
        The commands for what was found, joined by semicolons; where nothing was
        found, what it may be.
    """
    steps = [fix for name, value, fix in _SWITCHES if _read(proc, name) == value]
    if _read(proc, _APPARMOR) == "1":
        steps.append(apparmor)
    covers = sorted(
        place
        for place in {line.split()[4] for line in _lines(proc, "self/mountinfo")}
        if place.startswith("/proc/") and place not in _HARMLESS
    )
    filtered = "Seccomp:\t2" in _lines(proc, "self/status")
    if covers:
        steps.append(f"{covers[0]} is covered, so no fresh /proc can be mounted: ")
        steps[-1] += _DOCKER
    elif filtered:
        steps.append(f"a seccomp filter confines this process: {_DOCKER}")
    if not steps:
        steps = [f"on Ubuntu, {apparmor}", _DOCKER]
    return "; ".join([*steps, _WEAKER])


def _lines(proc: str, name: str) -> list[str]:
    try:
        return Path(proc, name).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _read(proc: str, name: str) -> str:
    return "".join(_lines(proc, name)).strip()

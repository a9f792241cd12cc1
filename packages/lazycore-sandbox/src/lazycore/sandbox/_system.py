"""The read-only set that /bin/sh and the running interpreter need."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from typing import TYPE_CHECKING

from lazycore.sandbox._paths import is_within

if TYPE_CHECKING:
    from lazycore.sandbox._policy import SandboxPolicy

_LINUX_ROOTS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

PROTECTED_ROOTS = (
    *_LINUX_ROOTS,
    "/boot",
    "/etc",
    "/System",
    "/Library",
    "/private/etc",
)
"""Trees that a host runs code or takes configuration from: never writable."""

# /etc is never shown whole: shadow, ssl/private and host keys lie in it, and a root
# caller's target could read them.
_LINUX_ETC = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/fonts",
    "/etc/host.conf",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)

_LINUX_NETWORK = ("/etc/hosts", "/etc/resolv.conf", "/etc/gai.conf")

_DARWIN_ROOTS = (
    "/bin",
    "/sbin",
    "/usr",
    "/System",
    "/Library/Apple",
    "/Library/Preferences/Logging",
    "/private/etc/ssl",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
)


@lru_cache(maxsize=1)
def interpreter_paths() -> tuple[str, ...]:
    """Return the trees that the running interpreter loads from, outermost only."""
    found = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    found |= {os.path.realpath(path) for path in found}
    found.add(os.path.dirname(os.path.realpath(sys.executable)))
    found.add(os.path.dirname(os.path.realpath(os.__file__)))
    ordered = sorted(os.path.normpath(path) for path in found if path)
    kept: list[str] = []
    for path in ordered:
        if path != "/" and not any(is_within(path, other) for other in kept):
            kept.append(path)
    return tuple(kept)


@lru_cache(maxsize=1)
def interpreter() -> str:
    """Return a path of the running interpreter that a run can follow.

    `sys.executable` may lead through `..` or links of directories that no run sees.
    """
    given = path = os.path.normpath(sys.executable)
    real = os.path.realpath(sys.executable)
    if os.path.realpath(given) != real:  # a `..` after a link meant another place
        return real
    while any(is_within(path, tree) for tree in interpreter_paths()):
        if not os.path.islink(path):
            return given
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    return real


@lru_cache(maxsize=1)
def code_paths() -> tuple[str, ...]:
    """Return the directories whose change would change the running interpreter."""
    names = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    found = {sysconfig.get_path(name) for name in names}
    found.add(os.path.dirname(os.path.realpath(sys.executable)))
    return tuple(sorted(os.path.realpath(path) for path in found if path))


def system_paths(policy: SandboxPolicy) -> tuple[str, ...]:
    """Return what `include_system` adds for `policy`, sorted; only what exists."""
    if not policy.include_system:
        return ()
    if sys.platform == "darwin":
        candidates = list(_DARWIN_ROOTS)
    else:
        candidates = [*_LINUX_ROOTS, *_LINUX_ETC]
        if policy.allow_network:
            candidates += _LINUX_NETWORK
    candidates += interpreter_paths()
    # This package's own code, which a call's child imports; it may be installed
    # in place, outside of the interpreter's trees.
    candidates.append(os.path.dirname(os.path.realpath(__file__)))
    kept = {path for path in candidates if os.path.lexists(path)}
    return tuple(sorted(kept))

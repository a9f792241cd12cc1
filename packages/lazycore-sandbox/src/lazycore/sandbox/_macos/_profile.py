"""Translate a policy into a Seatbelt profile (SBPL).

Facts that the shape rests on, from public profiles and their bug reports, none of
them tried on a macOS kernel in this release:

* the last matching rule decides, so denials come last, each as ``literal`` and
  ``subpath`` (an allow with ``require-all`` was seen to beat a lone later subpath);
* rules see the path that the kernel resolved: ``/tmp`` never matches,
  ``/private/tmp`` does;
* paths travel as ``-D`` parameters and are never spliced into the text, so that no
  quote, bracket or ``#"`` in a name can become a rule;
* ``(literal "/")`` must be readable or a process of macOS 26 aborts before main;
* the address filter knows only ``localhost`` and ``*``, and ``localhost`` misses
  IPv4-mapped addresses: network is therefore given whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from lazycore.sandbox._errors import SandboxPolicyError

_BASE: Final = """\
(version 1)
(deny default)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.osproductversion")
  (sysctl-name "kern.osrelease")
  (sysctl-name "kern.ostype")
  (sysctl-name "kern.osvariant_status")
  (sysctl-name "kern.osversion")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg"))
(allow system-mac-syscall (mac-policy-name "vnguard"))
(allow system-mac-syscall
  (require-all (mac-policy-name "Sandbox") (mac-syscall-number 67)))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow ipc-posix-sem (ipc-posix-name-regex #"^/mp-"))
(allow file-read* (literal "/"))
(allow file-read-metadata
  (literal "/etc")
  (literal "/tmp")
  (literal "/var")
  (literal "/private"))
(allow file-read* file-write-data (literal "/dev/null") (literal "/dev/zero"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom"))
(allow file-read* file-write-data (subpath "/dev/fd"))
"""

_NETWORK: Final = """\
(allow network-outbound (remote ip "*:*"))
(allow network-inbound (local ip "*:*"))
(allow network-bind (local ip "*:*"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.trustd.agent"))
(allow file-read*
  (literal "/private/etc/hosts")
  (literal "/private/etc/resolv.conf")
  (literal "/private/etc/services")
  (literal "/private/var/run/resolv.conf"))
"""

_DENIABLE: Final = (
    "file-read* file-write* file-link file-map-executable process-exec* "
    "network-outbound network-bind"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """What a profile opens, every path canonical as the kernel spells it.

    Attributes:
        read: Trees that may be read.
        write: Trees that may be read and changed.
        denied: Trees that stay closed.
        executables: None for whatever can be read, else the only files to run.
        scratch: The run's private directory, with the mark inside.
        mark: A path in `scratch` that this profile, and no other, closes: the
            sweep knows the processes of a run by it.
        allow_network: Whether addresses of every kind are open.
        allow_unix_sockets: Whether unix sockets inside the trees are.
    """

    read: tuple[str, ...]
    write: tuple[str, ...]
    denied: tuple[str, ...]
    executables: tuple[str, ...] | None
    scratch: str
    mark: str
    allow_network: bool
    allow_unix_sockets: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """SBPL text and the values of its parameters, for `sandbox-exec -D`."""

    text: str
    parameters: tuple[tuple[str, str], ...]

    def arguments(self) -> list[str]:
        """Return the options of `sandbox-exec` that apply this profile."""
        pairs = (f"{name}={value}" for name, value in self.parameters)
        return ["-p", self.text, *(word for pair in pairs for word in ("-D", pair))]


def build_profile(grants: Grants) -> Profile:
    """Write the profile that opens `grants` and nothing else.

    Raises:
        SandboxPolicyError: a path cannot be spelled in a parameter: a control
            character, or bytes that are no UTF-8 (APFS has neither).
    """
    names = _Names()
    write = (*grants.write, grants.scratch)
    everything = (*grants.read, *write)
    lines = [_BASE]

    def rule(action: str, operations: str, filters: list[str]) -> None:
        if filters:
            lines.append(f"({action} {operations}\n  " + "\n  ".join(filters) + ")\n")

    rule("allow", "file-read* file-map-executable", names.trees(everything))
    above = _ancestors(everything) | _ancestors(grants.executables or ())
    rule("allow", "file-read-metadata", names.literals(sorted(above)))
    rule("allow", "file-write* file-link", names.trees(write))
    if grants.executables is None:
        rule("allow", "process-exec*", names.trees(everything))
    else:
        listed = names.literals(grants.executables)
        rule("allow", "process-exec* file-read* file-map-executable", listed)
    if grants.allow_network:
        lines.append(_NETWORK)
    if grants.allow_unix_sockets:
        rule("allow", "network-outbound network-bind", names.trees(write))
        rule("allow", "network-outbound", names.trees(grants.read))
        lines.append("(allow system-socket (socket-domain AF_UNIX))\n")
    if not grants.allow_network:
        lines.append('(deny network-outbound (remote ip "*:*"))\n')
        lines.append('(deny network-bind network-inbound (local ip "*:*"))\n')
    if not grants.allow_network and not grants.allow_unix_sockets:
        lines.append("(deny network*)\n")
    # The roots of write trees, and every directory above a denied path, stay where
    # they are: moved away, a link in their place would lead the host astray, and a
    # denied path would get a name that no rule knows.
    pinned = set(write) | _ancestors(grants.denied)
    rule("deny", "file-write-unlink", names.literals(sorted(pinned)))
    lines.append("(deny file-write-setugid)\n")
    rule("deny", _DENIABLE, names.trees((*grants.denied, grants.mark)))
    return Profile(text="".join(lines), parameters=names.parameters())


def _ancestors(paths: tuple[str, ...]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        found.update(str(above) for above in PurePosixPath(path).parents)
    found.discard("/")
    return found


class _Names:
    """Gives each path one parameter and writes filters that name it."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def literals(self, paths: list[str] | tuple[str, ...]) -> list[str]:
        return [f'(literal (param "{self._name(path)}"))' for path in paths]

    def trees(self, paths: tuple[str, ...]) -> list[str]:
        filters: list[str] = []
        for path in dict.fromkeys(paths):
            name = self._name(path)
            filters.append(f'(literal (param "{name}")) (subpath (param "{name}"))')
        return filters

    def parameters(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, path) for path, name in self._known.items())

    def _name(self, path: str) -> str:
        if path not in self._known:
            _check(path)
            self._known[path] = f"P{len(self._known)}"
        return self._known[path]


def _check(path: str) -> None:
    if any(ord(char) < 32 or ord(char) == 127 for char in path):
        raise SandboxPolicyError(
            f"the path {path!r} holds a control character, which no Seatbelt profile "
            "can name; rename it"
        )
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise SandboxPolicyError(
            f"the path {path!r} is not UTF-8, which no Seatbelt profile can name; "
            "rename it"
        ) from None

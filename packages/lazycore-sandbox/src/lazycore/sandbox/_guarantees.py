"""What a backend can promise, and what a policy needs promised."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.sandbox._policy import SandboxPolicy


class Guarantee(StrEnum):
    """One promise about a run that a backend either enforces on this host or not.

    A backend declares a guarantee only after a probe of this host found it
    enforced; the presence of a file or a version number is never enough.

    Examples:
        >>> Guarantee("no-network") is Guarantee.NO_NETWORK
        True
    """

    FS_READ = "fs-read"
    """Contents outside the listed paths cannot be read."""
    FS_METADATA = "fs-metadata"
    """Names, sizes, owners outside the listed paths cannot be seen or changed."""
    FS_WRITE = "fs-write"
    """Contents outside the listed write paths cannot be created or changed."""
    DENY_IN_ALLOW = "deny-in-allow"
    """A denied path inside an allowed one stays closed, renames included."""
    EXEC_LIST = "exec-list"
    """Only the listed executables start; the limits are in the documentation."""
    NO_NETWORK = "no-network"
    """No packet leaves and no service of the host is reached, loopback included."""
    NO_UNIX_SOCKET = "no-unix-socket"
    """No unix socket can be connected, neither by path nor abstract."""
    IPC = "ipc"
    """System V and POSIX message queues and shared memory of the host are hidden."""
    PID_KILL = "pid-kill"
    """Every process of a run is dead when the call returns, daemons included."""
    ENV = "env"
    """Nothing of the caller's environment is visible."""
    FDS = "fds"
    """No descriptor of the caller is inherited."""
    MEMORY = "memory"
    """`ResourceLimits.memory_bytes` holds."""
    PROCESSES = "processes"
    """`ResourceLimits.processes` holds for the whole tree."""
    CPU = "cpu"
    """`ResourceLimits.cpu_s` holds."""
    DISK = "disk"
    """`ResourceLimits.workspace_bytes` holds."""
    OUTPUT = "output"
    """Captured output is bounded by `ResourceLimits.output_bytes`."""
    SURVIVES_ROOT = "survives-root"
    """The promises above hold when the caller is root."""


ALWAYS_REQUIRED = frozenset(
    {
        Guarantee.FS_READ,
        Guarantee.FS_METADATA,
        Guarantee.FS_WRITE,
        Guarantee.IPC,
        Guarantee.PID_KILL,
        Guarantee.ENV,
        Guarantee.FDS,
        Guarantee.OUTPUT,
        Guarantee.SURVIVES_ROOT,
    }
)


def required_guarantees(policy: SandboxPolicy) -> frozenset[Guarantee]:
    """Work out which guarantees `policy` needs from a backend.

    Args:
        policy: The policy to hold.

    Returns:
        The guarantees without which a run would be weaker than the policy says.

    Examples:
        >>> from lazycore.sandbox import SandboxPolicy
        >>> Guarantee.NO_NETWORK in required_guarantees(SandboxPolicy())
        True
    """
    conditional = {
        Guarantee.NO_NETWORK: not policy.allow_network,
        Guarantee.NO_UNIX_SOCKET: not policy.allow_unix_sockets,
        Guarantee.DENY_IN_ALLOW: bool(policy.denied_paths),
        Guarantee.EXEC_LIST: policy.allowed_executables is not None,
        Guarantee.MEMORY: policy.limits.memory_bytes is not None,
        Guarantee.PROCESSES: policy.limits.processes is not None,
        Guarantee.CPU: policy.limits.cpu_s is not None,
        Guarantee.DISK: policy.limits.workspace_bytes is not None,
    }
    return ALWAYS_REQUIRED | {which for which, needed in conditional.items() if needed}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendReport:
    """What one backend can do on this host, as a probe found it.

    Attributes:
        backend: The backend's name, e.g. `"linux-namespace"`.
        available: Whether it can run anything at all here.
        guarantees: What it enforces here; empty when it is not available.
        reason: Why it is not available, else an empty string.
        remedy: The command or setting that mends it, else an empty string.
        notes: Facts found by the probe, for `diagnose()` and `doctor`.

    Examples:
        >>> BackendReport(backend="x", available=False, reason="no kernel").available
        False
    """

    backend: str
    available: bool
    guarantees: frozenset[Guarantee] = frozenset()
    reason: str = ""
    remedy: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)

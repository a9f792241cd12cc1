"""A network namespace that is lent again only if no run left a trace in it.

Making one and taking it down costs more than the rest of a run, much of it under a
lock that the whole host shares (rtnetlink(7)). A run without the network cannot
configure anything in its namespace, so what it can leave are counters and what its
sockets left behind. Where every one of these reads as at the namespace's birth, no
packet was sent and no socket is left, and the next run cannot tell it from a new one.
"""

from __future__ import annotations

import os

from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._children import loopback_up

_TRACES = (
    "dev",
    "igmp",
    "igmp6",
    "ip6_flowlabel",
    "netstat",
    "snmp",
    "snmp6",
    "sockstat",
    "sockstat6",
)
"""Files of proc_pid_net(5) that show what was sent and what is open."""
_BYTES = 1 << 16


class Net:
    """One network namespace, with nothing but a loopback.

    Args:
        proc: Descriptor of a /proc that shows this process, which moves in.

    Attributes:
        fd: Descriptor of the namespace, for setns(2).
    """

    def __init__(self, proc: int) -> None:
        _calls.unshare(_calls.CLONE_NEWNET)
        loopback_up()
        flags = os.O_RDONLY | os.O_CLOEXEC
        self.fd = os.open("self/ns/net", flags, dir_fd=proc)
        self._traces: list[int] = []
        for name in _TRACES:
            try:
                self._traces.append(os.open(f"self/net/{name}", flags, dir_fd=proc))
            except FileNotFoundError:
                continue  # no IPv6
        self._birth = self._read()

    def _read(self) -> list[bytes]:
        return [os.pread(fd, _BYTES, 0) for fd in self._traces]

    def is_unused(self) -> bool:
        """Tell whether it reads as at its birth; the last run is dead by now."""
        return self._read() == self._birth

    def close(self) -> None:
        """Let the kernel take it down."""
        for fd in (self.fd, *self._traces):
            os.close(fd)

"""Attacks over the network and over sockets of the host."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from lazycore.sandbox._attacks._attack import (
    Attack,
    Inside,
    Verdict,
    row,
    through,
)
from lazycore.sandbox._guarantees import Guarantee as Must

if TYPE_CHECKING:
    from lazycore.sandbox._attacks._stage import Stage
    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._result import SandboxResult


def datagram_arrived(stage: Stage, result: SandboxResult, verdict: Verdict) -> Verdict:
    """Look whether the host received what was sent."""
    del result
    with contextlib.suppress(BlockingIOError):
        return through(f"the host received {len(stage.udp.recv(100))} bytes")
    return verdict


def visited_server(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Open a port inside and wait for a visitor from the host."""
    body = """
def attack():
    with socket.create_server(("0.0.0.0", 0)) as s:
        with open(a["work"] + "/port", "w") as f:
            f.write("%d\\n" % s.getsockname()[1])
        s.settimeout(0.6)
        try:
            s.accept()
            return "a visitor from the host"
        except TimeoutError:
            return ""
"""
    done = threading.Event()

    def visit() -> None:
        while not done.wait(0.01):
            with contextlib.suppress(OSError, ValueError):
                with open(stage.path("work/port"), encoding="ascii") as file:
                    port = int(file.read())
                socket.create_connection(("127.0.0.1", port), 1).close()
                return

    visitor = threading.Thread(target=visit)
    visitor.start()
    try:
        return Inside(body=body)(stage, engine)
    finally:
        done.set()
        visitor.join()


_CONNECT = """
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as s:
        s.settimeout(1)
        s.connect(address)
    return address
"""

ROWS: tuple[Attack, ...] = (
    row(
        "41",
        "TCP to a service on the host's loopback",
        "NS LL SB",
        (Must.NO_NETWORK,),
        Inside(
            body=_CONNECT
            + """
def attack():
    return connect(socket.AF_INET, ("127.0.0.1", a["tcp"]))
"""
        ),
    ),
    row(
        "42",
        "TCP by IPv6 and by a mapped address",
        "NS LL SB",
        (Must.NO_NETWORK,),
        Inside(
            body=_CONNECT
            + """
def attack():
    try:
        return connect(socket.AF_INET6, ("::1", a["tcp6"]))
    except OSError:
        return connect(socket.AF_INET6, ("::ffff:127.0.0.1", a["tcp"]))
"""
        ),
    ),
    row(
        "43",
        "UDP, as DNS tunnels use",
        "NS SC SB",
        (Must.NO_NETWORK,),
        Inside(
            body="""
def attack():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(a["token"].encode(), ("127.0.0.1", a["udp"]))
""",
            judge=datagram_arrived,
        ),
    ),
    row(
        "45",
        "ICMP by ping and raw sockets",
        "SC NS",
        (Must.NO_NETWORK,),
        Inside(
            body="""
def attack():
    kinds = socket.SOCK_DGRAM, socket.SOCK_RAW
    families = (socket.AF_INET, 1), (socket.AF_INET6, 58)
    for words in [(f, kind, p) for f, p in families for kind in kinds]:
        try:
            socket.socket(*words).close()
            return words
        except OSError:
            pass
"""
        ),
        unconfined=False,
    ),
    row(
        "47",
        "a unix socket in a hidden directory",
        "NS SC SB",
        (Must.NO_UNIX_SOCKET,),
        Inside(
            body=_CONNECT
            + """
def attack():
    return connect(socket.AF_UNIX, a["hidden_sock"])
"""
        ),
    ),
    row(
        "48",
        "a unix socket in an allowed directory",
        "SC SB",
        (Must.NO_UNIX_SOCKET,),
        Inside(
            body=_CONNECT
            + """
def attack():
    return connect(socket.AF_UNIX, a["shown_sock"])
"""
        ),
    ),
    row(
        "48b",
        "a datagram of a socket pair to a unix socket in an allowed directory",
        "SC SB",
        (Must.NO_UNIX_SOCKET,),
        Inside(
            body="""
def attack():
    import errno
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        ours.sendto(b"out", a["shown_sock"])
    except OSError as error:
        # It was found, and is of another kind.
        if error.errno != errno.EPROTOTYPE:
            raise
    return "reached the socket"
"""
        ),
    ),
    row(
        "49",
        "an abstract unix socket (X11, D-Bus)",
        "NS LL",
        (Must.NO_UNIX_SOCKET,),
        Inside(
            body=_CONNECT
            + """
def attack():
    if sys.platform != "linux":
        raise Absent("abstract sockets are Linux")
    return connect(socket.AF_UNIX, "\\0" + a["abstract"])
"""
        ),
    ),
    row(
        "50",
        "service sockets: Docker, D-Bus, systemd, agents",
        "NS SC SB",
        (Must.NO_UNIX_SOCKET,),
        Inside(
            body=_CONNECT
            + """
import glob
def attack():
    names = ["/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock",
             "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket",
             "/run/systemd/private", "/run/systemd/journal/socket", "/dev/log",
             "/var/run/mDNSResponder", "/var/run/nscd/socket"]
    for name in names + glob.glob("/tmp/ssh-*/agent.*") + glob.glob("/tmp/.X11-unix/*"):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                return connect(socket.AF_UNIX, name, kind)
            except OSError:
                pass
"""
        ),
        unconfined=False,
    ),
    row(
        "53",
        "netlink and packet sockets",
        "SC",
        (Must.NO_NETWORK,),
        Inside(
            body="""
def attack():
    if sys.platform != "linux":
        raise Absent("netlink is Linux")
    for words in ((16, socket.SOCK_RAW, 0), (17, socket.SOCK_RAW, 768)):
        try:
            socket.socket(*words).close()
            return words
        except OSError:
            pass
"""
        ),
    ),
    row(
        "54",
        "a socket to the hypervisor",
        "SC",
        (Must.NO_NETWORK,),
        Inside(
            body="""
def attack():
    if sys.platform != "linux":
        raise Absent("vsock is Linux")
    socket.socket(40, socket.SOCK_STREAM).close()
    return "AF_VSOCK"
"""
        ),
        unconfined=False,
    ),
    row(
        "55",
        "kernel crypto and other rare families",
        "SC",
        (),
        Inside(
            body="""
def attack():
    if sys.platform != "linux":
        raise Absent("these families are Linux")
    got = []
    for family in range(3, 46):
        if family in (10,):
            continue
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET,
                     socket.SOCK_RAW):
            try:
                socket.socket(family, kind).close()
                got.append(family)
            except OSError:
                pass
    return sorted(set(got))
"""
        ),
        unconfined=False,
    ),
    row(
        "60",
        "a server that waits for a visitor from the host",
        "NS LL SB",
        (Must.NO_NETWORK,),
        visited_server,
    ),
)

"""A prepared child: the channel that hands it a run, and its way into namespaces."""

from __future__ import annotations

import array
import fcntl
import os
import select
import socket
import struct
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazycore.sandbox._linux._cgroup import Group, Lease

CHANNEL_FD = 3
"""Where a child keeps its end of the channel, above the standard descriptors."""
_LEASE_FD = 10
"""From here on it keeps a lease's, above those that a target gets."""
_LIFTED_FD = 100

PIDFD = b'{"pidfd":1}\n'
"""What comes with the descriptor of a run's process, before anything else."""
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1


class Child:
    """One child: its process, the channel that hands it a run, its descriptor.

    Args:
        pid: The process.
        pidfd: It.
        channel: As above.
        groups: The control groups that are removed when it was reaped.
    """

    def __init__(
        self,
        pid: int,
        pidfd: int,
        channel: socket.socket,
        groups: Sequence[Group] = (),
    ) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.channel = channel
        self.groups = [*groups]

    def hand_over(self, run: socket.socket) -> None:
        """Give the caller the child's pidfd and the child the caller's socket."""
        send_fd(run, PIDFD, self.pidfd)
        send_fd(self.channel, b"r", run.fileno())

    def close(self) -> None:
        """Release what the launcher holds of a child that was reaped."""
        self.channel.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)


def keep_only(channel: socket.socket, lease: Lease | None) -> socket.socket:
    """Close every descriptor but the standard ones, the channel and the lease's."""
    kept = [channel.detach(), *(lease.kept() if lease else ())]
    lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LIFTED_FD) for fd in kept]
    os.dup2(lifted[0], CHANNEL_FD, inheritable=False)
    os.closerange(CHANNEL_FD + 1, _LEASE_FD)
    for at, fd in enumerate(lifted[1:], _LEASE_FD):
        os.dup2(fd, at, inheritable=False)
    _calls.close_from(_LEASE_FD + len(lifted) - 1)
    if lease:
        lease.moved_to(_LEASE_FD)
    return socket.socket(fileno=CHANNEL_FD)


def send_fds(sock: socket.socket, data: bytes, fds: list[int]) -> None:
    """Send bytes and descriptors."""
    sock.sendmsg(
        [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    )


def send_fd(sock: socket.socket, data: bytes, fd: int) -> None:
    """Send bytes and one descriptor."""
    send_fds(sock, data, [fd])


def receive_fds(sock: socket.socket, size: int, count: int) -> tuple[bytes, list[int]]:
    """Return (data, descriptors), of which there are `count` at most."""
    data, control, _, _ = sock.recvmsg(
        size, socket.CMSG_SPACE(4 * count), socket.MSG_CMSG_CLOEXEC
    )
    fds = array.array("i")
    for level, kind, raw in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
    return data, [*fds]


def receive_fd(sock: socket.socket, size: int) -> tuple[bytes, int]:
    """Return (data, descriptor), the latter -1 when none came."""
    data, fds = receive_fds(sock, size, 1)
    return data, fds[0] if fds else -1


def hung_up(channel: socket.socket) -> bool:
    """Tell whether the launcher died before its death signal was armed."""
    poll = select.poll()
    poll.register(channel.fileno(), 0)
    return bool(poll.poll(0))


def enter_namespaces(identity: tuple[int, int], *, network: bool) -> None:
    """Map this user alone, name the host, bring the private loopback up."""
    map_identity("/proc/self", identity)
    _calls.drop_bounding_set()
    _calls.set_hostname("sandbox")
    if network:
        loopback_up()


def map_identity(
    process: str, identity: tuple[int, int], *, proc: int | None = None
) -> None:
    """Map one uid and one gid to themselves in this process's user namespace.

    Args:
        process: This process's directory in a /proc, relative to `proc` if given.
        identity: The uid and the gid.
        proc: Descriptor of a /proc.
    """
    uid, gid = identity
    # user_namespaces(7): setgroups must be denied before a plain user maps a gid.
    _write(f"{process}/setgroups", "deny", proc)
    _write(f"{process}/gid_map", f"{gid} {gid} 1", proc)
    _write(f"{process}/uid_map", f"{uid} {uid} 1", proc)


def _write(path: str, text: str, proc: int | None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(fd)


def loopback_up() -> None:
    """Bring the loopback of this process's network namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        # netdevice(7): struct ifreq is a 16-byte name and a union of 24 bytes.
        request = struct.pack("16sH22x", b"lo", _IFF_UP)
        fcntl.ioctl(sock.fileno(), _SIOCSIFFLAGS, request)

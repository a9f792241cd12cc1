"""Thin bindings to the system calls that the standard library does not offer.

Each function raises OSError with the kernel's errno; none of them retries or falls
back. Numbers from 424 on are the same on every architecture.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long

MACHINE: Final = os.uname().machine
_NR = {
    "x86_64": {
        "clone": 56,
        "pivot_root": 155,
        "seccomp": 317,
        "capset": 126,
        "statx": 332,
    },
    "aarch64": {
        "clone": 220,
        "pivot_root": 41,
        "seccomp": 277,
        "capset": 91,
        "statx": 291,
    },
}.get(MACHINE, {})

# sched.h
CLONE_FS = 0x200
CLONE_PIDFD = 0x1000
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000

# linux/mount.h
OPEN_TREE_CLONE = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x04
MOVE_MOUNT_T_EMPTY_PATH = 0x40
ATTR_RDONLY = 0x01
ATTR_NOSUID = 0x02
ATTR_NODEV = 0x04
ATTR_NOEXEC = 0x08
MS_PRIVATE = 1 << 18
_STATX_MNT_ID = 0x1000
_MS_BIND = 1 << 12
_FSOPEN_CLOEXEC = 1
_FSCONFIG_SET_FLAG, _FSCONFIG_SET_STRING, _FSCONFIG_CMD_CREATE = 0, 1, 6

# Resolution flags of openat2(2).
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04

# Options of prctl(2).
CAP_SETFCAP = 1 << 31
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
# NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, each locked: capabilities(7)
SECUREBITS_LOCKED_DOWN = 0xCF


def check(result: int) -> int:
    """Raise OSError from errno when a call answered below zero."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _call(number: int, *args: object) -> int:
    return check(_syscall(ctypes.c_long(number), *args))


def _long(value: int) -> ctypes.c_long:
    return ctypes.c_long(value)


def clone_with_pidfd(flags: int) -> tuple[int, int]:
    """Fork with new namespaces. Return (pid, pidfd), or (0, -1) in the child.

    Only a single-threaded process may call it: the C library's fork handlers do
    not run. The child must not raise signals at itself before exec or fork, since
    the C library's cached thread id is the parent's.
    """
    pidfd = ctypes.c_int(-1)
    # The third argument is parent_tid on both architectures: clone(2).
    pid = _call(
        _NR["clone"],
        _long(flags | CLONE_PIDFD | 17),  # SIGCHLD
        _long(0),
        ctypes.byref(pidfd),
        _long(0),
        _long(0),
    )
    return pid, pidfd.value if pid else -1


def unshare(flags: int) -> None:
    """Move this thread into new namespaces; its children for pids."""
    check(_libc.unshare(flags))


def setns(fd: int, kind: int) -> None:
    """Move this thread into the namespace that `fd` holds."""
    check(_libc.setns(fd, kind))


def bind_mount(source: str, target: str) -> None:
    """Bind one file of this root on another; the copy has the source's flags."""
    check(_libc.mount(os.fsencode(source), os.fsencode(target), None, _MS_BIND, None))


def open_beneath_root(path: str, root: int) -> int:
    """Open an absolute path as O_PATH relative to `root`, following no link."""
    how = struct.pack(
        "=QQQ", os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
    )
    relative = os.fsencode(path.lstrip("/")) or b"."
    return _call(437, root, relative, how, ctypes.c_size_t(len(how)))


def mount_id(fd: int) -> int:
    """Return the number of the mount that an open file or directory is on: statx(2)."""
    found = ctypes.create_string_buffer(256)
    wanted = ctypes.c_uint(_STATX_MNT_ID)
    _call(_NR["statx"], fd, b"", AT_EMPTY_PATH, wanted, found)
    number: int = struct.unpack_from("=Q", found, 144)[0]
    return number


def open_tree(fd: int, flags: int) -> int:
    """Clone the mounts at `fd` into a detached tree."""
    return _call(428, fd, b"", flags | AT_EMPTY_PATH | OPEN_TREE_CLOEXEC)


def move_mount(mount: int, root: int, path: str) -> None:
    """Attach a detached mount at `path`, relative to the directory `root`."""
    _call(429, mount, b"", root, os.fsencode(path), MOVE_MOUNT_F_EMPTY_PATH)


def move_mount_onto(mount: int, place: int) -> None:
    """Attach a detached mount on the very inode that `place` holds."""
    flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH
    _call(429, mount, b"", place, b"", flags)


def mount_setattr(fd: int, *, add: int, recursive: bool, propagation: int = 0) -> None:
    """Add attributes to the mount at `fd`, and to those below it."""
    attr = struct.pack("=QQQQ", add, 0, propagation, 0)
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    _call(442, fd, b"", flags, attr, ctypes.c_size_t(len(attr)))


def new_mount(kind: str, options: dict[str, str | None], attributes: int) -> int:
    """Make a file system and return its detached mount."""
    context = _call(430, kind.encode(), _FSOPEN_CLOEXEC)
    try:
        for key, value in options.items():
            command = _FSCONFIG_SET_FLAG if value is None else _FSCONFIG_SET_STRING
            text = None if value is None else value.encode()
            _call(431, context, command, key.encode(), text, 0)
        _call(431, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return _call(432, context, 1, attributes)
    finally:
        os.close(context)


def pivot_root(new: str, old: str) -> None:
    """Swap the root for `new` and stack the former one at `old`.

    See the second page of the manual: the call has no wrapper.
    """
    _call(_NR["pivot_root"], new.encode(), old.encode())


def detach(path: str) -> None:
    """Unmount `path` lazily (MNT_DETACH)."""
    check(_libc.umount2(os.fsencode(path), 2))


def prctl(option: int, *args: int) -> int:
    """Set an attribute of this process; arguments go as unsigned longs."""
    padded = [ctypes.c_ulong(value) for value in (*args, 0, 0, 0, 0)[:4]]
    return check(_libc.prctl(option, *padded))


def set_hostname(name: str) -> None:
    """Name the host of this uts namespace."""
    raw = name.encode()
    check(_libc.sethostname(raw, ctypes.c_size_t(len(raw))))


def drop_capabilities(*, keep: int = 0) -> None:
    """Empty the effective, permitted, inheritable and ambient sets for good.

    Args:
        keep: Mask of capabilities below 32 that stay effective and permitted.
    """
    prctl(PR_SET_SECUREBITS, SECUREBITS_LOCKED_DOWN)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    clear_capability_sets(keep=keep)


def clear_capability_sets(*, keep: int = 0) -> None:
    """Empty the effective, permitted and inheritable sets but for `keep`."""
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3
    _call(_NR["capset"], header, struct.pack("=6I", keep, keep, 0, 0, 0, 0))


def drop_bounding_set() -> None:
    """Empty the bounding set; needs CAP_SETPCAP in the user namespace."""
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            code = ctypes.get_errno()
            if code == 22:  # EINVAL: the kernel knows no further capability
                return
            raise OSError(code, os.strerror(code))


def signal_descriptor(signal_number: int) -> int:
    """Return a signalfd for one signal, which the caller must have blocked."""
    mask = struct.pack("=QQQQQQQQ8Q", 1 << (signal_number - 1), *[0] * 15)
    # signalfd(3) takes the C library's sigset_t of 128 bytes.
    return check(_libc.signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK))


def close_from(first: int) -> None:
    """Close every descriptor from `first` on: close_range(2)."""
    _call(436, ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), 0)


def install_filter(program: bytes) -> None:
    """Install a seccomp filter for this thread and what it starts."""
    code = ctypes.create_string_buffer(program, len(program))
    record = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    _call(_NR["seccomp"], 1, 0, record)  # SECCOMP_SET_MODE_FILTER


def landlock_abi() -> int:
    """Return the Landlock ABI of this kernel, 0 when it has none."""
    answer = _syscall(ctypes.c_long(444), None, ctypes.c_size_t(0), 1)
    return max(0, int(answer))


def landlock_ruleset(*, fs: int, net: int, scoped: int, abi: int) -> int:
    """Create a ruleset for the handled rights; `abi` bounds the structure's size."""
    words = (fs,) if abi < 4 else (fs, net) if abi < 6 else (fs, net, scoped)
    attr = struct.pack(f"={len(words)}Q", *words)
    return _call(444, attr, ctypes.c_size_t(len(attr)), 0)


def landlock_allow(ruleset: int, fd: int, rights: int) -> None:
    """Grant `rights` beneath the inode that `fd` holds."""
    _call(445, ruleset, 1, struct.pack("=Qi", rights, fd), 0)


def landlock_restrict(ruleset: int) -> None:
    """Enforce a ruleset on this thread; it must have no_new_privs."""
    _call(446, ruleset, 0)

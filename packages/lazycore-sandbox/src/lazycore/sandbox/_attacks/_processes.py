"""Attacks on other processes and on the terminal."""

from __future__ import annotations

from lazycore.sandbox._attacks._attack import (
    Attack,
    Inside,
    row,
)
from lazycore.sandbox._guarantees import Guarantee as Must

ROWS: tuple[Attack, ...] = (
    row(
        "17",
        "read another process through /proc",
        "NS LL",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    for name in ("environ", "mem", "cmdline", "root", "cwd", "maps", "fd"):
        path = "/proc/%d/%s" % (a["victim"], name)
        try:
            return os.readlink(path) if name in ("root", "cwd") else (
                os.listdir(path) if name == "fd" else read(path) and path)
        except OSError:
            pass
"""
        ),
    ),
    row(
        "17b",
        "list the host's processes",
        "NS",
        (Must.FS_METADATA,),
        Inside(
            body="""
def attack():
    if sys.platform != "linux":
        raise Absent("no /proc")
    return os.path.isdir("/proc/%d" % a["victim"])
"""
        ),
    ),
    row(
        "80",
        "signal a process of the host",
        "NS LL SB",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    os.kill(a["victim"], 0)
    return "a signal reaches process %d" % a["victim"]
"""
        ),
    ),
    row(
        "80b",
        "kill everybody",
        "NS LL SB",
        (Must.IPC,),
        Inside(
            body="""
import signal
def attack():
    for pid in (a["victim"], -1):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
""",
            silent_is_held=True,
        ),
        unconfined=False,
    ),
    row(
        "81",
        "trace a process of the host",
        "NS SC SB",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    call("ptrace", 16, ctypes.c_long(a["victim"]), 0, 0)
    call("ptrace", 17, ctypes.c_long(a["victim"]), 0, 0)
    return "traced"
"""
        ),
        unconfined=False,
    ),
    row(
        "81b",
        "read the memory of a process of the host",
        "NS SC SB",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    buffer = ctypes.create_string_buffer(16)
    vector = struct.pack("PN", ctypes.addressof(buffer), 16)
    code = call("process_vm_readv", a["victim"], vector, ctypes.c_ulong(1), vector,
        ctypes.c_ulong(1), ctypes.c_ulong(0))
    return code >= 0
"""
        ),
        unconfined=False,
    ),
    row(
        "81c",
        "take a descriptor of a process of the host",
        "NS SC",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    fd = call("pidfd_open", a["victim"], 0)
    try:
        return "descriptor %d" % call("pidfd_getfd", fd, 1, 0)
    except OSError:
        return "pidfd_open"
"""
        ),
    ),
    row(
        "81d",
        "slow a process of the host down",
        "NS SC SB",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    os.setpriority(os.PRIO_PROCESS, a["victim"], 5)
    return "renice"
"""
        ),
    ),
    row(
        "83",
        "type into the caller's terminal",
        "setsid SC",
        (),
        Inside(
            body="""
import fcntl
def attack():
    TIOCSTI = 0x5412 if sys.platform == "linux" else 0x80017472
    for fd in (0, 1, 2):
        try:
            fcntl.ioctl(fd, TIOCSTI, b"x")
            return "descriptor %d" % fd
        except OSError:
            pass
    fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), TIOCSTI, b"x")
    return "/dev/tty"
"""
        ),
        unconfined=False,
    ),
)

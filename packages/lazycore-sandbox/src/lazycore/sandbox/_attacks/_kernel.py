"""Attacks on the kernel: its settings, and calls that widen its surface."""

from __future__ import annotations

from lazycore.sandbox._attacks._attack import Attack, Inside, row
from lazycore.sandbox._guarantees import Guarantee as Must

ROWS: tuple[Attack, ...] = (
    row(
        "17c",
        "overwrite a running program through /proc",
        "NS LL",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    for name in ("self", "1", str(os.getppid()), str(a["victim"]), str(a["caller"])):
        path = "/proc/%s/exe" % name
        try:
            os.close(os.open(path, os.O_WRONLY))
            return path
        except OSError:
            pass
        try:
            # The descriptor outlives the program: write once it has ended.
            fd = os.open(path, os.O_PATH)
            os.close(os.open("/proc/self/fd/%d" % fd, os.O_WRONLY))
            return path
        except OSError:
            pass
"""
        ),
        unconfined=False,
    ),
    row(
        "18",
        "write /proc/sys: core_pattern and others",
        "NS LL",
        (Must.SURVIVES_ROOT,),
        Inside(
            body="""
def attack():
    for name in ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/vm/drop_caches",
                 "sys/kernel/hostname", "sysrq-trigger", "sys/fs/suid_dumpable"):
        try:
            os.close(os.open("/proc/" + name, os.O_WRONLY))
            return name
        except OSError:
            pass
"""
        ),
        unconfined=False,
    ),
    row(
        "19",
        "write to sysfs and to a cgroup",
        "NS LL",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    for path in ("/sys/kernel/uevent_helper", "/sys/fs/cgroup/release_agent",
                 "/sys/fs/cgroup/memory/release_agent", "/sys/power/state"):
        try:
            os.close(os.open(path, os.O_WRONLY))
            return path
        except OSError:
            pass
    for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory"):
        try:
            os.mkdir(path + "/lazycore-attack")
            os.rmdir(path + "/lazycore-attack")
            return path
        except OSError:
            pass
"""
        ),
        unconfined=False,
    ),
    row(
        "61b",
        "add a key to a keyring of the user",
        "SC",
        (Must.IPC,),
        Inside(
            body="""
def attack():
    return call("add_key", b"user", b"lazycore", b"x", 1, ctypes.c_long(-4))
"""
        ),
    ),
    row(
        "62",
        "io_uring",
        "SC",
        (),
        Inside(
            body="""
def attack():
    return call("io_uring_setup", 4, ctypes.create_string_buffer(120))
"""
        ),
        unconfined=False,
    ),
    row(
        "63",
        "userfaultfd, bpf, perf events",
        "SC",
        (),
        Inside(
            body="""
def attack():
    attr = ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0), 112)
    a_map = struct.pack("IIII", 2, 4, 4, 1)
    for name, args in (
        ("userfaultfd", (1,)),
        ("bpf", (0, ctypes.create_string_buffer(a_map, 72), 72)),
        ("perf_event_open", (attr, 0, -1, -1, 0)),
    ):
        try:
            call(name, *args)
            return name
        except OSError:
            pass
"""
        ),
        unconfined=False,
    ),
    row(
        "64",
        "open files by handle",
        "SC caps",
        (),
        Inside(
            body="""
def attack():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 64, 0), 136)
    mount = ctypes.c_int()
    call("name_to_handle_at", -100, a["shown"].encode(), handle, ctypes.byref(mount), 0)
    here = os.open(a["work"], os.O_RDONLY)
    return "descriptor %d" % call("open_by_handle_at", here, handle, 0)
"""
        ),
        unconfined=False,
    ),
    row(
        "65",
        "turn address randomisation off",
        "SC",
        (),
        Inside(
            body="""
def attack():
    call("personality", ctypes.c_ulong(0x0040000))
    return call("personality", ctypes.c_ulong(0xFFFFFFFF)) & 0x0040000
"""
        ),
    ),
    row(
        "65b",
        "segment descriptors by modify_ldt",
        "SC",
        (),
        Inside(
            body="""
def attack():
    return "bytes: %d" % call("modify_ldt", 0, ctypes.create_string_buffer(64), 64)
"""
        ),
    ),
    row(
        "67",
        "clone3 to hide its flags",
        "SC",
        (),
        Inside(
            body="""
def attack():
    args = ctypes.create_string_buffer(struct.pack("11Q", 0x10000000, 0, 0, 0, 17,
        0, 0, 0, 0, 0, 0), 88)
    pid = call("clone3", args, ctypes.c_ulong(88))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "a new user namespace"
"""
        ),
    ),
    row(
        "67b",
        "system calls of a foreign interface (x32)",
        "SC",
        (),
        Inside(
            body="""
def attack():
    if os.uname().machine != "x86_64":
        raise Absent("x32 is x86_64")
    return check(libc.syscall(ctypes.c_long(0x40000000 | 39)))
""",
            silent_is_held=True,
        ),
        unconfined=False,
    ),
)

"""Attacks by mounts, devices, and programs that gain more than their caller."""

from __future__ import annotations

import os
import sys

from lazycore.sandbox._attacks._attack import Attack, Inside, row
from lazycore.sandbox._guarantees import Guarantee as Must

_LISTED = {"allowed_executables": [os.path.realpath(sys.executable)]}


ROWS: tuple[Attack, ...] = (
    row(
        "20",
        "remount a read-only path writable",
        "SC caps",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    shown = a["shown"].encode()
    try:
        call("mount", None, shown, None, ctypes.c_ulong(32 | 4096), None)
    except OSError:
        check(libc.mount(None, b"/", None, ctypes.c_ulong(32 | 4096), None))
    write(a["shown"] + "/file")
"""
        ),
        unconfined=False,
    ),
    row(
        "21",
        "mount, unmount, new mount interface",
        "SC",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    tries = [
        lambda: call("mount", b"none", a["work"].encode(), b"tmpfs", 0, None),
        lambda: call("umount2", a["work"].encode(), 2),
        lambda: call("fsopen", b"tmpfs", 0),
        lambda: call("open_tree", -100, b"/", 1),
        lambda: call("mount_setattr", -100, b"/", 0, b"\\0" * 32, 32),
    ]
    for at, one in enumerate(tries):
        try:
            return "call %d: %s" % (at, one())
        except OSError:
            pass
"""
        ),
        unconfined=False,
    ),
    row(
        "22",
        "new user namespace, then mount",
        "SC",
        (),
        Inside(
            body="""
def attack():
    call("unshare", 0x10000000 | 0x20000)
    return "a new user namespace"
"""
        ),
    ),
    row(
        "22b",
        "clone into a new user namespace",
        "SC",
        (),
        Inside(
            body="""
def attack():
    pid = call("clone", ctypes.c_ulong(0x10000000 | 17), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "a new user namespace"
"""
        ),
    ),
    row(
        "23",
        "chroot and pivot_root",
        "SC caps",
        (),
        Inside(
            body="""
def attack():
    try:
        call("chroot", b"/")
        return "chroot"
    except OSError:
        call("pivot_root", b".", b".")
        return "pivot_root"
"""
        ),
        unconfined=False,
    ),
    row(
        "24",
        "make a device node",
        "SC caps",
        (),
        Inside(
            body="""
def attack():
    os.mknod(a["work"] + "/node", 0o20666, os.makedev(1, 1))
    return "a node for /dev/mem"
"""
        ),
        unconfined=False,
    ),
    row(
        "24b",
        "open a device of the host",
        "NS LL SB",
        (Must.FS_READ,),
        Inside(
            body="""
def attack():
    names = ["kvm", "fuse", "mem", "vda", "sda", "nvme0n1", "loop-control", "kmsg"]
    for name in names + ["net/tun", "vhost-vsock", "mapper/control", "disk0"]:
        try:
            os.close(os.open("/dev/" + name, os.O_RDONLY | os.O_NONBLOCK))
            return "/dev/" + name
        except OSError:
            pass
"""
        ),
        unconfined=False,
    ),
    row(
        "25",
        "run a program of the workspace",
        "noexec LL SB",
        (Must.EXEC_LIST,),
        Inside(
            policy=_LISTED,
            body="""
import shutil
def attack():
    shutil.copy(sys.executable, a["work"] + "/copy")
    pid = os.fork()
    if pid == 0:
        try:
            os.execv(a["work"] + "/copy", ["copy", "-I", "-S", "-c", ""])
        finally:
            os._exit(99)
    return os.waitpid(pid, 0)[1] == 0
""",
        ),
    ),
    row(
        "26",
        "run a program by the dynamic loader",
        "noexec LL",
        (Must.EXEC_LIST,),
        Inside(
            policy=_LISTED,
            body="""
import glob
def attack():
    loaders = glob.glob("/lib*/ld-linux*.so*") + glob.glob("/lib/*/ld-linux*.so*")
    if not loaders:
        raise Absent("no dynamic loader")
    pid = os.fork()
    if pid == 0:
        try:
            os.execv(loaders[0], ["ld.so", "/bin/true"])
        finally:
            os._exit(99)
    return os.waitpid(pid, 0)[1] == 0
""",
        ),
    ),
    row(
        "27",
        "run a program from memory",
        "SC",
        (Must.EXEC_LIST,),
        Inside(
            policy=_LISTED,
            body="""
def attack():
    if not hasattr(os, "memfd_create"):
        raise Absent("no memfd_create")
    fd = os.memfd_create("program", 0)
    with open("/bin/true", "rb") as f:
        os.write(fd, f.read())
    pid = os.fork()
    if pid == 0:
        try:
            os.execve(fd, ["program"], {})
        finally:
            os._exit(99)
    return os.waitpid(pid, 0)[1] == 0
""",
        ),
    ),
    row(
        "28",
        "run code by a listed interpreter",
        "-",
        (),
        Inside(
            policy=_LISTED,
            body="""
def attack():
    return "an interpreter runs what it is told"
""",
        ),
        expected="by design",
        reason=(
            "a list of executables says which files the kernel may start; an "
            "interpreter on it runs any script"
        ),
    ),
    row(
        "31",
        "leave a set-id program in the workspace",
        "SC",
        (Must.SURVIVES_ROOT,),
        Inside(
            body="""
def attack():
    write(a["work"] + "/tool", "wb")
    for mode in (0o4755, 0o2755):
        try:
            os.chmod(a["work"] + "/tool", mode)
            return oct(mode)
        except OSError:
            pass
    os.close(os.open(a["work"] + "/tool2", os.O_CREAT | os.O_WRONLY, 0o4755))
    return os.stat(a["work"] + "/tool2").st_mode & 0o6000
"""
        ),
    ),
    row(
        "31b",
        "gain privileges by a set-id program",
        "NNP",
        (),
        Inside(
            body="""
def attack():
    if sys.platform != "linux":
        raise Absent("no_new_privs is Linux")
    return libc.prctl(39, 0, 0, 0, 0) != 1 and "no_new_privs is off"
"""
        ),
    ),
    row(
        "32",
        "give a program file capabilities",
        "caps",
        (Must.SURVIVES_ROOT,),
        Inside(
            body="""
def attack():
    if not hasattr(os, "setxattr"):
        raise Absent("no setxattr")
    write(a["work"] + "/tool", "wb")
    data = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0)
    os.setxattr(a["work"] + "/tool", b"security.capability", data)
    # A namespaced capability has a root id of its own and means nothing outside.
    return len(os.getxattr(a["work"] + "/tool", b"security.capability")) == 20
"""
        ),
        unconfined=False,
    ),
    row(
        "37",
        "leave a core dump",
        "RL",
        (),
        Inside(
            body="""
def attack():
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    return hard != 0 and "the core limit is %d" % hard
"""
        ),
    ),
)

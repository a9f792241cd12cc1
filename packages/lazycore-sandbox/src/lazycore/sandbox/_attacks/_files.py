"""Attacks on files outside the lists: contents, names, attributes."""

from __future__ import annotations

from lazycore.sandbox._attacks._attack import (
    Attack,
    Inside,
    row,
)
from lazycore.sandbox._guarantees import Guarantee as Must

ROWS: tuple[Attack, ...] = (
    row(
        "01",
        "read a file outside the list",
        "NS LL SB",
        (Must.FS_READ,),
        Inside(
            body="""
def attack():
    return read(a["secret"])
"""
        ),
    ),
    row(
        "01b",
        "read the password hashes",
        "NS LL SB",
        (Must.FS_READ,),
        Inside(
            body="""
def attack():
    return read("/etc/shadow")
"""
        ),
        unconfined=False,
    ),
    row(
        "02",
        "stat and list outside the list",
        "NS SB",
        (Must.FS_METADATA,),
        Inside(
            body="""
def attack():
    try:
        return os.stat(a["secret"])
    except OSError:
        return os.listdir(a["hidden"])
"""
        ),
    ),
    row(
        "03",
        "create a file outside",
        "NS LL SB",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    write(a["hidden"] + "/new", "wb")
"""
        ),
    ),
    row(
        "03b",
        "append to a file outside",
        "NS LL SB",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    write(a["secret"], "ab")
"""
        ),
    ),
    row(
        "04",
        "write a read-only file",
        "NS LL SB",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    write(a["shown"] + "/file")
"""
        ),
    ),
    row(
        "04b",
        "create in a read-only directory",
        "NS LL SB",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    write(a["shown"] + "/new", "wb")
"""
        ),
    ),
    row(
        "05",
        "truncate(2) a read-only file",
        "NS LL SB",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    os.truncate(a["shown"] + "/file", 0)
"""
        ),
    ),
    row(
        "06",
        "chmod a read-only file",
        "NS SB",
        (Must.FS_METADATA,),
        Inside(
            body="""
def attack():
    os.chmod(a["shown"] + "/file", 0o600)
"""
        ),
    ),
    row(
        "06b",
        "set the times of a read-only file",
        "NS SB",
        (Must.FS_METADATA,),
        Inside(
            body="""
def attack():
    os.utime(a["shown"] + "/file", (1, 1))
"""
        ),
    ),
    row(
        "06c",
        "set an attribute of a read-only file",
        "NS SB",
        (Must.FS_METADATA,),
        Inside(
            body="""
def attack():
    if not hasattr(os, "setxattr"):
        raise Absent("no setxattr")
    os.setxattr(a["shown"] + "/file", b"user.planted", b"1")
"""
        ),
    ),
    row(
        "06d",
        "chown a read-only file",
        "NS SB",
        (Must.FS_METADATA,),
        Inside(
            body="""
def attack():
    os.chown(a["shown"] + "/file", os.getuid(), os.getgid())
"""
        ),
    ),
    row(
        "06e",
        "read the host's mount table in /proc",
        "NS SB",
        (Must.FS_METADATA,),
        Inside(
            body="""
def attack():
    if not a["mount_point"]:
        raise Absent("no mount of the host that no policy shows")
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        for table, field in (("mountinfo", 4), ("mounts", 1)):
            try:
                with open("/proc/%s/%s" % (process, table)) as f:
                    points = [line.split(" ")[field] for line in f]
            except OSError:
                continue
            if a["mount_point"] in points:
                found.append(process)
    return " ".join(found)
"""
        ),
    ),
    row(
        "11",
        "rename over a read-only file",
        "NS LL SB",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    write(a["work"] + "/new", "wb")
    os.rename(a["work"] + "/new", a["shown"] + "/file")
"""
        ),
    ),
    row(
        "11b",
        "rename a hidden directory away",
        "NS LL SB",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    os.rename(a["hidden"] + "/folder", a["work"] + "/stolen")
    os.rename(a["work"] + "/stolen", a["hidden"] + "/folder")
    return "moved there and back"
"""
        ),
    ),
)

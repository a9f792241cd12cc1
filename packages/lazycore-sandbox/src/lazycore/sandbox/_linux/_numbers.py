"""System call numbers that the filter names, per architecture.

Written from the kernel's headers: `arch/x86/entry/syscalls/syscall_64.tbl` for
x86_64 and `include/uapi/asm-generic/unistd.h` for aarch64. A test holds them against
the installed headers where those are present. From 424 on the two are the same.
"""

from __future__ import annotations

X86_64 = "x86_64"
AARCH64 = "aarch64"

AUDIT_ARCH = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
"""`AUDIT_ARCH_*` of include/uapi/linux/audit.h."""

KNOWN_RANGES = {
    X86_64: ((0, 334), (424, 469)),
    AARCH64: ((0, 294), (424, 469)),
}
"""Numbers that this filter has a judgement on; any other call is answered ENOSYS."""

_OLD: dict[str, tuple[int | None, int | None]] = {
    "_sysctl": (156, None),
    "accept": (43, 202),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "afs_syscall": (183, None),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "creat": (85, None),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "finit_module": (313, 273),
    "get_kernel_syms": (177, None),
    "getpmsg": (181, None),
    "init_module": (175, 105),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "memfd_create": (319, 279),
    "migrate_pages": (256, 238),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "move_pages": (279, 239),
    "mq_getsetattr": (245, 185),
    "mq_notify": (244, 184),
    "mq_open": (240, 180),
    "mq_timedreceive": (243, 183),
    "mq_timedsend": (242, 182),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "openat": (257, 56),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "putpmsg": (182, None),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "security": (185, None),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "tuxcall": (184, None),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
    "vserver": (236, None),
}

_COMMON = {
    "clone3": 435,
    "close_range": 436,
    "fchmodat2": 452,
    "fsconfig": 431,
    "fsmount": 432,
    "fsopen": 430,
    "fspick": 433,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "io_uring_setup": 425,
    "listmount": 458,
    "lsm_set_self_attr": 460,
    "memfd_secret": 447,
    "mount_setattr": 442,
    "move_mount": 429,
    "open_tree": 428,
    "open_tree_attr": 467,
    "openat2": 437,
    "pidfd_getfd": 438,
    "pidfd_open": 434,
    "pidfd_send_signal": 424,
    "process_madvise": 440,
    "process_mrelease": 448,
    "quotactl_fd": 443,
    "statmount": 457,
}


def numbers(arch: str) -> dict[str, int]:
    """Return name -> number for `arch`; calls the architecture lacks are absent."""
    column = (X86_64, AARCH64).index(arch)
    old = {name: pair[column] for name, pair in _OLD.items()}
    return _COMMON | {name: nr for name, nr in old.items() if nr is not None}

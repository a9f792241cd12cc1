"""Build the seccomp filter: a classic BPF program that judges each system call.

The program is a list of what is allowed: numbers the kernel gained after this table
was written are answered ENOSYS, so that a new interface is never open by accident.
Layout of the data it reads: `struct seccomp_data` (seccomp(2)): nr at 0, arch at 4,
arguments of 8 bytes each from 16.
"""

from __future__ import annotations

import errno
import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from lazycore.sandbox._linux._numbers import (
    AUDIT_ARCH,
    KNOWN_RANGES,
    X86_64,
    numbers,
)
from lazycore.sandbox._linux._proc import RESERVED_PIDS

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = Callable[[list[str], "list[Instruction]"], None]

# include/uapi/linux/bpf_common.h and filter.h
_LD_W_ABS = 0x20
_ALU_AND_K = 0x54
_JMP_JA = 0x05
_JMP_JEQ_K = 0x15
_JMP_JGE_K = 0x35
_JMP_JGT_K = 0x25
_JMP_JSET_K = 0x45
_RET_K = 0x06

# include/uapi/linux/seccomp.h
KILL_PROCESS = 0x80000000
ALLOW = 0x7FFF0000
_ERRNO = 0x00050000

_X32_BIT = 0x40000000
_NR, _ARCH = 0, 4

# sched.h: every CLONE_NEW* that clone(2) knows. CLONE_NEWTIME shares its bit with
# the exit signal and exists in clone3(2) only.
_CLONE_NEW = 0x7E020000
_O_CREAT, _O_TMPFILE = 0x40, 0x400000
_SET_ID_BITS = 0o6000
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_TYPE_MASK = 0xF
_TIOCSTI, _TIOCLINUX, _TIOCCONS = 0x5412, 0x541C, 0x541D

Instruction = tuple[int, int, int, int]

REFUSED = [
    "_sysctl",
    "acct",
    "add_key",
    "adjtimex",
    "afs_syscall",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "fanotify_mark",
    "finit_module",
    "get_kernel_syms",
    "getpmsg",
    "init_module",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "lsm_set_self_attr",
    "migrate_pages",
    "modify_ldt",
    "mount",
    "move_pages",
    "name_to_handle_at",
    "nfsservctl",
    "open_by_handle_at",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_mrelease",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "putpmsg",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "security",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "sysfs",
    "syslog",
    "tuxcall",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
    "vserver",
]
"""Answered EPERM: they reach the host, other processes or dead kernel interfaces."""

ABSENT = [
    "clone3",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "listmount",
    "memfd_secret",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "open_tree_attr",
    "openat2",
    "statmount",
]
"""Answered ENOSYS, on which libraries fall back to a call the filter can judge.

clone3 and openat2 take their flags by pointer, which a filter cannot read.
"""

WITHOUT_IPC_NAMESPACE = [
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
]

WITHOUT_PID_NAMESPACE = "pidfd_open pidfd_send_signal".split()  # noqa: SIM905

BY_PID = [
    "prlimit64",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
]
"""These reach any process of the same user by number."""


def _arg(index: int) -> int:
    return 16 + 8 * index


def _errno(code: int) -> Instruction:
    return (_RET_K, 0, 0, _ERRNO | code)


_PASS: Instruction = (_RET_K, 0, 0, ALLOW)
_EPERM = _errno(errno.EPERM)
_EACCES = _errno(errno.EACCES)


def _load(offset: int) -> Instruction:
    return (_LD_W_ABS, 0, 0, offset)


def _on(number: int, body: list[Instruction]) -> list[Instruction]:
    """Run `body`, which must return on every way, for one call number."""
    return [(_JMP_JEQ_K, 0, len(body), number), *body]


def _one_of(
    offset: int, values: tuple[int, ...], refuse: Instruction
) -> list[Instruction]:
    """Go on when the argument is one of `values`, else return `refuse`."""
    tests: list[Instruction] = [
        (_JMP_JEQ_K, len(values) - at, 0, value) for at, value in enumerate(values)
    ]
    return [_load(offset), *tests, refuse]


def _bits_refused(offset: int, mask: int, refuse: Instruction) -> list[Instruction]:
    return [_load(offset), (_JMP_JSET_K, 0, 1, mask), refuse]


def _values_refused(
    offset: int, values: tuple[int, ...], refuse: Instruction
) -> list[Instruction]:
    tests = [(_JMP_JEQ_K, len(values) - at - 1, 0, v) for at, v in enumerate(values)]
    # The last test falls through to `refuse` on a match and jumps over it otherwise.
    last = tests[-1]
    tests[-1] = (last[0], 0, 1, last[3])
    return [_load(offset), *tests, refuse]


def _open_mode(flags: int, mode: int) -> list[Instruction]:
    """Refuse set-id bits when the call creates; else the mode is undefined."""
    return [
        _load(_arg(flags)),
        (_JMP_JSET_K, 0, 3, _O_CREAT | _O_TMPFILE),
        *_bits_refused(_arg(mode), _SET_ID_BITS, _EPERM),
        _PASS,
    ]


def _socket(*, inet: bool, unix: bool) -> list[Instruction]:
    families = (_AF_INET, _AF_INET6) if inet else ()
    body: list[Instruction] = []
    if unix:
        body += [_load(_arg(0)), (_JMP_JEQ_K, 0, 1, _AF_UNIX), _PASS]
    if not families:
        return [*body, _EACCES]
    body += _one_of(_arg(0), families, _EACCES)
    body += [
        _load(_arg(1)),
        (_ALU_AND_K, 0, 0, _SOCK_TYPE_MASK),
        (_JMP_JEQ_K, 2, 0, 1),  # SOCK_STREAM
        (_JMP_JEQ_K, 1, 0, 2),  # SOCK_DGRAM
        _EACCES,
    ]
    # 0 is the type's own protocol; IPPROTO_ICMP(V6) would be a ping socket.
    body += _one_of(_arg(2), (0, 6, 17), _EACCES)
    return [*body, _PASS]


def _socketpair(*, unix: bool) -> list[Instruction]:
    """Let pairs through that cannot turn to a third socket.

    A datagram socket of a pair still sends to any address and can be connected anew
    (unix(7)); one of a stream or a sequence of packets stays with its peer for good.
    """
    body = _one_of(_arg(0), (_AF_UNIX,), _EACCES)
    if not unix:
        body += [
            _load(_arg(1)),
            (_ALU_AND_K, 0, 0, _SOCK_TYPE_MASK),
            (_JMP_JEQ_K, 2, 0, 1),  # SOCK_STREAM
            (_JMP_JEQ_K, 1, 0, 5),  # SOCK_SEQPACKET
            _EACCES,
        ]
    return [*body, _PASS]


def _judge_arguments(answer: Answer) -> None:
    """Let through calls whose arguments decide, when they are harmless."""
    answer(["clone"], [*_bits_refused(_arg(0), _CLONE_NEW, _EPERM), _PASS])
    terminal = (_TIOCSTI, _TIOCLINUX, _TIOCCONS)
    answer(["ioctl"], [*_values_refused(_arg(1), terminal, _EPERM), _PASS])
    # 0xFFFFFFFF asks, 0 is PER_LINUX; anything else weakens the address space.
    answer(["personality"], [*_one_of(_arg(0), (0, 0xFFFFFFFF), _EPERM), _PASS])
    # A set-id file in a granted directory belongs to the caller: on the host it
    # would hand the caller's rights to whoever runs it.
    for name, at in (
        ("chmod", 1),
        ("creat", 1),
        ("fchmod", 1),
        ("fchmodat", 2),
        ("fchmodat2", 2),
        ("mknod", 1),
        ("mknodat", 2),
    ):
        answer([name], [*_bits_refused(_arg(at), _SET_ID_BITS, _EPERM), _PASS])
    answer(["open"], _open_mode(1, 2))
    answer(["openat"], _open_mode(2, 3))


def _spare_pid_one(answer: Answer) -> None:
    """Refuse to bound or slow down pid 1 of the namespace, which meters the run.

    Its threads count as well: the run's own pids are all higher, and 0 is itself.
    """

    def spared(at: int) -> list[Instruction]:
        return [
            _load(_arg(at)),
            (_JMP_JEQ_K, 2, 0, 0),
            (_JMP_JGT_K, 1, 0, RESERVED_PIDS - 1),
            _EPERM,
            _PASS,
        ]

    answer(BY_PID, spared(0))
    # (which, who): neither that process nor everything of this user. PRIO_USER is 2,
    # IOPRIO_WHO_USER 3.
    other = spared(1)
    answer(["setpriority"], [*_values_refused(_arg(0), (2,), _EPERM), *other])
    answer(["ioprio_set"], [*_values_refused(_arg(0), (3,), _EPERM), *other])


def _isolate_by_filter(answer: Answer) -> None:
    """Refuse what a pid or an ipc namespace would have kept inside."""
    answer(WITHOUT_IPC_NAMESPACE, [_EPERM])
    answer(WITHOUT_PID_NAMESPACE, [_EPERM])
    answer(BY_PID, [*_one_of(_arg(0), (0,), _EPERM), _PASS])
    # ioprio_set and setpriority: (which, who), both must mean "this process".
    itself = [*_one_of(_arg(1), (0,), _EPERM), _PASS]
    answer(["setpriority"], [*_one_of(_arg(0), (0,), _EPERM), *itself])
    answer(["ioprio_set"], [*_one_of(_arg(0), (1,), _EPERM), *itself])


@lru_cache(maxsize=32)
def build_filter(
    arch: str,
    *,
    namespaces: bool,
    allow_inet: bool,
    allow_unix: bool,
    allow_memfd: bool,
    allow_segments: bool,
) -> bytes:
    """Assemble the filter as `struct sock_filter` records.

    Args:
        arch: `"x86_64"` or `"aarch64"`, as `os.uname().machine` spells it.
        namespaces: Whether pid and ipc namespaces isolate the target; without
            them calls that reach other processes are refused here.
        allow_inet: Whether IPv4 and IPv6 stream and datagram sockets may be made.
        allow_unix: Whether unix sockets may be made; pairs that cannot leave each
            other always may.
        allow_memfd: Whether memory may become a file, which can be executed and
            is counted to no process.
        allow_segments: Whether System V shared memory may be made; it outlives the
            process that is charged for it.

    Returns:
        The program, 8 bytes per instruction, in this machine's byte order.

    Raises:
        KeyError: If the architecture is unknown.
    """
    number = numbers(arch)
    answers: dict[int, list[Instruction]] = {}

    def answer(names: list[str], body: list[Instruction]) -> None:
        for name in names:
            if name in number:
                answers[number[name]] = body

    answer(REFUSED, [_EPERM])
    answer(ABSENT, [_errno(errno.ENOSYS)])
    _judge_arguments(answer)
    answer(["socket"], _socket(inet=allow_inet, unix=allow_unix))
    answer(["socketpair"], _socketpair(unix=allow_unix))
    if not allow_memfd:
        answer(["memfd_create"], [_EPERM])
    if not allow_segments:
        answer(["shmget"], [_EPERM])
    if namespaces:
        _spare_pid_one(answer)
    else:
        _isolate_by_filter(answer)
    return _assemble(arch, answers)


def _assemble(arch: str, answers: dict[int, list[Instruction]]) -> bytes:
    program: list[Instruction] = [
        _load(_ARCH),
        (_JMP_JEQ_K, 1, 0, AUDIT_ARCH[arch]),
        (_RET_K, 0, 0, KILL_PROCESS),
        _load(_NR),
        *_search(_segments(arch, answers)),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in program)


def _segments(
    arch: str, answers: dict[int, list[Instruction]]
) -> list[tuple[int, list[Instruction]]]:
    """Return (first number, what answers it and those that follow), in order."""
    absent = [_errno(errno.ENOSYS)]
    starts: dict[int, list[Instruction]] = {0: absent}
    for low, high in KNOWN_RANGES[arch]:
        starts[low] = [_PASS]
        starts[high + 1] = absent
    if arch == X86_64:
        starts[_X32_BIT] = [(_RET_K, 0, 0, KILL_PROCESS)]
    for number in sorted(answers):
        # What follows goes on as before, unless it starts something itself.
        before = starts[max(start for start in starts if start <= number)]
        starts.setdefault(number + 1, before)
        starts[number] = answers[number]
    ordered = sorted(starts.items())
    return [
        entry
        for at, entry in enumerate(ordered)
        if not at or entry[1] != ordered[at - 1][1]
    ]


def _search(segments: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Find the segment of a number by halving: the kernel installs it faster too.

    It runs a filter once for every call number, to know those it need not ask again.
    """
    if len(segments) == 1:
        return segments[0][1]
    middle = len(segments) // 2
    left, right = _search(segments[:middle]), _search(segments[middle:])
    first = segments[middle][0]
    if len(left) <= 0xFF:
        return [(_JMP_JGE_K, len(left), 0, first), *left, *right]
    return [(_JMP_JGE_K, 0, 1, first), (_JMP_JA, 0, 0, len(left)), *left, *right]

"""The filter, judged by an interpreter of classic BPF of our own.

This holds the program for both architectures to one table without needing either
kernel; on the machine's own architecture the live attacks confirm it.
"""

from __future__ import annotations

import errno
import itertools
import re
import struct
from pathlib import Path

import pytest

from lazycore.sandbox._linux import _numbers, _seccomp

pytestmark = pytest.mark.once

ALLOW = "allow"
KILL = "kill"
ARCHES = ("x86_64", "aarch64")

_HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}


def judge(program: bytes, nr: int, args: tuple[int, ...] = (), arch: int = 0) -> str:
    """Interpret the program on one call: bpf(4) and seccomp(2)."""
    padded = (*args, *[0] * 6)[:6]
    data = struct.pack("=iIQ6Q", nr, arch, 0, *padded)
    steps = [
        struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)
    ]
    value, at = 0, 0
    for _ in range(len(steps) + 1):
        code, yes, no, constant = steps[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
        elif code == 0x54:
            value &= constant
        elif code == 0x05:
            at += constant
        elif code == 0x06:
            if constant == _seccomp.ALLOW:
                return ALLOW
            if constant == _seccomp.KILL_PROCESS:
                return KILL
            assert constant & 0xFFFF0000 == 0x00050000
            return errno.errorcode[constant & 0xFFFF]
        else:
            test = {
                0x15: value == constant,
                0x25: value > constant,
                0x35: value >= constant,
                0x45: bool(value & constant),
            }[code]
            at += yes if test else no
    raise AssertionError("the program runs off its end")


def _program(arch: str, **changed: bool) -> bytes:
    options = {
        "namespaces": True,
        "allow_inet": True,
        "allow_unix": False,
        "allow_memfd": True,
        "allow_segments": True,
    }
    return _seccomp.build_filter(arch, **(options | changed))


def _call(
    arch: str, name: str, args: tuple[int, ...] = (), **changed: bool
) -> str | None:
    number = _numbers.numbers(arch).get(name)
    if number is None:
        return None
    return judge(_program(arch, **changed), number, args, _numbers.AUDIT_ARCH[arch])


@pytest.fixture(params=ARCHES)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", _seccomp.REFUSED)
def test_what_reaches_the_host_is_refused(arch: str, name: str) -> None:
    assert _call(arch, name) in {"EPERM", None}


@pytest.mark.parametrize("name", _seccomp.ABSENT)
def test_calls_with_flags_by_pointer_and_new_interfaces_look_absent(
    arch: str, name: str
) -> None:
    assert _call(arch, name) == "ENOSYS"


CLONE_NEW = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000)


@pytest.mark.parametrize(
    ("name", "args", "answer"),
    [
        ("clone", (17,), ALLOW),
        ("clone", (0x3D0F00,), ALLOW),  # what pthread_create passes
        *[("clone", (17 | flag,), "EPERM") for flag in (*CLONE_NEW, 0x40000000)],
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, 0x5412), "EPERM"),
        ("ioctl", (0, 0xFFFFFFFF_00005412), "EPERM"),  # the kernel cuts to 32 bits
        ("ioctl", (0, 0x541C), "EPERM"),
        ("ioctl", (0, 0x541D), "EPERM"),
        ("personality", (0xFFFFFFFF,), ALLOW),
        ("personality", (0,), ALLOW),
        ("personality", (0x0040000,), "EPERM"),
        ("socket", (2, 1, 0), ALLOW),
        ("socket", (10, 2 | 0o2000000, 17), ALLOW),
        ("socket", (2, 3, 1), "EACCES"),
        ("socket", (2, 2, 1), "EACCES"),  # ping socket
        ("socket", (1, 1, 0), "EACCES"),
        ("socket", (16, 3, 0), "EACCES"),
        ("socket", (17, 3, 0), "EACCES"),
        ("socket", (38, 5, 0), "EACCES"),
        ("socket", (40, 1, 0), "EACCES"),
        ("socketpair", (1, 1, 0), ALLOW),
        ("socketpair", (1, 5 | 0o2000000, 0), ALLOW),
        ("socketpair", (1, 2, 0), "EACCES"),
        ("socketpair", (1, 2 | 0o2004000, 0), "EACCES"),
        ("socketpair", (1, 3, 0), "EACCES"),  # the kernel makes a datagram pair of it
        ("socketpair", (40, 1, 0), "EACCES"),
        ("chmod", (0, 0o755), ALLOW),
        ("chmod", (0, 0o4755), "EPERM"),
        ("fchmod", (0, 0o2755), "EPERM"),
        ("fchmodat", (0, 0, 0o4755), "EPERM"),
        ("fchmodat2", (0, 0, 0o4755), "EPERM"),
        ("fchmodat", (0, 0, 0o1777), ALLOW),
        ("open", (0, 0o100, 0o644), ALLOW),
        ("open", (0, 0o100, 0o4755), "EPERM"),
        ("open", (0, 0, 0o4755), ALLOW),  # without O_CREAT the mode is undefined
        ("openat", (0, 0, 0o100, 0o4755), "EPERM"),
        ("openat", (0, 0, 0o20000000, 0o4755), "EPERM"),
        ("openat", (0, 0, 0, 0o4755), ALLOW),
        ("creat", (0, 0o4755), "EPERM"),
        ("mknod", (0, 0o104755), "EPERM"),
        ("mknodat", (0, 0, 0o104755), "EPERM"),
        ("mknodat", (0, 0, 0o010644), ALLOW),
        ("memfd_create", (0, 0), ALLOW),
        ("setpriority", (0, 377, 0), ALLOW),
        ("setpriority", (0, 0, 0), ALLOW),
        ("setpriority", (0, 77, 0), "EPERM"),  # ours, or a thread of ours
        ("prlimit64", (2,), "EPERM"),
        ("prlimit64", (299,), "EPERM"),
        ("prlimit64", (300,), ALLOW),
        ("prlimit64", (0,), ALLOW),
    ],
)
def test_arguments_decide(
    arch: str, name: str, args: tuple[int, ...], answer: str
) -> None:
    assert _call(arch, name, args) in {answer, None}


def test_options_close_what_they_name(arch: str) -> None:
    assert _call(arch, "memfd_create", allow_memfd=False) == "EPERM"
    assert _call(arch, "shmget", allow_segments=False) == "EPERM"
    assert _call(arch, "socket", (1, 1, 0), allow_unix=True) == ALLOW
    assert _call(arch, "socket", (2, 1, 0), allow_inet=False) == "EACCES"
    both = {"allow_inet": False, "allow_unix": True}
    assert _call(arch, "socket", (1, 1, 0), **both) == ALLOW
    assert _call(arch, "socket", (2, 1, 0), **both) == "EACCES"
    assert _call(arch, "socket", (16, 1, 0), allow_unix=True) == "EACCES"


@pytest.mark.parametrize(
    ("name", "itself", "another"),
    [
        ("prlimit64", (0, 7), (4242, 7)),
        ("sched_setaffinity", (0,), (4242,)),
        ("sched_setscheduler", (0,), (4242,)),
        ("setpriority", (0, 0, 5), (0, 4242, 5)),
        ("setpriority", (0, 0, 5), (2, 0, 5)),  # every process of the user
        ("ioprio_set", (1, 0, 5), (1, 4242, 5)),
        ("ioprio_set", (1, 0, 5), (3, 0, 5)),
    ],
)
def test_without_a_pid_namespace_only_this_process_is_reached(
    arch: str, name: str, itself: tuple[int, ...], another: tuple[int, ...]
) -> None:
    assert _call(arch, name, itself, namespaces=False) == ALLOW
    assert _call(arch, name, another, namespaces=False) == "EPERM"


@pytest.mark.parametrize(
    "name", [*_seccomp.WITHOUT_IPC_NAMESPACE, *_seccomp.WITHOUT_PID_NAMESPACE]
)
def test_without_namespaces_shared_objects_are_refused(arch: str, name: str) -> None:
    assert _call(arch, name, namespaces=False) == "EPERM"
    assert _call(arch, name) == ALLOW


def test_a_foreign_architecture_kills(arch: str) -> None:
    other = next(item for item in ARCHES if item != arch)
    for foreign in (_numbers.AUDIT_ARCH[other], 0x40000003, 0, 0xFFFFFFFF):
        assert judge(_program(arch), 0, (), foreign) == KILL


def test_the_x32_interface_kills() -> None:
    native = _numbers.AUDIT_ARCH["x86_64"]
    for number in (0x40000000, 0x40000000 | 520, 0x7FFFFFFF):
        assert judge(_program("x86_64"), number, (), native) == KILL


def test_every_number_has_an_answer_and_unknown_ones_look_absent(arch: str) -> None:
    program, native = _program(arch), _numbers.AUDIT_ARCH[arch]
    known = _numbers.KNOWN_RANGES[arch]
    for number in itertools.chain(range(600), (1023, 2**20, -1, -(2**31))):
        answer = judge(program, number, (), native)
        if not any(low <= number <= high for low, high in known):
            expected = {KILL} if arch == "x86_64" and number < 0 else {"ENOSYS"}
            assert answer in expected, number


def test_the_program_is_legal(arch: str) -> None:
    for options in itertools.product((False, True), repeat=5):
        names = (
            "namespaces",
            "allow_inet",
            "allow_unix",
            "allow_memfd",
            "allow_segments",
        )
        program = _seccomp.build_filter(arch, **dict(zip(names, options, strict=True)))
        count = len(program) // 8
        assert count <= 4096  # BPF_MAXINSNS
        for at in range(count):
            code, yes, no, _ = struct.unpack_from("=HBBI", program, at * 8)
            if code & 7 == 5:
                assert at + 1 + max(yes, no) < count


@pytest.mark.parametrize("arch", ARCHES)
def test_numbers_agree_with_the_installed_headers(arch: str) -> None:
    header = Path(_HEADERS[arch])
    if not header.exists():
        pytest.skip(f"the kernel header for {arch} is not installed")
    text = header.read_text()
    found = {
        name: int(number)
        for name, number in re.findall(
            r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", text, re.MULTILINE
        )
    }
    ours = _numbers.numbers(arch)
    compared = {name for name in ours if name in found}
    assert len(compared) > 80
    assert {name: ours[name] for name in compared} == {
        name: found[name] for name in compared
    }
    # What the architecture lacks here must be lacking there.
    missing = {name for name in _numbers.numbers("x86_64") if name not in ours}
    assert not missing & set(found)

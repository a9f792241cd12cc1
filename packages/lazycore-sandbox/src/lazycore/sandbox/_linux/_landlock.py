"""Landlock rights and domains: the second wall, and the whole wall without mounts.

Rights and the ABI that brought each one: landlock(7).
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    from collections.abc import Iterable

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13  # ABI 2
TRUNCATE = 1 << 14  # ABI 3
IOCTL_DEV = 1 << 15  # ABI 5

SCOPE_ABSTRACT_UNIX = 1
SCOPE_SIGNAL = 2
_NET_TCP = 3

_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = READ_FILE | READ_DIR
WRITE = (
    READ
    | WRITE_FILE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_FIFO
    | MAKE_SYM
    | REFER
    | TRUNCATE
)
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE
TERMINAL = READ | WRITE_FILE | IOCTL_DEV

Rule = tuple[int, int]
"""An open descriptor and the rights granted beneath its inode."""


def handled_rights(abi: int) -> int:
    """Return every file-system right that a kernel of this ABI can refuse."""
    rights = (1 << 13) - 1
    if abi >= 2:
        rights |= REFER
    if abi >= 3:
        rights |= TRUNCATE
    if abi >= 5:
        rights |= IOCTL_DEV
    return rights


def confine(rules: Iterable[Rule], *, abi: int, handle_tcp: bool) -> None:
    """Enforce a domain that grants `rules` and nothing else on this process.

    Args:
        rules: What is granted; rights unknown to this ABI are left out because
            the kernel does not refuse them either.
        abi: The kernel's Landlock ABI, at least 1.
        handle_tcp: Refuse TCP bind and connect, from ABI 4 on.

    Raises:
        OSError: If the kernel refuses; the process is then not confined.
    """
    _restrict(
        rules,
        abi=abi,
        net=_NET_TCP if handle_tcp else 0,
        scoped=SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL,
    )


def _restrict(rules: Iterable[Rule], *, abi: int, net: int, scoped: int) -> None:
    handled = handled_rights(abi)
    ruleset = _calls.landlock_ruleset(fs=handled, net=net, scoped=scoped, abi=abi)
    try:
        allow(ruleset, effective(rules, abi=abi))
        _calls.landlock_restrict(ruleset)
    finally:
        os.close(ruleset)


def effective(rules: Iterable[Rule], *, abi: int) -> list[Rule]:
    """Return the rules with the rights that this ABI knows for that kind of inode."""
    handled = handled_rights(abi)
    kept = []
    for fd, rights in rules:
        granted = rights & handled
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            granted &= _FILE_RIGHTS
        if granted:
            kept.append((fd, granted))
    return kept


def allow(ruleset: int, rules: Iterable[Rule]) -> None:
    """Add rules that are effective already."""
    for fd, rights in rules:
        _calls.landlock_allow(ruleset, fd, rights)


def scoped_ruleset(abi: int) -> int:
    """Make a ruleset that grants nothing and keeps signals and sockets inside."""
    return _calls.landlock_ruleset(
        fs=handled_rights(abi),
        net=0,
        scoped=SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL,
        abi=abi,
    )


def confine_files(rules: Iterable[Rule], *, abi: int) -> None:
    """Enforce the file rules alone: for a server that later confines its children."""
    _restrict(rules, abi=abi, net=0, scoped=0)


def open_rules(described: Iterable[tuple[str, int, int, int]]) -> list[Rule]:
    """Open each (path, rights, device, inode); a pinned inode must be the same.

    Raises:
        StageError: If a path was replaced since it was checked.
    """
    rules: list[Rule] = []
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        for path, rights, device, inode in described:
            fd = _calls.open_beneath_root(path, root)
            rules.append((fd, rights))
            info = os.fstat(fd)
            if inode and (info.st_dev, info.st_ino) != (device, inode):
                raise StageError("replaced", errno.ESTALE, path)  # noqa: TRY301 - closed
    except BaseException:
        for fd, _ in rules:
            os.close(fd)
        raise
    finally:
        os.close(root)
    return rules


def are_current(
    described: Iterable[tuple[str, int, int, int]], rules: Iterable[Rule]
) -> bool:
    """Tell whether the paths still lead to what `open_rules` opened for them."""
    try:
        return all(
            os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
            for (path, *_), (fd, _) in zip(described, rules, strict=True)
        )
    except OSError:
        return False


SCOPES_SINCE = 6
"""The Landlock ABI that brought them."""


def scope_signals(*, abi: int) -> None:
    """Forbid this process and what it starts to signal anything outside of itself.

    A later `kill(-1, SIGKILL)` then reaches exactly the processes started since.
    """
    ruleset = _calls.landlock_ruleset(fs=0, net=0, scoped=SCOPE_SIGNAL, abi=abi)
    try:
        _calls.landlock_restrict(ruleset)
    finally:
        os.close(ruleset)

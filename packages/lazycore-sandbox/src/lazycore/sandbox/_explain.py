"""Turn what a run accessed into the lines of a policy that it needs."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lazycore.sandbox._errors import SandboxBackendUnavailableError
from lazycore.sandbox._paths import FORBIDDEN_ROOTS, is_within
from lazycore.sandbox._system import system_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._linux._trace import Access
    from lazycore.sandbox._policy import SandboxPolicy
    from lazycore.sandbox._result import SandboxResult

_SYSTEM: str = sys.platform
_REFUSALS: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOENT, errno.EROFS, errno.ENOTDIR}
)
_MANY: Final = 4
_UNIX: Final = "1"  # AF_UNIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a run used of its policy, and what it was refused.

    Attributes:
        used: Options of `lazycore-sandbox run` that the run made use of.
        missing: Options that would have granted what it was refused.
        refused: One line per refusal: what, which, why.
    """

    used: tuple[str, ...]
    missing: tuple[str, ...]
    refused: tuple[str, ...]


def explain(accesses: Sequence[Access], policy: SandboxPolicy) -> Explanation:
    """Judge each access against `policy` and the host.

    A refused path counts only if it exists on the host (or, for a write, its
    directory does): programs look for many things that are nowhere.
    """
    granted = (*policy.allowed_read_paths, *policy.allowed_write_paths)
    known = (*granted, *system_paths(policy), *FORBIDDEN_ROOTS)
    used: set[str] = set()
    refused: dict[tuple[str, str], str] = {}
    for access in accesses:
        if access.kind in {"connect", "socket"}:
            _socket(access, policy, used, refused)
            continue
        if access.error == 0:
            used.update(_used(access, policy))
        elif access.error in _REFUSALS and _refusal(access, policy, known):
            refused[access.kind, access.subject] = os.strerror(access.error)
    return Explanation(
        used=tuple(sorted(used)),
        missing=tuple(_missing(refused, policy)),
        refused=tuple(
            f"{kind} {subject}: {why}"
            for (kind, subject), why in sorted(refused.items())
        ),
    )


def learn(
    executor: BaseSandboxExecutor, argv: Sequence[str], policy: SandboxPolicy
) -> tuple[SandboxResult, Explanation]:
    """Run `argv` confined under `policy` and explain what it needed.

    Raises:
        SandboxBackendUnavailableError: This system has no tracer.
        SandboxError: Whatever the run raises.
    """
    if _SYSTEM != "linux":
        raise SandboxBackendUnavailableError("explain traces by ptrace(2) of Linux")
    from lazycore.sandbox._linux._trace import trace

    traced = policy
    if policy.allowed_executables is not None:
        # The tracer waits in a shell until it is attached.
        listed = (*policy.allowed_executables, "/bin/sh")
        traced = replace(policy, allowed_executables=listed)
    result, accesses = trace(executor, argv, traced)
    return result, explain(accesses, policy)


def _used(access: Access, policy: SandboxPolicy) -> Iterable[str]:
    for option, paths in (
        ("--read", policy.allowed_read_paths),
        ("--write", policy.allowed_write_paths),
    ):
        for path in paths:
            if is_within(access.subject, path):
                yield f"{option} {path}"
    if access.kind == "execute" and access.subject in (
        policy.allowed_executables or ()
    ):
        yield f"--exec {access.subject}"


def _refusal(access: Access, policy: SandboxPolicy, known: tuple[str, ...]) -> bool:
    path = access.subject
    if any(is_within(path, denied) for denied in policy.denied_paths):
        return True
    if access.kind == "execute" and policy.allowed_executables is not None:
        return os.path.lexists(path)
    if access.kind == "write":
        if any(is_within(path, root) for root in policy.allowed_write_paths):
            return False
        inside = any(is_within(path, root) for root in FORBIDDEN_ROOTS)
        return not inside and os.path.isdir(os.path.dirname(path))
    if any(is_within(path, root) for root in known):
        return False
    # A directory above a grant is there, with nothing but the way to it.
    return os.path.lexists(path)


def _socket(
    access: Access,
    policy: SandboxPolicy,
    used: set[str],
    refused: dict[tuple[str, str], str],
) -> None:
    local = access.subject.startswith("unix:") or access.subject == _UNIX
    if access.kind == "socket" and (not local or access.error == 0):
        return
    allowed = policy.allow_unix_sockets if local else policy.allow_network
    option = "--unix-sockets" if local else "--net"
    if allowed:
        used.add(option)
    else:
        what = "a unix socket" if access.kind == "socket" else access.subject
        reason = "it met nothing but a network of its own"
        if access.error in _REFUSALS:
            reason = os.strerror(access.error)
        refused["connect", what] = reason


def _missing(
    refused: dict[tuple[str, str], str], policy: SandboxPolicy
) -> Iterable[str]:
    reads: set[str] = set()
    options: set[str] = set()
    for kind, subject in refused:
        if any(is_within(subject, denied) for denied in policy.denied_paths):
            continue  # closed on purpose: no option is suggested
        if kind == "connect":
            local = subject.startswith(("unix:", "a unix"))
            options.add("--unix-sockets" if local else "--net")
        elif kind == "write":
            options.add(f"--write {os.path.dirname(subject)}")
        elif kind == "execute" and policy.allowed_executables is not None:
            options.add(f"--exec {os.path.realpath(subject)}")
        else:
            reads.add(os.path.realpath(subject))
    return sorted(options | {f"--read {path}" for path in _outermost(reads)})


def _outermost(paths: set[str]) -> set[str]:
    """Name a directory once many of its files are wanted; drop what it covers."""
    by_folder: dict[str, int] = {}
    for path in paths:
        folder = os.path.dirname(path)
        by_folder[folder] = by_folder.get(folder, 0) + 1
    crowded = {
        folder
        for folder, count in by_folder.items()
        if count >= _MANY and folder != "/"
    }
    wanted = paths | crowded
    return {
        path
        for path in wanted
        if not any(other != path and is_within(path, other) for other in wanted)
    }

"""A whole root for one process that builds it in a mount namespace of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _calls
from lazycore.sandbox._linux._landlock import READ, TERMINAL, WRITE
from lazycore.sandbox._linux._mounts import SCRATCH, Root, new_scratch, new_terminals
from lazycore.sandbox._linux._proc import cover, new_proc

if TYPE_CHECKING:
    from lazycore.sandbox._linux._request import Request


class OwnRoot(Root):
    """The new root of this process; `enter` leaves the old one for good.

    Args:
        request: What it has to show.
    """

    def __init__(self, request: Request) -> None:
        base = request["base"]
        old = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        _calls.mount_setattr(old, add=0, recursive=True, propagation=_calls.MS_PRIVATE)
        # Before /proc is covered: a new one is allowed only where one is seen whole.
        proc = new_proc(base["pid_limit"])
        # /proc is where the new root waits: no policy path can lie in it, so it
        # hides no source.
        super().__init__(executable=base["executable"], old=old, place=old, name="proc")
        # First, because an interpreter may live in the host's /tmp.
        for place in SCRATCH:
            self._mount(new_scratch(base["scratch_bytes"], self._noexec), place)
            self.rules.append((self._last, WRITE | self._execute))
        self.base(base)
        self._mount(new_terminals(), "dev/pts")
        self.rules.append((self._last, TERMINAL))
        # The kernel lets a session's children mount a /proc only where they see
        # one that is writable and whole.
        if not request["session"]:
            _calls.mount_setattr(proc, add=_calls.ATTR_RDONLY, recursive=False)
        self._mount(proc, "proc")
        self.rules.append((proc, READ))
        os.fchdir(self._root)
        cover(base["hidden"])
        for bind in request["binds"]:
            self.step(bind)

    def _mount(self, tree: int, place: str) -> None:
        self.directory(place)
        _calls.move_mount(tree, self._root, place)
        self._last = tree

    def enter(self) -> None:
        """Make the root read-only, step into it and drop the old one."""
        _calls.mount_setattr(self._root, add=_calls.ATTR_RDONLY, recursive=False)
        step_into(self._root)
        os.close(self._old)


def step_into(root: int) -> None:
    """Make the mount at `root` this namespace's root and drop the old one."""
    os.fchdir(root)
    _calls.pivot_root(".", ".")
    # pivot_root(2): the old root is now stacked on the new one.
    _calls.detach(".")
    os.chdir("/")

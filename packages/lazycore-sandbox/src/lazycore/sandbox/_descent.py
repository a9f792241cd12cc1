"""Walk a directory tree of any depth by descriptors, whoever made it.

`os.fwalk` recurses and keeps a descriptor for each level, so a tree a thousand levels
deep, which any run can leave behind, ends a process whose thread has a small stack.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# Descriptors that stay open on the way down. From below, the walk goes back by '..'
# and looks whether it came to the directory that it had come from.
_KEPT: Final = 16
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Descent:
    """One walk below a directory, following no link.

    Iterating gives each entry's name and lstat(2), a directory's before what is in
    it. What vanishes meanwhile is passed over.

    Args:
        top: A descriptor of the directory; it stays the caller's.

    Raises:
        OSError: A directory cannot be listed or left, or an entry cannot be seen;
            ESTALE when a directory was moved while the walk was in it. `filename` is
            relative to the top.
    """

    def __init__(self, top: int) -> None:
        self._top = top
        self._open: list[int] = []
        self._ids: list[tuple[int, int]] = []
        self._pending: list[list[str]] = []
        self._parts: list[str] = []
        self._skipped = False

    def path(self, name: str) -> str:
        """Return the path of the entry given last, from the top."""
        return "/".join((*self._parts, name))

    def skip(self) -> None:
        """Leave out what is in the directory given last."""
        self._skipped = True

    def __iter__(self) -> Iterator[tuple[str, os.stat_result]]:
        """Walk; once for each object."""
        try:
            self._enter(".", self._top)
            while self._pending:
                if not self._pending[-1]:
                    self._leave()
                    continue
                name = self._pending[-1].pop()
                fd = self._open[-1]
                try:
                    info = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise self._failure(error, name) from error
                self._skipped = False
                yield name, info
                if stat.S_ISDIR(info.st_mode) and not self._skipped:
                    self._step_into(name, fd)
        finally:
            while self._open:
                os.close(self._open.pop())

    def _step_into(self, name: str, fd: int) -> None:
        try:
            self._enter(name, fd)
        except OSError as error:
            # It vanished, or something else took its name.
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                raise self._failure(error, name) from error
        else:
            self._parts.append(name)
            if len(self._open) > _KEPT:
                os.close(self._open.pop(0))

    def _enter(self, name: str, parent: int) -> None:
        fd = os.open(name, _OPEN, dir_fd=parent)
        try:
            info = os.fstat(fd)
            names = os.listdir(fd)
        except BaseException:
            os.close(fd)
            raise
        self._open.append(fd)
        self._ids.append((info.st_dev, info.st_ino))
        self._pending.append(names)

    def _leave(self) -> None:
        self._pending.pop()
        self._ids.pop()
        inner = self._open.pop()
        try:
            if self._ids and not self._open:
                self._open.append(self._parent_of(inner))
        finally:
            os.close(inner)
        if self._parts:
            self._parts.pop()

    def _parent_of(self, inner: int) -> int:
        try:
            fd = os.open("..", _OPEN, dir_fd=inner)
        except OSError as error:
            raise self._failure(error, "..") from error
        info = os.fstat(fd)
        if (info.st_dev, info.st_ino) != self._ids[-1]:
            os.close(fd)
            raise OSError(
                errno.ESTALE, "a directory was moved meanwhile", "/".join(self._parts)
            )
        return fd

    def _failure(self, error: OSError, name: str) -> OSError:
        return OSError(error.errno, error.strerror, self.path(name))

"""What a host lacks for the moment: nothing that a probe should remember."""

from __future__ import annotations

import errno
import os
import tempfile

from lazycore.sandbox._guarantees import BackendReport

_ROOM = ("EDQUOT", "ENOSPC", "EROFS")
_REMEDIES = {
    **dict.fromkeys(_ROOM, "make room in {place}, or set TMPDIR to a place with some"),
    **dict.fromkeys(("EMFILE", "ENFILE"), "close files, or raise `ulimit -n`"),
    **dict.fromkeys(("EAGAIN", "ENOMEM"), "end processes, or raise `ulimit -u`"),
}


class ShortageError(Exception):
    """Something is short for now; the message says what, `remedy` what mends it."""

    def __init__(self, error: OSError, remedy: str) -> None:
        super().__init__(str(error))
        self.remedy = remedy

    def report(self, backend: str) -> BackendReport:
        """Say that a backend cannot be probed for now."""
        return BackendReport(
            backend=backend,
            available=False,
            reason=str(self),
            remedy=self.remedy,
            notes={"uid": str(os.geteuid()), "kernel": os.uname().release},
        )


def shortage(error: BaseException) -> ShortageError | None:
    """Return the shortage that an error tells of, None for another kind of error."""
    if not isinstance(error, OSError):
        return None
    remedy = _REMEDIES.get(errno.errorcode.get(error.errno or 0, ""))
    if remedy is None:
        return None
    return ShortageError(error, remedy.format(place=_place()))


def _place() -> str:
    """Return where temporary files of this process lie."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:  # nowhere at all
        return os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - to be named

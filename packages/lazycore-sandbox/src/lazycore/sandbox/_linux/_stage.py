"""A failed step of the confinement, as the processes of the launcher pass it on."""

from __future__ import annotations

import os


class StageError(Exception):
    """A step of the confinement failed; carries where, for the caller's message."""

    def __init__(self, stage: str, code: int, detail: str = "") -> None:
        super().__init__(f"{stage}: {os.strerror(code)} {detail}")
        self.stage = stage
        self.code = code
        self.detail = detail

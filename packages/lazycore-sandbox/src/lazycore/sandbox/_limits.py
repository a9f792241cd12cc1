"""Upper bounds of one run."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from lazycore.sandbox._errors import SandboxPolicyError


def check_bound(name: str, value: float | None, *, whole: bool) -> None:
    """Refuse what is no positive number; None bounds nothing."""
    if value is None:
        return
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise SandboxPolicyError(f"{name} must be a number or None, got {value!r}")
    if not math.isfinite(value) or value <= 0:
        raise SandboxPolicyError(
            f"{name} must be above zero, got {value!r}; use None for no limit"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Upper bounds of one run. None leaves a resource unbounded.

    Attributes:
        memory_bytes: Memory of the run in bytes.
        cpu_s: CPU time of the run in seconds, all processes together.
        processes: Processes and threads at one time, the whole tree.
        file_size_bytes: Size of any file the run writes, in bytes.
        open_files: Open descriptors per process.
        workspace_bytes: Bytes the run may add to its write paths and its
            private scratch space.
        output_bytes: Bytes kept of each of stdout and stderr; the head and the
            tail survive, the middle is cut and counted.

    Raises:
        SandboxPolicyError: If a bound is not a positive number.

    Examples:
        >>> ResourceLimits(memory_bytes=512 * 2**20, cpu_s=5).processes
        512
    """

    memory_bytes: int | None = None
    cpu_s: float | None = None
    processes: int | None = 512
    file_size_bytes: int | None = None
    open_files: int | None = 1024
    workspace_bytes: int | None = None
    output_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            check_bound(item.name, value, whole=item.name != "cpu_s")
            if value is not None:
                # Of an IntEnum or a NumPy float only the number is meant.
                number = float(value) if isinstance(value, float) else int(value)
                object.__setattr__(self, item.name, number)
        if self.output_bytes is None:
            raise SandboxPolicyError(
                "output_bytes must be a number: output is always bounded"
            )

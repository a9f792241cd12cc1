"""Name a failed step of a launch and what mends it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from lazycore.sandbox._errors import (
    SandboxCommandNotFoundError,
    SandboxError,
    SandboxLaunchError,
    SandboxPolicyError,
    SandboxPolicyViolationError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def failure(told: Mapping[str, Any]) -> SandboxError:
    """Turn a reported step into the exception that names it and the remedy."""
    stage, code, detail = str(told["stage"]), int(told["errno"]), str(told["detail"])
    reason = os.strerror(code)
    if stage == "exec" and code == errno.ENOENT:
        return SandboxCommandNotFoundError(
            code,
            "the command, or the interpreter it names, does not exist inside the "
            "sandbox; add its directory to allowed_read_paths, or to PATH in env",
            detail,
        )
    if stage == "exec" and code in {errno.EACCES, errno.EPERM}:
        return SandboxPolicyViolationError(
            code, "the policy does not let this program be executed", detail
        )
    if stage == "replaced":
        return SandboxPolicyError(
            f"{detail!r} was replaced by another file or directory between the check "
            "and the run; nothing was run"
        )
    if stage == "control group":
        return SandboxLaunchError(
            code,
            f"no control group can be made for the limits of the run: {reason}; "
            "nothing was run (drop limits.memory_bytes or limits.processes, or see "
            "that this user may write there)",
            detail,
        )
    text = f"step {stage!r} failed: {reason}; the target was not started"
    return SandboxLaunchError(code, text, detail or None)
